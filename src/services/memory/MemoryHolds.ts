/**
 * Held operations in memory: what places a hold on accepted operations, and what releases it.
 */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { type Operation, type OperationId, StaleOperation } from "../../domain/Operation.ts"
import { holdResult, releaseResult, rollbackEvidence } from "../rules/ledgerRules.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import { isForeign, type MemoryQueueTable } from "./MemoryQueueTable.ts"
import { rescueRecord } from "./MemoryRescues.ts"
import { isExamined, isFree, isHeld } from "./recordRules.ts"

export const makeHolds = (table: MemoryQueueTable) => {
  const { find, memory, millis, now, records, update } = table

  const released = (record: MemoryRecord): Operation =>
    update({
      ...record,
      operation: { ...record.operation, under_review: false },
      timeline: memory.cluster.timeline,
      hold_placed: false,
      examined_timeline: null,
      due_at: millis(),
      waiting: false,
      send_before: null,
      reviewed_at: now(),
      reading_since: null
    }).operation

  const placed = (record: MemoryRecord): Operation =>
    update({ ...record, hold_placed: true, examined_timeline: null, due_at: millis() }).operation

  const hold = (id: OperationId) =>
    Effect.flatMap(find(id), (record) =>
      isFree(record, memory.cluster.timeline)
        ? Effect.sync(() => placed(record))
        : holdResult(record.operation))

  const mayRelease = (record: MemoryRecord) =>
    isExamined(record, memory.cluster.timeline) && !record.acknowledged
    && record.send_before!.epochMilliseconds <= millis()

  const release = (id: OperationId) =>
    Effect.flatMap(find(id), (record) => {
      const { timeline } = memory.cluster
      return mayRelease(record)
        ? Effect.sync(() => released(record))
        : releaseResult(record.operation, {
          ...record,
          is_free: isFree(record, timeline),
          is_examined: isExamined(record, timeline)
        })
    })

  const releaseUnsent = (id: OperationId, send_before: DateTime.Utc) =>
    Effect.flatMap(find(id), (record) => {
      const { revision: actual } = record.operation
      return mayRelease(record) && !isForeign(record, send_before)
        ? Effect.asVoid(Effect.sync(() => released(record)))
        : Effect.fail(new StaleOperation({ id, expected: 1, actual }))
    })

  const isCompared = () => !memory.home.has("epoch") || memory.home.get("life") === memory.cluster.life

  const releaseAll = Effect.sync(() =>
    records().filter((record) => isCompared() && isHeld(record, memory.cluster.timeline) && !record.acknowledged)
      .map(released).length
  )

  /** See `endClaims` of the SQL queue. */
  const holdAll = Effect.sync(() => {
    memory.cluster.holds++
    for (const record of records()) {
      if (record.operation.state === "submitting") rescueRecord(table, record, rollbackEvidence, true)
    }
    return records().filter(({ operation }) => operation.state === "accepted").map(placed).length
  })

  /** Memory is lost with its process, so it is never moved and needs no settings. */
  const prepare = Effect.succeed({ moved: false })

  return { statements: { prepare, hold, release, releaseUnsent, releaseAll, holdAll }, placed, released }
}
