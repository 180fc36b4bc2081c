/**
 * Tells workers that something was accepted, so that they need not wait for their next look.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Provider } from "../domain/Grant.ts"

interface AcceptanceSignalShape {
  /** Says that an operation for this provider was accepted. Never waits and never fails. */
  readonly announce: (provider: Provider) => Effect.Effect<void>
  /** The providers for which something was accepted, from now on. Never ends. */
  readonly announced: Stream.Stream<Provider>
}

const silent: AcceptanceSignalShape = { announce: () => Effect.void, announced: Stream.never }

/**
 * A hint and no more: announcements may be lost or doubled, and whoever listens looks from time to time all the same.
 * Without a layer nothing is announced.
 */
export const AcceptanceSignal: Context.Reference<AcceptanceSignalShape> = Context.Reference(
  "financial-agents-gateway/services/AcceptanceSignal",
  { defaultValue: () => silent }
)
