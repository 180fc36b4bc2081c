/**
 * Outcomes in memory: what workers, reconcilers and the rescuer record of claimed and held operations.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Operation, type OperationId, type Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { Recording, ReviewTerms } from "../../domain/Submission.ts"
import { rescueEvidence } from "../internal/rescueEvidence.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import { isForeign, isOtherReference, type MemoryQueueTable } from "./MemoryQueueTable.ts"
import { moveRecord, withReference } from "./recordRules.ts"

export const makeOutcomes = (table: MemoryQueueTable) => {
  const { after, findAt, now, records, update } = table

  const moved = (record: MemoryRecord, outcome: Outcome, recording: Recording): Operation =>
    update(withReference(
      moveRecord(record, outcome, recording.evidence, now(), after(recording.due_in)),
      recording.reference
    )).operation

  /** Finds the record if neither the claim nor the reference contradicts the recording. */
  const findFor = (id: OperationId, revision: number, recording: Recording) =>
    Effect.flatMap(
      findAt(id, revision),
      (found) =>
        isForeign(found, recording.send_before) || isOtherReference(found, recording.reference)
          ? Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
          : Effect.succeed(found)
    )

  const record = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, recording), (found) => moved(found, outcome, recording))

  const recordHeld = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, recording), (found) =>
      moved(
        moveRecord(found, { state: "submitting" }, recording.evidence, now(), after(recording.due_in)),
        outcome,
        recording
      ))

  const rescue = (limit: number) =>
    Effect.sync(() =>
      table.due(null, ({ operation }) => operation.state === "submitting").slice(0, limit).map((stale) => {
        update(moveRecord(stale, { state: "indeterminate" }, rescueEvidence, now(), after(Duration.zero)))
        return stale.operation.id
      })
    )

  const reviewAged = (limit: number, terms: ReviewTerms) =>
    Effect.sync(() =>
      records().filter(({ operation: { state, under_review } }) =>
        !under_review && (state === "accepted" || state === "submitted" || state === "indeterminate")
      ).map((record) =>
        [record, table.reviewAfter(record, terms[record.operation.state as keyof ReviewTerms])] as const
      )
        .filter(([before, after]) => before !== after).slice(0, limit).map((pair) => update(pair[1])).length
    )

  return { record, recordHeld, rescue, reviewAged }
}
