/**
 * Rescues in memory: what moves claims to `indeterminate` without their holders.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { lostTakeOver, rescueEvidence, restartEvidence } from "../internal/rescueEvidence.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"
import { isHeldClaim, isReturnedClaim, moveRecord } from "./recordRules.ts"

/** Moves a claim to `indeterminate`. See `toIndeterminate` of the SQL queue. */
export const rescueRecord = (
  { memory, millis, now, update }: Pick<MemoryQueueTable, "memory" | "millis" | "now" | "update">,
  record: MemoryRecord,
  evidence: Schema.Json,
  isRollback = record.timeline !== memory.cluster.timeline
): MemoryRecord => {
  const { operation, send_before } = record
  const moved = moveRecord(record, { state: "indeterminate" }, evidence, now(), millis())
  if (send_before === null || !isRollback) return update(moved)
  const window = Math.max(lostTakeOver, send_before.epochMilliseconds - operation.updated_at.epochMilliseconds)
  return update({ ...moved, send_before: DateTime.max(send_before, DateTime.makeUnsafe(millis() + window)) })
}

export const makeRescues = (table: MemoryQueueTable) => {
  const { memory, records } = table

  const rescue = (limit: number) =>
    Effect.sync(() => {
      const lost = records().filter((record) => isReturnedClaim(record) && record.timeline < memory.cluster.timeline)
      return [...table.due(null, isHeldClaim), ...lost].slice(0, limit)
        .map((record) => rescueRecord(table, record, rescueEvidence).operation.id)
    })

  const rescueClaimsOf = (worker: string) =>
    Effect.sync(() =>
      records().filter((record) => isHeldClaim(record) && record.claimed_by === worker)
        .map((record) => rescueRecord(table, record, restartEvidence)).length
    )

  return { rescue, rescueClaimsOf }
}
