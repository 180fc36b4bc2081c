/**
 * Outcomes in memory: what workers and reconcilers record of claimed and held operations.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { type Operation, type OperationId, type Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { OutcomeRecord, ProviderReference, Recording } from "../../domain/Submission.ts"
import { firstOfEach } from "../queue/Outcomes.ts"
import { isFencedSince, isForeign, isOtherReference, type MemoryQueueTable, withReview } from "./MemoryQueueTable.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import { isReturnedClaim, isUnsent, moveRecord, withReference } from "./recordRules.ts"

export const makeOutcomes = (table: MemoryQueueTable) => {
  const { after, findAt, nextRead, now, update } = table

  const next = (record: MemoryRecord, outcome: Outcome, recording: Recording): MemoryRecord => {
    const ends = outcome.state === "failed" || outcome.state === "cancelled"
    // As the trigger `operations_unsent`.
    if (ends && record.operation.state === "accepted" && !isUnsent(record, table.memory)) {
      throw new Error(`operation ${record.operation.id} may have been sent`)
    }
    const moved = moveRecord(record, outcome, recording.evidence, now(), nextRead(record, recording.due_in))
    return withReference({ ...moved, reversal_read: reversalRead(record, outcome, recording) }, recording.reference)
  }

  /** A success that may be reversed is read again. */
  const reversalRead = (record: MemoryRecord, { state }: Outcome, { reversible }: Recording) => {
    if (state !== "succeeded" || reversible === undefined) return null
    const until = after(reversible.within)
    return {
      due_at: Math.min(nextRead(record, reversible.read_in), until),
      until,
      reading_since: null,
      hinted_at: null
    }
  }

  const moved = (record: MemoryRecord, outcome: Outcome, recording: Recording): Operation =>
    update(next(record, outcome, recording)).operation

  /** Finds the record if neither the claim, a fence nor the reference contradicts the recording. A returned claim has no holder. */
  const findFor = (id: OperationId, revision: number, recording: Recording) =>
    Effect.flatMap(
      findAt(id, revision),
      (found) =>
        isReturnedClaim(found) || isForeign(found, recording.send_before) || isFencedSince(found, recording) ||
          isOtherReference(found, recording.reference)
          ? Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
          : Effect.succeed(found)
    )

  const record = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, recording), (found) => moved(found, outcome, recording))

  /** All or nothing: a row that breaks a rule dies before the first update. */
  const recordAll = (all: ReadonlyArray<OutcomeRecord>) =>
    Effect.gen(function*() {
      const permitted = new Map<number, MemoryRecord>()
      for (const [{ id, outcome, recording, revision }, place] of firstOfEach(all)) {
        const found = yield* Effect.result(findFor(id, revision, recording))
        if (Result.isSuccess(found)) permitted.set(place, next(found.success, outcome, recording))
      }
      for (const record of permitted.values()) update(record)
      return all.map((_, place) => permitted.has(place))
    })

  const recordHeld = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, recording), (found) =>
      moved(
        moveRecord(found, { state: "submitting" }, recording.evidence, now(), after(recording.due_in)),
        outcome,
        recording
      ))

  const report = (id: OperationId, reference: ProviderReference | null) =>
    Effect.sync(() => {
      const found = table.memory.operations.get(id)
      if (found === undefined) return
      const known = { ...withReference(found, reference), due_at: table.millis() }
      if (["submitted", "indeterminate"].includes(found.operation.state)) {
        update(withReview(known, isOtherReference(found, reference)))
      } else if (found.operation.state === "accepted") {
        update(withReview({ ...known, hold_placed: true, examined_timeline: null, unsent_in: null }, true))
      }
    })

  return { record, recordAll, recordHeld, report }
}
