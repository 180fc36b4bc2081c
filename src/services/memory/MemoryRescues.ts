/**
 * Rescues in memory: what moves claims to `indeterminate` without their holders, and puts aged operations
 * under review.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ReviewTerms } from "../../domain/Submission.ts"
import { lostTakeOver, rescueEvidence, restartEvidence } from "../rules/ledgerRules.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"
import { isHeldClaim, isReturnedClaim, moveRecord } from "./recordRules.ts"

/** A take-over that a rollback lost may send for so long, in milliseconds. */
const lostTakeOverTime = ({ operation, send_before }: MemoryRecord): number =>
  Math.max(
    lostTakeOver,
    (send_before?.epochMilliseconds ?? -Infinity) - operation.updated_at.epochMilliseconds
  )

/** Moves a claim to `indeterminate`. See `toIndeterminate` of the SQL queue. */
export const rescueRecord = (
  { memory, millis, now, update }: Pick<MemoryQueueTable, "memory" | "millis" | "now" | "update">,
  record: MemoryRecord,
  evidence: Schema.Json,
  isRollback = record.timeline !== memory.cluster.timeline,
  otherwise = record.send_before
): MemoryRecord => {
  const { send_before } = record
  const moved = moveRecord(record, { state: "indeterminate" }, evidence, now(), millis())
  if (send_before === null || !isRollback) return update({ ...moved, send_before: otherwise })
  return update({
    ...moved,
    send_before: DateTime.max(send_before, DateTime.makeUnsafe(millis() + lostTakeOverTime(record)))
  })
}

/** See `untilStale` of the SQL queue. */
const untilStale = ({ due_at, send_before }: MemoryRecord) =>
  send_before === null ? null : DateTime.max(send_before, DateTime.makeUnsafe(due_at!))

/** The order of the index `operations_to_take_over`. */
const inTakeOverOrder = (a: MemoryRecord, b: MemoryRecord): number =>
  a.timeline - b.timeline
  || (a.owner.provider === b.owner.provider ? a.due_at! - b.due_at! : a.owner.provider < b.owner.provider ? -1 : 1)

export const makeRescues = (table: MemoryQueueTable) => {
  const { memory, records, update } = table

  const rescue = (limit: number) =>
    Effect.sync(() => {
      const lost = records().filter((record) => isReturnedClaim(record) && record.timeline < memory.cluster.timeline)
        .toSorted(inTakeOverOrder)
      return [...table.due(null, isHeldClaim), ...lost].slice(0, limit)
        .map((record) => rescueRecord(table, record, rescueEvidence, undefined, untilStale(record)).operation.id)
    })

  const rescueClaimsOf = (worker: string) =>
    Effect.sync(() =>
      records().filter((record) => isHeldClaim(record) && record.claimed_by === worker)
        .map((record) => rescueRecord(table, record, restartEvidence)).length
    )

  /** The age is that of `accepted` for a returned claim: its operation waits in the same way. */
  const ageOf = ({ operation: { state } }: MemoryRecord, terms: ReviewTerms) =>
    terms[state === "submitting" ? "accepted" : state as keyof ReviewTerms]

  const reviewAged = (limit: number, terms: ReviewTerms) =>
    Effect.sync(() =>
      records().filter((record) => !record.operation.terminal && !record.operation.under_review && !isHeldClaim(record))
        .map((record) => [record, table.reviewAfter(record, ageOf(record, terms))] as const)
        .filter(([before, after]) => before !== after).slice(0, limit).map((pair) => update(pair[1])).length
    )

  return { rescue, rescueClaimsOf, reviewAged }
}
