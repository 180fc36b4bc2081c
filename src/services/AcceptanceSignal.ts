/**
 * Announces acceptances to the workers, so that they need not wait for their next poll.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../domain/Grant.ts"

interface AcceptanceSignalShape {
  /** Announces an operation for this provider. Never waits and never fails. */
  readonly announce: (provider: ProviderName) => Effect.Effect<void>
  /** The providers of operations that are accepted from now on. Never ends. */
  readonly announced: Stream.Stream<ProviderName>
}

const silent: AcceptanceSignalShape = { announce: () => Effect.void, announced: Stream.never }

/**
 * A hint only: announcements may be lost or doubled, so workers also poll. Without a layer nothing is announced.
 */
export const AcceptanceSignal: Context.Reference<AcceptanceSignalShape> = Context.Reference(
  "financial-agents-gateway/services/AcceptanceSignal",
  { defaultValue: () => silent }
)
