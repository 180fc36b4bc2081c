/** Proof that comes after another component has recorded an outcome of the operation. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { ProviderName } from "../domain/Grant.ts"
import type { OperationId } from "../domain/Operation.ts"
import type { Proof } from "../services/rules/contradictions.ts"
import { withinStore } from "./storeStatements.ts"
import { logFailure } from "./submissionLog.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"

/** From 200 ms, doubling, for about a minute: no status read of a final operation brings the proof again. */
const retries = { times: 8, schedule: Schedule.exponential("200 millis") }

const always = Effect.succeed(true)

/**
 * Records and logs a proof that contradicts the final state of the operation, such as a payment that a person recorded as failed. Does
 * nothing if the proof agrees with the state, or if that is not final: then status reads go on. A caller that must stop ends the repetitions
 * by `mayRepeat`. The log has each proof that could not be recorded.
 */
export const keepLateProof = (
  { metrics, outcomes }: Pick<SubmissionServices, "metrics" | "outcomes">,
  about: { readonly operation_id: OperationId; readonly provider: ProviderName },
  proof: Proof,
  mayRepeat: Effect.Effect<boolean> = always
) => {
  const facts = { ...about, proves: proof.state, reference: proof.reference }
  return withinStore(outcomes.contradict(about.operation_id, proof)).pipe(
    Effect.retry({ ...retries, while: () => mayRepeat }),
    Effect.flatMap((final) => {
      if (final === null) return Effect.void
      if (metrics !== null) metrics.of(about.provider).reversals.value++
      return Effect.annotateLogs(
        Effect.logError(
          "The provider proves another outcome than the final one: ask it what it did, and stop a second request of the same"
        ),
        { ...facts, state: final.state }
      )
    }),
    Effect.catchCause((cause) =>
      Effect.annotateLogs(
        Effect.andThen(
          logFailure("Could not compare a late proof with the operation", cause),
          Effect.logError("A proof of the provider is not recorded: compare it with the operation")
        ),
        facts
      )
    )
  )
}
