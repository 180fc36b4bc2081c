/** Outcomes: what workers and reconcilers record of the operations that they sent or read. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Operation, OperationId, OperationNotFound, Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { OutcomeRecord, Recording } from "../../domain/Submission.ts"
import type { KnownOutcome, LateProof, Proof, Reported } from "../rules/contradictions.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/**
 * The first record of each operation, with its index in the list. One statement moves an operation once, and the order in which it
 * would come to two records of the same operation is not defined.
 */
export const firstOfEach = <A extends { readonly id: OperationId }>(
  records: ReadonlyArray<A>
): ReadonlyArray<readonly [record: A, index: number]> => {
  const seen = new Set<OperationId>()
  return records.flatMap((record, index) => {
    if (seen.has(record.id)) return []
    seen.add(record.id)
    return [[record, index] as const]
  })
}

type RecordOutcome = (
  id: OperationId,
  revision: number,
  outcome: Outcome,
  recording: Recording
) => Effect.Effect<Operation, StaleOperation | OperationNotFound | StoreUnavailable>

export class Outcomes extends Context.Service<Outcomes, {
  /**
   * Records the outcome of an operation if it is still at `revision` (compare-and-set), and if it has no reference yet or the
   * same one. Otherwise it fails with `StaleOperation`: another component recorded first, or a status read found another
   * reference. It also fails for a returned claim, which has no holder, and for `provider_never_received` after an acknowledgement.
   *
   * After `StoreUnavailable` it is unknown whether the outcome was recorded: record it again. `StaleOperation` then means that
   * it was, or that another component was faster.
   */
  readonly record: RecordOutcome
  /**
   * Records outcomes in one statement, each by the rules of `record`. Returns for each, in order, whether it was recorded. Nothing
   * is known of the others: `record` tells why it refuses one, and waits for one that another transaction has locked. Of several
   * records of one operation it considers only the first.
   *
   * After `StoreUnavailable` either all or none of the permitted outcomes were recorded: record them again. A row that breaks a
   * rule of the database fails the whole call with a defect, and then nothing was recorded.
   */
  readonly recordAll: (records: ReadonlyArray<OutcomeRecord>) => Effect.Effect<ReadonlyArray<boolean>, StoreUnavailable>
  /**
   * Records the outcome that a status read proved of a held operation, which was sent before the timeline changed. The operation
   * passes through `submitting`, in one transaction, and nothing is sent.
   */
  readonly recordHeld: RecordOutcome
  /**
   * Reports an operation that the worker may have sent, and that is no longer in the state of its claim. A rescued operation
   * becomes due for a status read at once. One that is `accepted` again, because a failover lost the claim, or because a person released
   * it, is held until its own release. One that has another reference keeps that, and is put under review. So is one of another claim. After
   * the proof of an order without a reference, no "not found" and no fence proves anything.
   */
  readonly report: (id: OperationId, proof: LateProof) => Effect.Effect<Reported, StoreUnavailable>
  /**
   * Records, once, that a provider proved another outcome than the final one of the operation, such as a payment after a person recorded
   * that it failed. The operation stays as it is. Yields how it stands, also if the proof is of a second payment, which is not recorded.
   * Null: the proof agrees with it.
   */
  readonly contradict: (id: OperationId, proof: Proof) => Effect.Effect<KnownOutcome | null, StoreUnavailable>
}>()("financial-agents-gateway/services/queue/Outcomes") {}
