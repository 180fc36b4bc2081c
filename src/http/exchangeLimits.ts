/** Limits of what the gateway asks of other servers: of the time, of failures in a row, and of the bytes of a response. */
import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schedule from "effect/Schedule"

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

/**
 * Circuit breakers that open after `failures` consecutive failures: for one second at first, twice as long after each
 * failed probe, and for 30 seconds at most. Their state stays in the process. A circuit without calls for
 * `idleTimeToLive` forgets its failures; default: one hour.
 */
export const layerCircuit = (
  { failures, idleTimeToLive }: { readonly failures: number; readonly idleTimeToLive?: Duration.Input }
): Layer.Layer<CircuitBreaker.CircuitBreaker> =>
  CircuitBreaker.layer({
    tripPolicy: CircuitBreaker.consecutive(failures),
    openDuration: Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])
  }).pipe(Layer.provide(CircuitBreaker.layerStoreMemory({ idleTimeToLive })))

/** Makes a `fetch` whose response bodies fail after this many bytes, counted after decompression. The rest is not read. */
export const cappedFetch = (limit: number): typeof globalThis.fetch => async (input, init) => {
  const response = await globalThis.fetch(input, init)
  if (response.body === null) return response
  let size = 0
  const body = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        size += chunk.length
        if (size > limit) controller.error(new Error(`The body is longer than ${limit} bytes`))
        else controller.enqueue(chunk)
      }
    })
  )
  const { headers, status, statusText } = response
  return new Response(body, { headers, status, statusText })
}
