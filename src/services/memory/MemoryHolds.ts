/**
 * Held operations and rescues in memory: what places a hold and what releases it, what moves claims to `indeterminate` without their
 * holders, and what puts aged operations under review.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { type Operation, type OperationId } from "../../domain/Operation.ts"
import { type ReviewTerms, StillHeld } from "../../domain/Submission.ts"
import type { HeldAll } from "../queue/Holds.ts"
import { approvalEvidence } from "../rules/approvals.ts"
import {
  holdResult,
  lostTakeOver,
  releaseResult,
  rescueEvidence,
  restartEvidence,
  rollbackEvidence
} from "../rules/ledgerRules.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import {
  awaitsApproval,
  isExamined,
  isFree,
  isHeld,
  isHeldClaim,
  isPresentLedger,
  isReturnedClaim,
  isUnsent,
  moveRecord,
  needsDecision,
  withRecord
} from "./recordRules.ts"

export const makeHolds = (table: MemoryQueueTable) => {
  const { memory, millis, now, records, update } = table

  const released = (record: MemoryRecord): Operation => {
    const staysHeld = awaitsApproval(record)
    return update({
      ...record,
      operation: { ...record.operation, under_review: staysHeld && record.operation.under_review },
      timeline: memory.cluster.timeline,
      hold_placed: staysHeld,
      unsent_in: staysHeld ? memory.cluster.holds : null,
      examined_timeline: null,
      due_at: millis(),
      waiting: false,
      send_before: null,
      reviewed_at: now(),
      reading_since: null
    }).operation
  }

  const placed = (record: MemoryRecord): Operation =>
    update({ ...record, hold_placed: true, unsent_in: null, examined_timeline: null, due_at: millis() }).operation

  const placedByOperator = (record: MemoryRecord): Operation => {
    const held = { ...record, hold_placed: true, hold_outlasts_approval: true }
    if (!isFree(record, memory.cluster.timeline)) return update(held).operation
    const unsent_in = isUnsent(record, memory) ? memory.cluster.holds : null
    return update({ ...held, unsent_in, due_at: millis() }).operation
  }

  const hold = (id: OperationId) =>
    withRecord(memory, id, (record) =>
      record.operation.state === "accepted" && !record.hold_outlasts_approval
        ? Effect.sync(() => placedByOperator(record))
        : holdResult(record.operation))

  const releasedByOperator = (record: MemoryRecord) => released({ ...record, hold_outlasts_approval: false })

  const mayRelease = (record: MemoryRecord) =>
    isExamined(record, memory.cluster.timeline) && !record.acknowledged
    && record.send_before!.epochMilliseconds <= millis()

  const release = (id: OperationId) =>
    withRecord(memory, id, (record) => {
      const { timeline } = memory.cluster
      if (needsDecision(record, memory) && !record.hold_outlasts_approval) {
        return Effect.fail(new StillHeld({ id, reason: "approval", until: null }))
      }
      return mayRelease(record) || record.hold_placed && isUnsent(record, memory)
        ? Effect.sync(() => releasedByOperator(record))
        : releaseResult(record.operation, {
          ...record,
          is_free: isFree(record, timeline),
          is_examined: isExamined(record, timeline)
        })
    })

  const releaseAll = Effect.sync(() =>
    records().filter((record) =>
      isPresentLedger(memory) && isHeld(record, memory.cluster.timeline) && !record.acknowledged
      && !awaitsApproval(record) && !record.hold_outlasts_approval
    ).map(released).length
  )

  /** See `endClaims` of the SQL queue. */
  const holdAll = Effect.sync(() => {
    memory.cluster.holds++
    const claims = records().filter(({ operation }) => operation.state === "submitting")
    for (const record of claims) rescueRecord(table, record, rollbackEvidence, true)
    const held = records().filter(({ operation }) => operation.state === "accepted").map(placed).length
    return { held, indeterminate: claims.length } satisfies HeldAll
  })

  /** Memory is lost with its process, so it is never moved and needs no settings. */
  const prepare = Effect.succeed({ moved: false })

  return { statements: { prepare, hold, release, releaseAll, holdAll }, placed, released }
}

/** A take-over that a rollback lost may send for so long, in milliseconds. */
const lostTakeOverTime = ({ operation }: MemoryRecord, send_before: DateTime.Utc): number =>
  Math.max(lostTakeOver, send_before.epochMilliseconds - operation.updated_at.epochMilliseconds)

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
  return update({
    ...moved,
    send_before: send_before === null || !isRollback
      ? otherwise
      : DateTime.max(send_before, DateTime.makeUnsafe(millis() + lostTakeOverTime(record, send_before)))
  })
}

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

  const expireApprovals = (limit: number) =>
    Effect.sync(() => {
      const late = records().filter((record) =>
        awaitsApproval(record) && record.approval!.expires_at.epochMilliseconds <= table.millis()
        && isUnsent(record, memory)
      ).slice(0, limit)
      for (const record of late) {
        const approval = { ...record.approval!, state: "expired" as const, decided_at: table.now() }
        update(
          moveRecord({ ...record, approval }, { state: "cancelled" }, approvalEvidence(approval), table.now(), null)
        )
      }
      return late.length
    })

  return { rescue, rescueClaimsOf, reviewAged, expireApprovals }
}
