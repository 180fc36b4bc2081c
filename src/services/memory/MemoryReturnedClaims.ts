/**
 * Returned claims in memory: how a worker gives up a claim, and how another one takes it over.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import { StaleOperation } from "../../domain/Operation.ts"
import type { Claim, ClaimTerms, ReturnTerms } from "../../domain/Submission.ts"
import { returnReason } from "../rules/returnReason.ts"
import { mayClaim, withBatch } from "./claimBatches.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import type { MemoryPayloads } from "./MemoryPayloads.ts"
import { isForeign, type MemoryQueueTable } from "./MemoryQueueTable.ts"
import { isHeldClaim, isReturnedClaim } from "./recordRules.ts"

export const makeReturnedClaims = (table: MemoryQueueTable, payloads: MemoryPayloads) => {
  const { memory, millis, update } = table

  const returnClaim = (
    { operation: { id, send_before }, revision }: Pick<Claim, "operation" | "revision">,
    terms: ReturnTerms
  ) =>
    Effect.flatMap(
      table.findAt(id, revision),
      (found) =>
        isHeldClaim(found) && send_before !== null && !isForeign(found, send_before)
          ? Effect.sync(() => {
            update({
              ...table.reviewAfter(found, terms.review_after),
              return_reason: returnReason(terms.reason),
              due_at: table.idleUntil(found, terms.delay)
            })
          })
          : Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
    )

  /** See `claimReturnedStatement` of the SQL queue. */
  const takeOver = (record: MemoryRecord, terms: ClaimTerms): Claim | null => {
    if (!table.hasStanding(record, "send") || !payloads.isReadable(record)) {
      update({ ...table.reviewAfter(record, terms.review_after), due_at: table.idleUntil(record, terms.idle) })
      return null
    }
    const within = Duration.toMillis(terms.send_within)
    const from = Math.max(millis(), record.send_before!.epochMilliseconds + 1 - within)
    const taken = update({
      ...record,
      return_reason: null,
      claimed_by: terms.worker,
      send_before: DateTime.makeUnsafe(from + within),
      due_at: from + Duration.toMillis(terms.rescue_after)
    })
    return payloads.toClaim(taken, table.now())
  }

  const claimReturned = (provider: ProviderName, limit: number, terms: ClaimTerms) =>
    Effect.sync(() => {
      const claims: Array<Claim> = []
      const isDue = (record: MemoryRecord) =>
        mayClaim(memory, terms) && isReturnedClaim(record) && record.timeline === memory.cluster.timeline
      for (const record of table.due(provider, isDue)) {
        if (claims.length === limit) break
        const claim = takeOver(record, terms)
        if (claim !== null) claims.push(claim)
      }
      return withBatch(memory, claims, provider, terms)
    })

  return { returnClaim, claimReturned }
}
