/**
 * Status reads in memory: which operations a reconciler reads next, when it reads them again, and hints.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type { DueRead, HintedOperation, HintEffect, ReadTerms } from "../../domain/Submission.ts"
import { mostHinted, type Postponement } from "../queue/StatusReads.ts"
import { makeOpenPayload } from "../rules/openPayload.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import { isForeign, type MemoryQueueTable, toProviderOperation, withReview } from "./MemoryQueueTable.ts"
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

export const makeStatusReads = Effect.fnUntraced(function*(table: MemoryQueueTable) {
  const openPayload = yield* makeOpenPayload
  const { after, memory, millis, records, reviewAfter, update } = table

  const takeOne = (record: MemoryRecord, reviewed: MemoryRecord, terms: ReadTerms): DueRead | null => {
    const active = table.hasStanding(record, "read")
    const taken = update({
      ...reviewed,
      due_at: active ? after(terms.lease) : table.idleUntil(record, terms.idle),
      waiting: isBeingRead(record) ? !active : record.waiting,
      reads: record.reads + (active ? 1 : 0),
      reading_since: active ? millis() : null
    })
    const { acknowledged, operation: { revision, state }, owner: { provider }, reads, reference } = taken
    return active
      ? {
        operation: toProviderOperation(taken),
        created_at: taken.operation.created_at,
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
    next: Postponement
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

  /** When the read is due that a hint asks for: see `asked` of the SQL queue. */
  const askedFor = ({ hinted_at }: MemoryRecord, interval: number): number =>
    hinted_at === null ? millis() : Math.max(millis(), Math.min(hinted_at, millis() + interval) + interval)

  /** When the submission or the status read under way began; null when none is. */
  const underWay = ({ due_at, operation: { state, updated_at }, reading_since }: MemoryRecord): number | null =>
    state === "submitting" ? updated_at.epochMilliseconds : due_at! > millis() ? reading_since : null

  const waitsForRead = (record: MemoryRecord): boolean =>
    ["submitting", "submitted", "indeterminate"].includes(record.operation.state)
    || isHeld(record, memory.cluster.timeline)

  const takeHint = (record: MemoryRecord, interval: number): HintEffect => {
    const asked = askedFor(record, interval)
    const since = underWay(record)
    if (since !== null) {
      if (record.hinted_at !== null && record.hinted_at > since) return "ignored"
      update({ ...record, hinted_at: Math.max(asked, since + 1) })
      return "noted"
    }
    if (record.due_at! <= asked) return "ignored"
    update({ ...record, hinted_at: asked, due_at: asked })
    return asked <= millis() ? "due" : "noted"
  }

  const find = (about: HintedOperation): ReadonlyArray<MemoryRecord> => {
    if ("operation_id" in about) {
      const found = memory.operations.get(about.operation_id)
      return found === undefined ? [] : [found]
    }
    return records().filter(({ reference }) => reference === about.reference)
      .toSorted((a, b) => b.operation.updated_at.epochMilliseconds - a.operation.updated_at.epochMilliseconds)
      .slice(0, mostHinted)
  }

  const hint = (provider: ProviderName, about: HintedOperation, interval: Duration.Duration) =>
    Effect.sync((): HintEffect => {
      const effects = find(about).filter((record) => record.owner.provider === provider && waitsForRead(record))
        .map((record) => takeHint(record, Duration.toMillis(interval)))
      return effects.includes("due") ? "due" : effects.includes("noted") ? "noted" : "ignored"
    })

  const payloadOf = ({ operation: { id } }: { readonly operation: { readonly id: OperationId } }) =>
    Effect.suspend(() => {
      const { digest, operation, payload } = memory.operations.get(id)!
      return openPayload({ ...operation, request_digest: digest, sealed: payload })
    })

  return { takeReads, takeHeld, payloadOf, postpone, hint }
})
