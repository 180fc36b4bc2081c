/**
 * Announces status reads that a hint moved to now, so that the reconcilers need not wait for their next poll.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../../domain/Grant.ts"

interface HintSignalShape {
  /** Announces a due status read of this provider. Never waits and never fails. */
  readonly announce: (provider: ProviderName) => Effect.Effect<void>
  /** The providers whose status reads are announced from now on. Never ends. */
  readonly announced: Stream.Stream<ProviderName>
}

const silent: HintSignalShape = { announce: () => Effect.void, announced: Stream.never }

/** Announcements may be lost or doubled, so reconcilers also poll. Without a layer nothing is announced. */
export const HintSignal: Context.Reference<HintSignalShape> = Context.Reference(
  "financial-agents-gateway/services/queue/HintSignal",
  { defaultValue: () => silent }
)
