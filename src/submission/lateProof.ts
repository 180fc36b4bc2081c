/** Proof that comes after another component has moved the operation. */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../domain/Grant.ts"
import type { OperationId } from "../domain/Operation.ts"
import type { Proof } from "../services/rules/contradictions.ts"
import { whileUnavailable, withinStore } from "./storeStatements.ts"
import { describeCause } from "./submissionLog.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"

interface About {
  readonly operation_id: OperationId
  readonly provider: ProviderName
}

const factsOf = (about: About, { reference, state }: Proof) => ({ ...about, proves: state, reference })

/** Logs a proof that is nowhere else. */
export const logLostProof = (about: About, proof: Proof, cause: string): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logError("An answer of the provider is not recorded: compare it with the operation"),
    { ...factsOf(about, proof), cause }
  )

const always = Effect.succeed(true)

/**
 * Keeps a proof that could not be recorded as the outcome. With `claimed_at` of its claim, or null without a claim, the operation gets its
 * reference and a status read, and is held if it is `accepted` again, so that it is not sent twice. A proof that contradicts the final state,
 * such as a payment that a person recorded as failed, is recorded beside it, and logged; that of a second order is only logged. Repeats that
 * while the store is unavailable: no status read of a final or free operation brings the proof again. `mayRepeat` ends the repetitions of a
 * caller that must stop. The log has each proof that is not kept.
 */
export const keepLateProof = (
  { metrics, outcomes }: Pick<SubmissionServices, "metrics" | "outcomes">,
  about: About,
  proof: Proof,
  { claimed_at, mayRepeat = always }: {
    readonly claimed_at: DateTime.Utc | null | undefined
    readonly mayRepeat?: Effect.Effect<boolean>
  }
) =>
  Effect.gen(function*() {
    const id = about.operation_id
    const reported = claimed_at === undefined
      ? null
      : yield* whileUnavailable(withinStore(outcomes.report(id, { ...proof, claimed_at })), mayRepeat)
    if (reported?.as === "claimed") {
      return yield* logLostProof(about, proof, "another worker has claimed the operation, and may send it again")
    }
    if (reported?.as === "held") yield* Effect.annotateLogs(Effect.logWarning(heldAgain), factsOf(about, proof))
    const known = yield* whileUnavailable(withinStore(outcomes.contradict(id, proof)), mayRepeat)
    if (known === null) {
      return reported === null || reported.isKept ? undefined : yield* logLostProof(about, proof, notShown)
    }
    if (metrics !== null) {
      const { reversals, unexpectedPayments } = metrics.of(about.provider)
      const count = proof.state === "failed" ? reversals : unexpectedPayments
      count.value++
    }
    yield* Effect.annotateLogs(
      Effect.logError(
        "The provider proves another outcome or order than the recorded one: ask it what it did, and stop a second request of the same"
      ),
      { ...factsOf(about, proof), state: known.state, known_reference: known.reference }
    )
  }).pipe(
    // Also of an interruption: the process stops.
    Effect.onError((cause) => logLostProof(about, proof, describeCause(cause))),
    Effect.ignoreCause
  )

const notShown =
  "the operation is not final, and the answer has no reference, or is of another claim than the recorded one"

const heldAgain =
  "An operation that may have been sent is accepted again: it is held. What the provider named is settled by status reads; else ask the provider, and release it alone"
