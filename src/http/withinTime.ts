import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

interface TimeLimit<B, E> {
  readonly duration: Duration.Duration
  /** Takes the place of the effect at the end of the time. */
  readonly orElse: () => Effect.Effect<B, E>
  /**
   * Whether the caller goes on without the end of an interrupted effect. Otherwise an effect that cannot be interrupted holds the
   * caller for ever.
   */
  readonly isDetached?: boolean
}

/**
 * As `Effect.timeoutOrElse`, with half of its fibers, because each request of a worker passes several time limits. An effect that
 * ends at once starts no timer.
 */
export const withinTime = <A, E, R, B, E2>(
  effect: Effect.Effect<A, E, R>,
  { duration, isDetached = false, orElse }: TimeLimit<B, E2>
): Effect.Effect<A | B, E | E2, R> => {
  const interrupt = (fiber: Fiber.Fiber<A, E>) =>
    isDetached ? Effect.asVoid(Effect.forkDetach(Fiber.interrupt(fiber))) : Fiber.interrupt(fiber)
  const raceTimer = (fiber: Fiber.Fiber<A, E>, timer: Fiber.Fiber<void>) =>
    Effect.callback<A | B, E | E2>((resume) => {
      fiber.addObserver(resume)
      timer.addObserver(() => resume(Effect.andThen(interrupt(fiber), Effect.suspend(orElse))))
    }).pipe(
      Effect.onInterrupt(() => interrupt(fiber)),
      Effect.ensuring(Effect.sync(() => timer.interruptUnsafe()))
    )
  return Effect.flatMap(
    isDetached
      ? Effect.forkDetach(effect, { startImmediately: true })
      : Effect.forkChild(effect, { startImmediately: true }),
    (fiber) =>
      fiber.pollUnsafe()
        ?? Effect.flatMap(Effect.forkChild(Effect.sleep(duration)), (timer) => raceTimer(fiber, timer))
  )
}
