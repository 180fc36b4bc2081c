/**
 * Outcomes in memory: what workers and reconcilers record of claimed and held operations.
 */
import * as Effect from "effect/Effect"
import { type Operation, type OperationId, type Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { OutcomeRecord, Recording, ReviewTerms } from "../../domain/Submission.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import { isForeign, isOtherReference, type MemoryQueueTable } from "./MemoryQueueTable.ts"
import { isHeldClaim, isReturnedClaim, moveRecord, withReference } from "./recordRules.ts"

export const makeOutcomes = (table: MemoryQueueTable) => {
  const { after, findAt, nextRead, now, records, update } = table

  const moved = (record: MemoryRecord, outcome: Outcome, recording: Recording): Operation =>
    update(withReference(
      moveRecord(record, outcome, recording.evidence, now(), nextRead(record, recording.due_in)),
      recording.reference
    )).operation

  /** Finds the record if neither the claim nor the reference contradicts the recording. A returned claim has no holder. */
  const findFor = (id: OperationId, revision: number, recording: Recording) =>
    Effect.flatMap(
      findAt(id, revision),
      (found) =>
        isReturnedClaim(found) || isForeign(found, recording.send_before) ||
          isOtherReference(found, recording.reference)
          ? Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
          : Effect.succeed(found)
    )

  const record = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, recording), (found) => moved(found, outcome, recording))

  const recordAll = (all: ReadonlyArray<OutcomeRecord>) =>
    Effect.forEach(all, ({ id, outcome, recording, revision }) =>
      record(id, revision, outcome, recording).pipe(
        Effect.as(true),
        Effect.orElseSucceed(() => false)
      ))

  const recordHeld = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, recording), (found) =>
      moved(
        moveRecord(found, { state: "submitting" }, recording.evidence, now(), after(recording.due_in)),
        outcome,
        recording
      ))

  /** The age is that of `accepted` for a returned claim: its operation waits in the same way. */
  const ageOf = ({ operation: { state } }: MemoryRecord, terms: ReviewTerms) =>
    terms[state === "submitting" ? "accepted" : state as keyof ReviewTerms]

  const reviewAged = (limit: number, terms: ReviewTerms) =>
    Effect.sync(() =>
      records().filter((record) => !record.operation.terminal && !record.operation.under_review && !isHeldClaim(record))
        .map((record) => [record, table.reviewAfter(record, ageOf(record, terms))] as const)
        .filter(([before, after]) => before !== after).slice(0, limit).map((pair) => update(pair[1])).length
    )

  return { record, recordAll, recordHeld, reviewAged }
}
