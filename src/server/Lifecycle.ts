/**
 * Which requests the gateway lets in, and how it stops: it turns new ones away and lets those inside finish.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"

export interface LifecycleOptions {
  /** Requests for operations that may be inside at once; more are turned away at once rather than queued. */
  readonly maxInFlight: number
  /** Milliseconds within which such a request is answered, be it with a 503. */
  readonly deadline: number
  /** Milliseconds for which a shutdown waits for the requests inside. */
  readonly drainTimeout: number
}

const defaults: LifecycleOptions = { maxInFlight: 1024, deadline: 1800, drainTimeout: 10_000 }

export class Lifecycle extends Context.Service<Lifecycle, {
  readonly options: LifecycleOptions
  /** True from the moment at which the shutdown began. */
  readonly isDraining: () => boolean
  /** Runs the effect as a request inside, or `orElse` while there is no room or no future. */
  readonly admit: <A, E, R, E2, R2>(
    effect: Effect.Effect<A, E, R>,
    orElse: Effect.Effect<A, E2, R2>
  ) => Effect.Effect<A, E | E2, R | R2>
  /** Lets nobody in any more, and waits for those inside: until the last is out, or the drain timeout has passed. */
  readonly drain: Effect.Effect<void>
}>()("financial-agents-gateway/server/Lifecycle") {
  static readonly layer = (options: Partial<LifecycleOptions> = {}): Layer.Layer<Lifecycle> =>
    Layer.sync(Lifecycle, () => {
      const settings = { ...defaults, ...options }
      let draining = false
      let inFlight = 0
      const idle = Latch.makeUnsafe(false)
      const leave = Effect.sync(() => {
        inFlight--
        if (draining && inFlight === 0) idle.openUnsafe()
      })
      return {
        options: settings,
        isDraining: () => draining,
        admit: <A, E, R, E2, R2>(effect: Effect.Effect<A, E, R>, orElse: Effect.Effect<A, E2, R2>) =>
          Effect.suspend((): Effect.Effect<A, E | E2, R | R2> => {
            if (draining || inFlight >= settings.maxInFlight) return orElse
            inFlight++
            return Effect.ensuring(effect, leave)
          }),
        drain: Effect.suspend(() => {
          draining = true
          return inFlight === 0
            ? Effect.void
            : Effect.timeoutOrElse(idle.await, { duration: settings.drainTimeout, orElse: () => Effect.void })
        })
      }
    })
}
