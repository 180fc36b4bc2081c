/**
 * Claims in memory: which operations a worker may send, and whether it still may.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { Claim, ClaimTerms } from "../../domain/Submission.ts"
import { type LaneVisit, makeClaimInTurns, shareOf } from "../rules/claimInTurns.ts"
import { mayClaim, withBatch } from "./claimBatches.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import type { MemoryPayloads } from "./MemoryPayloads.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"
import { isFree, isHeldClaim, moveRecord } from "./recordRules.ts"

export const makeClaims = (table: MemoryQueueTable, { isReadable, toClaim }: MemoryPayloads) => {
  const { after, hasStanding, memory, millis, now, update } = table

  /** Claims a record, or postpones one that is not ready to be sent. */
  const claimOne = (record: MemoryRecord, terms: ClaimTerms): Claim | null => {
    if (!hasStanding(record, "send") || !isReadable(record)) {
      const reviewed = table.reviewAfter(record, terms.review_after)
      update({ ...reviewed, due_at: table.idleUntil(record, terms.idle), waiting: true })
      return null
    }
    const claimed = update({
      ...moveRecord(record, { state: "submitting" }, null, now(), after(terms.rescue_after)),
      send_before: DateTime.makeUnsafe(after(terms.send_within)),
      claimed_by: terms.worker
    })
    return toClaim(claimed, now())
  }

  /** The lanes of the index `operations_to_claim`, in the order of their names. */
  const lanesOf = (provider: ProviderName) => {
    const lanes = new Map<string, Array<MemoryRecord>>()
    for (const record of table.records()) {
      if (record.owner.provider !== provider || !isFree(record, memory.cluster.timeline)) continue
      if (record.waiting && record.due_at! > millis()) continue
      const lane = record.waiting ? "" : record.owner.client_id
      lanes.set(lane, [...lanes.get(lane) ?? [], record])
    }
    return [...lanes].toSorted(([a], [b]) => a < b ? -1 : 1)
  }

  const visitLanes = (provider: ProviderName, limit: number, terms: ClaimTerms, start: string): LaneVisit<Claim> => {
    const lanes = mayClaim(memory, terms) ? lanesOf(provider) : []
    const inOrder = [...lanes.filter(([name]) => name > start), ...lanes.filter(([name]) => name <= start)]
    const visited = inOrder.slice(0, limit)
    const isRound = visited.length === inOrder.length
    const claims: Array<Claim> = []
    let more = !isRound
    for (const [index, [, lane]] of visited.entries()) {
      const share = shareOf(limit, visited.length, index)
      const due = lane.filter(({ due_at }) => due_at! <= millis())
        .toSorted((a, b) => a.due_at! - b.due_at!).slice(0, share)
      more ||= due.length === share
      for (const record of due) {
        const claim = claimOne(record, terms)
        if (claim !== null) claims.push(claim)
      }
    }
    return {
      items: withBatch(memory, claims, provider, terms),
      more,
      next: (isRound ? visited[0] : visited.at(-1))?.[0] ?? null
    }
  }

  const claimInTurns = makeClaimInTurns()
  const claim = (provider: ProviderName, limit: number, terms: ClaimTerms) =>
    claimInTurns(provider, limit, (left, start) => Effect.sync(() => visitLanes(provider, left, terms, start)))

  const mayStillSend = ({ operation, revision }: Pick<Claim, "operation" | "revision">) =>
    Effect.sync(() => {
      const found = memory.operations.get(operation.id)
      // A claim by hand has no `send_before`, and no worker may send its operation.
      if (operation.send_before === null) return false
      return found !== undefined && isHeldClaim(found) && found.operation.revision === revision
        && found.send_before?.epochMilliseconds === operation.send_before.epochMilliseconds
        && hasStanding(found, "send")
    })

  return { claim, mayStillSend }
}
