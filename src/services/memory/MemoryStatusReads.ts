/** Status reads in memory: which operations a reconciler reads next, when it reads them again, and hints. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { longestSkew } from "../../domain/ClockSkew.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type { DueRead, HintedOperation, HintEffect, ReadTerms, Recording } from "../../domain/Submission.ts"
import {
  mostHinted,
  type Postponement,
  type ReversiblePostponement,
  type ReversibleTerms,
  type StatusReads
} from "../queue/StatusReads.ts"
import { makeOpenPayload } from "../rules/openPayload.ts"
import {
  isFencedSince,
  isForeign,
  type MemoryQueueTable,
  serve,
  toProviderOperation,
  withReview
} from "./MemoryQueueTable.ts"
import type { MemoryRecord, MemoryReversalRead } from "./MemoryRecords.ts"
import { isExamined, isHeld, isUnsent, withReference } from "./recordRules.ts"

const isBeingRead = ({ operation: { state } }: MemoryRecord) => state === "submitted" || state === "indeterminate"

export const makeStatusReads = Effect.fnUntraced(function*(table: MemoryQueueTable) {
  const openPayload = yield* makeOpenPayload
  const { after, memory, millis, records, reviewAfter, update } = table

  const dueRead = (record: MemoryRecord): DueRead => ({
    operation: toProviderOperation(record),
    created_at: record.operation.created_at,
    taken_at: table.now(),
    provider: record.owner.provider,
    state: record.operation.state,
    revision: record.operation.revision,
    reference: record.reference,
    acknowledged: record.acknowledged,
    reads: record.reads,
    fence_started_at: record.fence_started_at,
    provider_account: record.provider_account,
    sent_as: record.sent_as
  })

  const takeOne = (record: MemoryRecord, reviewed: MemoryRecord, terms: ReadTerms): DueRead | null => {
    const active = !isUnsent(record, memory) && table.hasStanding(record, "read")
    const taken = update({
      ...reviewed,
      due_at: active ? after(terms.lease) : table.idleUntil(record, terms.idle),
      waiting: isBeingRead(record) ? !active : record.waiting,
      reads: record.reads + (active ? 1 : 0),
      reading_since: active ? millis() : null
    })
    return active ? dueRead(taken) : null
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
    if (isUnsent(record, memory)) return record
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
      if (
        found?.operation.revision !== revision || isForeign(found, next.send_before) || isFencedSince(found, next)
      ) return false
      const isTaken = isExamined(found, memory.cluster.timeline) && next.send_before != null
      if (!isBeingRead(found) && !isTaken) return false
      update(withReview(
        { ...withReference(found, next.reference), due_at: table.nextRead(found, next.due_in), reading_since: null },
        next.review === true &&
          (found.reviewed_at === null ||
            found.reviewed_at.epochMilliseconds < found.operation.updated_at.epochMilliseconds)
      ))
      return true
    })

  const dueReversible = (provider: ProviderName) =>
    records().flatMap((record) =>
      record.owner.provider === provider && record.reversal_read !== null && record.reversal_read.due_at <= millis()
        ? [{ record, read: record.reversal_read }]
        : []
    ).toSorted((a, b) => a.read.due_at - b.read.due_at)

  /** See `takeReversibleStatement` of the SQL queue. */
  const takeReversible = (provider: ProviderName, limit: number, { idle, lease }: ReversibleTerms) =>
    Effect.sync(() =>
      serve(dueReversible(provider), limit, ({ read, record }) => {
        if (table.hasStanding(record, "read")) {
          return dueRead(
            update({ ...record, reversal_read: { ...read, due_at: after(lease), reading_since: millis() } })
          )
        }
        const isLast = read.until <= millis()
        update({ ...record, reversal_read: isLast ? null : { ...read, due_at: after(idle), reading_since: null } })
        return null
      })
    )

  const postponeReversible = (id: OperationId, { due_in, ends_after }: ReversiblePostponement) =>
    Effect.sync(() => {
      const record = memory.operations.get(id)
      const read = record?.reversal_read
      if (record === undefined || read == null) return
      const { hinted_at, reading_since, until } = read
      const isLast = ends_after !== null && reading_since !== null
        && until + Duration.toMillis(ends_after) <= reading_since
      const next = table.nextReadAfter(reading_since, hinted_at, due_in)
      const due_at = until > millis() ? Math.min(next, until) : next
      update({ ...record, reversal_read: isLast ? null : { ...read, due_at, reading_since: null } })
    })

  const recordReversal = (id: OperationId, evidence: Recording["evidence"]) =>
    Effect.sync(() => {
      const record = memory.operations.get(id)
      if (record?.operation.state !== "succeeded") throw new Error(`operation ${id} has not succeeded`)
      update({ ...record, reversal_read: null, reversal: record.reversal ?? { recorded_at: table.now(), evidence } })
      return record.reversal === null
    })

  /** When the submission or the status read under way began; null when none is. */
  const underWay = ({ due_at, operation: { state, updated_at }, reading_since }: MemoryRecord): number | null =>
    state === "submitting" ? updated_at.epochMilliseconds : due_at! > millis() ? reading_since : null

  const waitsForRead = (record: MemoryRecord): boolean =>
    ["submitting", "submitted", "indeterminate"].includes(record.operation.state)
    || isHeld(record, memory.cluster.timeline) || record.reversal_read !== null

  /** What a hint moves of a read, which began at `since` if it is under way; null: nothing. `asked`: see that of the SQL queue. */
  const moveForward = (
    { due_at, hinted_at }: Pick<MemoryReversalRead, "due_at" | "hinted_at">,
    since: number | null,
    interval: number
  ): { readonly hinted_at: number; readonly due_at?: number } | null => {
    const asked = hinted_at === null
      ? millis()
      : Math.max(millis(), Math.min(hinted_at, millis() + interval) + interval)
    if (since === null) return due_at <= asked ? null : { hinted_at: asked, due_at: asked }
    return hinted_at !== null && hinted_at > since ? null : { hinted_at: Math.max(asked, since + 1) }
  }

  const takeHint = (record: MemoryRecord, interval: number): HintEffect => {
    const { due_at, hinted_at, reversal_read: read } = record
    const moved = read === null
      ? moveForward({ due_at: due_at!, hinted_at }, underWay(record), interval)
      : moveForward(read, read.due_at > millis() ? read.reading_since : null, interval)
    if (moved === null) return "ignored"
    update(read === null ? { ...record, ...moved } : { ...record, reversal_read: { ...read, ...moved } })
    return moved.due_at !== undefined && moved.due_at <= millis() ? "due" : "noted"
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

  /** See `mayFenceStatement` of the SQL queue. */
  const mayFence: StatusReads["Service"]["mayFence"] = ({ operation: { id, send_before }, revision }) =>
    Effect.sync(() => {
      const record = memory.operations.get(id)
      const isAllowed = record?.operation.revision === revision && record.operation.state === "indeterminate"
        && record.reference === null && !record.acknowledged && send_before !== null && !isForeign(record, send_before)
        && send_before.epochMilliseconds < millis() - longestSkew && record.due_at! > millis() &&
        table.hasStanding(record, "send")
      if (!isAllowed) return null
      const fence_started_at = record.fence_started_at ?? table.now()
      const fencing_until = DateTime.makeUnsafe(
        Math.max(record.fencing_until?.epochMilliseconds ?? 0, record.due_at!)
      )
      return update({ ...record, fence_started_at, fencing_until }).fence_started_at
    })

  return {
    takeReads,
    takeHeld,
    takeReversible,
    payloadOf,
    mayFence,
    postpone,
    postponeReversible,
    recordReversal,
    hint
  }
})
