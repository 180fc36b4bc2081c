/** Signals that announce work to the workers and reconcilers of all processes, so that they need not wait for their next poll. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../domain/Grant.ts"

interface WorkSignal {
  /** Announces work for this provider. Never waits and never fails. */
  readonly announce: (provider: ProviderName) => Effect.Effect<void>
  /** The providers of work that is announced from now on. Never ends. */
  readonly announced: Stream.Stream<ProviderName>
}

const silent: WorkSignal = { announce: () => Effect.void, announced: Stream.never }

/** Accepted operations. A hint only: announcements may be lost or doubled, so workers also poll. Without a layer it is silent. */
export const AcceptanceSignal: Context.Reference<WorkSignal> = Context.Reference(
  "financial-agents-gateway/services/AcceptanceSignal",
  { defaultValue: () => silent }
)

/** Status reads that a hint moved to now. Announcements may be lost or doubled, so reconcilers also poll. */
export const HintSignal: Context.Reference<WorkSignal> = Context.Reference(
  "financial-agents-gateway/services/queue/HintSignal",
  { defaultValue: () => silent }
)
