/**
 * Hints in memory: they move the next status read of an operation forward, and change nothing else.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { HintedOperation, HintEffect } from "../../domain/Submission.ts"
import { mostHinted } from "../rules/mostHinted.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"
import { isHeld } from "./recordRules.ts"

export const makeHints = ({ memory, millis, records, update }: MemoryQueueTable) => {
  /** When the read is due that a hint asks for: see `asked` of the SQL queue. */
  const askedFor = ({ hinted_at }: MemoryRecord, interval: number): number =>
    hinted_at === null ? millis() : Math.max(millis(), Math.min(hinted_at, millis() + interval) + interval)

  /** When the submission or the status read under way began; null when none is. */
  const underWay = ({ due_at, operation: { state, updated_at }, reading_since }: MemoryRecord): number | null =>
    state === "submitting" ? updated_at.epochMilliseconds : due_at! > millis() ? reading_since : null

  const waitsForRead = (record: MemoryRecord): boolean =>
    ["submitting", "submitted", "indeterminate"].includes(record.operation.state)
    || isHeld(record, memory.cluster.timeline)

  const take = (record: MemoryRecord, interval: number): HintEffect => {
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
        .map((record) => take(record, Duration.toMillis(interval)))
      return effects.includes("due") ? "due" : effects.includes("noted") ? "noted" : "ignored"
    })

  return { hint }
}
