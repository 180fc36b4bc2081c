/**
 * The operations in memory, as the parts of the submission queue query and update them. Each lookup and the write that
 * follows it happen in one synchronous step. The clock at construction serves as the clock of the database.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Grant, type ProviderName, refusal, standingAt } from "../../domain/Grant.ts"
import { type OperationId, StaleOperation } from "../../domain/Operation.ts"
import type { ProviderOperation, ProviderReference, Recording } from "../../domain/Submission.ts"
import { isSameLimits } from "../rules/grantRules.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import { withRecord } from "./recordRules.ts"

export type MemoryQueueTable = Effect.Success<typeof makeQueueTable>

export const makeQueueTable = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const clock = yield* Clock.Clock
  const millis = () => clock.currentTimeMillisUnsafe()
  const now = () => DateTime.makeUnsafe(millis())
  const after = (delay: Duration.Duration) => millis() + Duration.toMillis(delay)
  const records = () => [...memory.operations.values()]

  const update = (record: MemoryRecord): MemoryRecord => {
    memory.operations.set(record.operation.id, record)
    return record
  }

  const due = (provider: ProviderName | null, belongs: (record: MemoryRecord) => boolean) =>
    records()
      .filter((record) =>
        record.due_at !== null && record.due_at <= millis()
        && (provider === null || record.owner.provider === provider) && belongs(record)
      )
      .toSorted((a, b) => a.due_at! - b.due_at!)

  /** See `hasNoOtherLimits` of the SQL queue. */
  const hasNoOtherLimits = (
    { limited_by_grant, owner }: MemoryRecord,
    { authorization_details: limits }: Grant
  ): boolean => {
    const accepted = memory.grants.get(owner.grant_id)?.authorization_details
    return limits === undefined || limited_by_grant && accepted !== undefined && isSameLimits(accepted, limits)
  }

  /** Whether client, provider connection and a live grant still allow the operation: see `standing` of the SQL queue. */
  const hasStanding = (record: MemoryRecord, purpose: "send" | "read"): boolean =>
    [...memory.grants.keys()].some((id) => {
      const { owner, scopes } = record
      const grant = memory.showGrant(id)!
      return grant.client_id === owner.client_id && grant.resource_owner === owner.resource_owner
        && grant.subject === owner.subject && grant.provider_connection_id === owner.provider_connection_id
        && refusal(standingAt(grant, null, now()), null) === null
        && (purpose === "read"
          || scopes.every((scope) => grant.scopes.includes(scope)) && hasNoOtherLimits(record, grant))
    })

  /** Puts an operation under review once it has been in its state for this time, counted from the end of the last review. */
  const reviewAfter = (record: MemoryRecord, age: Duration.Duration): MemoryRecord => {
    const since = Math.max(
      record.operation.updated_at.epochMilliseconds,
      record.reviewed_at?.epochMilliseconds ?? -Infinity
    )
    return withReview(record, since <= millis() - Duration.toMillis(age))
  }

  /**
   * The time of the next try of an operation that is not ready: after a tenth of its time in its state. It is no sooner than
   * `idle`, and no later than five minutes unless `idle` is longer.
   */
  const idleUntil = ({ operation }: MemoryRecord, idle: Duration.Duration) => {
    const age = millis() - operation.updated_at.epochMilliseconds
    return millis() + Math.max(Duration.toMillis(idle), Math.min(5 * 60_000, age / 10))
  }

  /** The next status read after one that began at `since`, or earlier if a hint came meanwhile: see `nextRead` of the SQL queue. */
  const nextReadAfter = (since: number | null, hinted_at: number | null, delay: Duration.Duration): number => {
    const isHinted = hinted_at !== null && since !== null && hinted_at > since
    return isHinted ? Math.min(after(delay), Math.max(millis(), hinted_at)) : after(delay)
  }

  const nextRead = ({ hinted_at, operation, reading_since }: MemoryRecord, delay: Duration.Duration): number =>
    nextReadAfter(
      operation.state === "submitting" ? operation.updated_at.epochMilliseconds : reading_since,
      hinted_at,
      delay
    )

  const findAt = (id: OperationId, revision: number) =>
    withRecord(memory, id, (record) => {
      const { revision: actual } = record.operation
      return actual === revision
        ? Effect.succeed(record)
        : Effect.fail(new StaleOperation({ id, expected: revision, actual }))
    })

  return {
    memory,
    millis,
    now,
    after,
    records,
    update,
    due,
    hasStanding,
    reviewAfter,
    idleUntil,
    nextRead,
    nextReadAfter,
    findAt
  }
})

/** Up to `limit` items. A record without an item makes room for the next one. */
export const serve = <Item, A>(
  records: ReadonlyArray<Item>,
  limit: number,
  handle: (record: Item) => A | null
): ReadonlyArray<A> => {
  const served: Array<A> = []
  for (const record of records) {
    if (served.length === limit) break
    const item = handle(record)
    if (item !== null) served.push(item)
  }
  return served
}

/** The record, under review if `begins`. A review that has begun stays. */
export const withReview = (record: MemoryRecord, begins: boolean): MemoryRecord =>
  begins && !record.operation.under_review
    ? { ...record, operation: { ...record.operation, under_review: true } }
    : record

/** The operation as its provider sees it. */
export const toProviderOperation = ({ operation, owner, send_before }: MemoryRecord): ProviderOperation => ({
  id: operation.id,
  type: operation.type,
  resource_owner: owner.resource_owner,
  provider_connection_id: owner.provider_connection_id,
  send_before
})

/** Whether a result belongs to another claim than the recorded one. */
export const isForeign = ({ send_before }: MemoryRecord, known: DateTime.Utc | null | undefined): boolean =>
  known != null && send_before?.epochMilliseconds !== known.epochMilliseconds

/** Whether a fence began after the status read behind a result, so that the read may have found the order of the fence. */
export const isFencedSince = (
  { fence_started_at }: MemoryRecord,
  { fence_started_at: known }: Pick<Recording, "fence_started_at">
): boolean => known !== undefined && fence_started_at?.epochMilliseconds !== known?.epochMilliseconds

/** Whether a result names another reference than the recorded one. */
export const isOtherReference = ({ reference }: MemoryRecord, known: ProviderReference | null): boolean =>
  reference !== null && known !== null && reference !== known
