import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
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
 * ends at once starts no timer, and one that has already ended, such as `Effect.succeed(1)`, no fiber.
 *
 * The effect starts in the step that also prepares its interruption. So an interruption of the caller never leaves it running.
 */
export const withinTime = <A, E, R, B, E2>(
  effect: Effect.Effect<A, E, R>,
  { duration, isDetached = false, orElse }: TimeLimit<B, E2>
): Effect.Effect<A | B, E | E2, R> => {
  if (Exit.isExit(effect)) return effect
  return Effect.contextWith((context: Context.Context<R>) =>
    Effect.callback<A | B, E | E2>((resume) => {
      const run = Effect.runForkWith(context)
      const fiber = run(effect)
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return resume(exit)
      const interrupt = isDetached
        ? Effect.withFiber(({ id }) => Effect.sync(() => fiber.interruptUnsafe(id)))
        : Effect.uninterruptible(Fiber.interrupt(fiber))
      const timer = run(Effect.sleep(duration))
      fiber.addObserver((exit) => {
        timer.interruptUnsafe()
        resume(exit)
      })
      timer.addObserver((exit) => {
        if (Exit.isSuccess(exit)) resume(Effect.andThen(interrupt, Effect.suspend(orElse)))
      })
      return Effect.andThen(Effect.sync(() => timer.interruptUnsafe()), interrupt)
    })
  )
}
