/**
 * The begin of the shutdown of the admin listener. It waits for open responses, so endless ones must end then.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"

export class AdminShutdown extends Context.Service<AdminShutdown, {
  /** Begins the shutdown. */
  readonly begin: Effect.Effect<void>
  /** Waits until it begins. */
  readonly begun: Effect.Effect<void>
}>()("financial-agents-gateway/operator/AdminShutdown") {
  static readonly layer: Layer.Layer<AdminShutdown> = Layer.sync(AdminShutdown, () => {
    const latch = Latch.makeUnsafe(false)
    return AdminShutdown.of({ begin: Effect.asVoid(latch.open), begun: Effect.asVoid(latch.await) })
  })
}
