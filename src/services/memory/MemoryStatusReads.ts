/**
 * Status reads in memory: which operations a reconciler reads next, and when it reads them again.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type { DueRead, ProviderReference, ReadTerms, Recording } from "../../domain/Submission.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import {
  isForeign,
  isOtherReference,
  type MemoryQueueTable,
  toProviderOperation,
  withReview
} from "./MemoryQueueTable.ts"
import { isExamined, isHeld, withReference } from "./recordRules.ts"

const isBeingRead = ({ operation: { state } }: MemoryRecord) => state === "submitted" || state === "indeterminate"

/** Up to `limit` items. A record without an item makes room for the next one. */
const serve = <A>(
  records: ReadonlyArray<MemoryRecord>,
  limit: number,
  handle: (record: MemoryRecord) => A | null
): ReadonlyArray<A> => {
  const served: Array<A> = []
  for (const record of records) {
    if (served.length === limit) break
    const item = handle(record)
    if (item !== null) served.push(item)
  }
  return served
}

export const makeStatusReads = (table: MemoryQueueTable) => {
  const { after, memory, millis, reviewAfter, update } = table

  const takeOne = (record: MemoryRecord, reviewed: MemoryRecord, terms: ReadTerms): DueRead | null => {
    const active = table.hasStanding(record, "read")
    const taken = update({
      ...reviewed,
      due_at: active ? after(terms.lease) : table.idleUntil(record, terms.idle),
      reads: record.reads + (active ? 1 : 0),
      reading_since: active ? millis() : null
    })
    const { acknowledged, operation: { revision, state }, owner: { provider }, reads, reference } = taken
    return active
      ? {
        operation: toProviderOperation(taken),
        taken_at: table.now(),
        provider,
        state,
        revision,
        reference,
        acknowledged,
        reads
      }
      : null
  }

  const take =
    (belongs: (record: MemoryRecord) => boolean, review: (record: MemoryRecord, terms: ReadTerms) => MemoryRecord) =>
    (provider: ProviderName, limit: number, terms: ReadTerms) =>
      Effect.sync(() =>
        serve(table.due(provider, belongs), limit, (record) => takeOne(record, review(record, terms), terms))
      )

  const takeReads = take(isBeingRead, (record, terms) =>
    reviewAfter(
      record,
      record.operation.state === "submitted" ? terms.review_submitted_after : terms.review_indeterminate_after
    ))

  /** See `takeHeldStatement` of the SQL queue. A cleared review begins again after the shorter of both ages. */
  const examine = (record: MemoryRecord, terms: ReadTerms): MemoryRecord => {
    const { timeline } = memory.cluster
    const send_before = isExamined(record, timeline)
      ? record.send_before
      : DateTime.makeUnsafe(after(terms.rescue_after))
    const age = Duration.min(terms.review_submitted_after, terms.review_indeterminate_after)
    const isOld = record.reviewed_at === null
      || record.reviewed_at.epochMilliseconds <= millis() - Duration.toMillis(age)
    return withReview({ ...record, send_before, examined_timeline: timeline }, isOld)
  }
  const takeHeld = take((record) => isHeld(record, memory.cluster.timeline), examine)

  const postpone = (
    id: OperationId,
    revision: number,
    next: Omit<Recording, "evidence"> & { readonly review?: boolean }
  ) =>
    Effect.sync(() => {
      const found = memory.operations.get(id)
      if (found?.operation.revision !== revision || isForeign(found, next.send_before)) return
      const isTaken = isExamined(found, memory.cluster.timeline) && next.send_before != null
      if (!isBeingRead(found) && !isTaken) return
      update(withReview(
        { ...withReference(found, next.reference), due_at: table.nextRead(found, next.due_in), reading_since: null },
        next.review === true &&
          (found.reviewed_at === null ||
            found.reviewed_at.epochMilliseconds < found.operation.updated_at.epochMilliseconds)
      ))
    })

  const report = (id: OperationId, reference: ProviderReference | null) =>
    Effect.sync(() => {
      const found = memory.operations.get(id)
      if (found === undefined) return
      const known = { ...withReference(found, reference), due_at: millis() }
      if (isBeingRead(found)) update(withReview(known, isOtherReference(found, reference)))
      else if (found.operation.state === "accepted") {
        update(withReview({ ...known, hold_placed: true, examined_timeline: null }, true))
      }
    })

  return { takeReads, takeHeld, postpone, report }
}
