import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

/**
 * Runs an adapter so that nobody has to wait for it: whoever is interrupted or loses patience goes on at once, and the
 * adapter is interrupted behind their back. Some cannot be interrupted, and would hold their place for ever.
 */
export const abandonable = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(
    Effect.forkDetach(effect, { startImmediately: true }),
    (fiber) => Effect.onInterrupt(Fiber.join(fiber), () => Effect.asVoid(Effect.forkDetach(Fiber.interrupt(fiber))))
  )
