/** Proof that comes after another component has moved the operation. */
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
 * Keeps a proof that could not be recorded as the outcome. With `isReported` the operation gets its reference and a status read, and is
 * held if it is `accepted` again, so that it is not sent twice. A proof that contradicts the final state, such as a payment that a person
 * recorded as failed, is recorded beside it, and logged; that of a second payment is only logged. Repeats that while the store is unavailable: no status read of a final or free
 * operation brings the proof again. `mayRepeat` ends the repetitions of a caller that must stop. The log has each proof that is not kept.
 */
export const keepLateProof = (
  { metrics, outcomes }: Pick<SubmissionServices, "metrics" | "outcomes">,
  about: About,
  proof: Proof,
  { isReported, mayRepeat = always }: { readonly isReported: boolean; readonly mayRepeat?: Effect.Effect<boolean> }
) =>
  Effect.gen(function*() {
    const report = withinStore(outcomes.report(about.operation_id, proof.reference))
    if (isReported && !(yield* whileUnavailable(report, mayRepeat))) {
      return yield* logLostProof(about, proof, "another worker has claimed the operation, and may send it again")
    }
    const contradict = withinStore(outcomes.contradict(about.operation_id, proof))
    const final = yield* whileUnavailable(contradict, mayRepeat)
    if (final === null) return
    if (metrics !== null) {
      const { reversals, unexpectedPayments } = metrics.of(about.provider)
      const count = proof.state === "failed" ? reversals : unexpectedPayments
      count.value++
    }
    yield* Effect.annotateLogs(
      Effect.logError(
        "The provider proves another outcome or order than the final one: ask it what it did, and stop a second request of the same"
      ),
      { ...factsOf(about, proof), state: final.state, known_reference: final.reference }
    )
  }).pipe(
    // Also of an interruption: the process stops.
    Effect.onError((cause) => logLostProof(about, proof, describeCause(cause))),
    Effect.ignoreCause
  )
