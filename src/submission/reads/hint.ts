/**
 * Takes hints from providers: they move status reads forward, and wake the reconcilers that read.
 */
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import { isOperationId } from "../../domain/Operation.ts"
import { type HintedOperation, isProviderReference } from "../../domain/Submission.ts"
import { SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { HintSignal } from "../../services/queue/HintSignal.ts"
import { StatusReads } from "../../services/queue/StatusReads.ts"
import type { Poller } from "../Poller.ts"
import { SubmissionPolicy } from "../SubmissionPolicy.ts"
import { withinStore } from "../withinStore.ts"

/**
 * The operation of a hint: by the provider's reference, or by the operation's id if the provider echoes it. Both are text of the
 * provider, unchecked.
 */
export type HintSubject = { readonly reference: string } | { readonly operation_id: string }

/** The operation that a hint names; null if no operation can have such a name. */
const named = (about: HintSubject): HintedOperation | null => {
  if ("reference" in about) return isProviderReference(about.reference) ? { reference: about.reference } : null
  return isOperationId(about.operation_id) ? { operation_id: about.operation_id } : null
}

/** `Reconciler.hint`. It wakes the poller of this process, or those of other processes if this one has none. */
export const makeHint = Effect.fnUntraced(function*(pollers: ReadonlyMap<ProviderName, Poller>) {
  const statusReads = yield* StatusReads
  const signal = yield* HintSignal
  const policy = yield* SubmissionPolicy
  const metrics = yield* SubmissionMetrics
  for (const provider of pollers.keys()) metrics?.hintsOf(provider)

  return Effect.fn("Reconciler.hint")(function*(provider: ProviderName, about: HintSubject) {
    const operation = named(about)
    const effect = operation === null ? "ignored" : yield* withinStore(
      statusReads.hint(provider, operation, policy.hintInterval)
    ).pipe(Effect.provideService(SubmissionPolicy, policy))
    const isTaken = effect !== "ignored"
    if (metrics !== null) metrics.hintsOf(provider)[isTaken ? "taken" : "ignored"].value++
    yield* Effect.annotateLogs(Effect.logDebug("Hint of a provider"), { provider, effect })
    if (effect === "due") yield* pollers.get(provider)?.wake ?? signal.announce(provider)
    return isTaken
  })
})
