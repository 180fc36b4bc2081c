/**
 * Claims in memory: which operations a worker may send, whether it still may, and how it gives up a claim. Outcomes: what workers and
 * reconcilers record of claimed and held operations.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { ProviderName } from "../../domain/Grant.ts"
import { type Operation, type OperationId, type Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { Claim, ClaimBatch, ClaimTerms, OutcomeRecord, Recording, ReturnTerms } from "../../domain/Submission.ts"
import { PayloadCipher } from "../PayloadCipher.ts"
import { returnReason } from "../queue/Claims.ts"
import { firstOfEach } from "../queue/Outcomes.ts"
import { makeClaimRounds, type QueueVisit, shareOf } from "../rules/claimRounds.ts"
import {
  contradictionEvidence,
  contradicts,
  isReversal,
  type KnownOutcome,
  type LateProof,
  namesNoOrder,
  type Proof,
  type Reported,
  reportedOf
} from "../rules/contradictions.ts"
import { makeOpenPayload } from "../rules/openPayload.ts"
import type { MemoryLedger } from "./MemoryLedger.ts"
import {
  isFencedSince,
  isForeign,
  isOtherReference,
  type MemoryQueueTable,
  serve,
  toProviderOperation,
  withReview
} from "./MemoryQueueTable.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import { isFree, isHeldClaim, isReturnedClaim, isUnsent, moveRecord, withReference } from "./recordRules.ts"

export const makeClaims = Effect.fnUntraced(function*(table: MemoryQueueTable) {
  const { due, hasStanding, memory, millis, now, update } = table
  const cipher = yield* PayloadCipher
  const openPayload = yield* makeOpenPayload

  /**
   * Whether it may be sent, and this process has the key or accepts plain text of this age. A payload that is missing fails
   * later.
   */
  const isReady = (record: MemoryRecord): boolean => {
    const { operation, payload } = record
    const isReadable = payload === null || (payload.key_id === null
      ? operation.created_at.epochMilliseconds < cipher.plaintextBefore
      : cipher.keyIds.includes(payload.key_id))
    return isReadable && hasStanding(record, "send")
  }

  const toClaim = (record: MemoryRecord, claimed_at: DateTime.Utc): Claim => ({
    operation: toProviderOperation(record),
    revision: record.operation.revision,
    claimed_at,
    payload: openPayload({ ...record.operation, request_digest: record.digest, sealed: record.payload })
  })

  /** Puts off the next try, and reviews a record that has been in its state for long. */
  const putOff = (
    record: MemoryRecord,
    { idle, review_after }: Pick<ClaimTerms, "idle" | "review_after">,
    change: Partial<MemoryRecord> = {}
  ): null => {
    update({ ...table.reviewAfter(record, review_after), due_at: table.idleUntil(record, idle), ...change })
    return null
  }

  const claimOne = (record: MemoryRecord, terms: ClaimTerms): Claim | null => {
    if (!isReady(record)) return putOff(record, terms, { waiting: true })
    const at = now()
    const moved = moveRecord(record, { state: "submitting" }, null, at, null)
    return toClaim(update({ ...moved, ...heldFrom(at.epochMilliseconds, terms) }), at)
  }

  /** The client queues of the index `operations_to_claim`, in the order of their names. */
  const queuesOf = (provider: ProviderName) => {
    const free = table.records().filter((record) =>
      record.owner.provider === provider && isFree(record, memory.cluster.timeline)
      && !(record.waiting && record.due_at! > millis())
    )
    const queues = Map.groupBy(free, ({ owner, waiting }) => waiting ? "" : owner.client_id)
    return [...queues].toSorted(([a], [b]) => a < b ? -1 : 1)
  }

  const visitQueues = (provider: ProviderName, limit: number, terms: ClaimTerms, start: string): QueueVisit<Claim> => {
    const queues = mayClaim(memory, terms) ? queuesOf(provider) : []
    const inOrder = [...queues.filter(([name]) => name > start), ...queues.filter(([name]) => name <= start)]
    const visited = inOrder.slice(0, limit)
    const isRound = visited.length === inOrder.length
    const claims: Array<Claim> = []
    let more = !isRound
    for (const [index, [, queue]] of visited.entries()) {
      const share = shareOf(limit, visited.length, index)
      const dueInQueue = queue.toSorted((a, b) => a.due_at! - b.due_at!).slice(0, share)
      more ||= dueInQueue.length === share
      claims.push(...serve(dueInQueue, limit, (record) => claimOne(record, terms)))
    }
    return {
      items: withBatch(memory, claims, provider, terms),
      more,
      next: (isRound ? visited[0] : visited.at(-1))?.[0] ?? null
    }
  }

  const claimRounds = makeClaimRounds()
  const claim = (provider: ProviderName, limit: number, terms: ClaimTerms) =>
    claimRounds(provider, limit, (left, start) => Effect.sync(() => visitQueues(provider, left, terms, start)))

  const mayStillSend = ({ operation, revision }: Pick<Claim, "operation" | "revision">) =>
    Effect.sync(() => {
      const found = memory.operations.get(operation.id)
      // A claim by hand has no `send_before`, and no worker may send its operation.
      if (operation.send_before === null) return false
      return found !== undefined && isHeldClaim(found) && found.operation.revision === revision
        && found.send_before?.epochMilliseconds === operation.send_before.epochMilliseconds
        && hasStanding(found, "send")
    })

  const returnClaim = (
    { operation: { id, send_before }, revision }: Pick<Claim, "operation" | "revision">,
    terms: ReturnTerms
  ) =>
    Effect.flatMap(
      table.findAt(id, revision),
      (found) =>
        isHeldClaim(found) && !found.acknowledged && send_before !== null && !isForeign(found, send_before)
          ? Effect.sync(() => {
            putOff(found, { ...terms, idle: terms.delay }, { return_reason: returnReason(terms.reason), sent_as: null })
          })
          : Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
    )

  /** See `claimReturnedStatement` of the SQL queue. */
  const takeOver = (record: MemoryRecord, terms: ClaimTerms): Claim | null => {
    if (!isReady(record)) return putOff(record, terms)
    const at = now()
    const later = record.send_before!.epochMilliseconds + 1 - Duration.toMillis(terms.send_within)
    const from = Math.max(at.epochMilliseconds, later)
    return toClaim(update({ ...record, return_reason: null, ...heldFrom(from, terms) }), at)
  }

  const claimReturned = (provider: ProviderName, limit: number, terms: ClaimTerms) =>
    Effect.sync(() => {
      const isDue = (record: MemoryRecord) =>
        mayClaim(memory, terms) && isReturnedClaim(record) && record.timeline === memory.cluster.timeline
      const claims = serve(due(provider, isDue), limit, (record) => takeOver(record, terms))
      return withBatch(memory, claims, provider, terms)
    })

  return { claim, mayStillSend, returnClaim, claimReturned }
})

/** The members of a claim whose holder may send from an instant on, in milliseconds since the epoch. */
const heldFrom = (from: number, terms: ClaimTerms) => ({
  claimed_by: terms.worker,
  provider_account: terms.provider_account ?? null,
  sent_as: terms.sent_as ?? null,
  send_before: DateTime.makeUnsafe(from + Duration.toMillis(terms.send_within)),
  due_at: from + Duration.toMillis(terms.rescue_after)
})

/** See `isOfOtherClaim` of the SQL queue. */
const hasClaimAfter = ({ history }: MemoryRecord, claimed_at: DateTime.Utc | null): boolean =>
  history.some(({ at, evidence, to }) =>
    claimed_at !== null && to === "submitting" && at.epochMilliseconds > claimed_at.epochMilliseconds + 5000
    && !(Predicate.hasProperty(evidence, "by") && (evidence.by === "status_read" || evidence.by === "operator"))
  )

/** The provider has named an order since the status read behind a result. */
const mayHaveOrder = ({ acknowledged, sent_as }: MemoryRecord, recording: Recording): boolean =>
  acknowledged || sent_as !== (recording.sent_as ?? null)

const isNeverReceived = (outcome: Outcome): boolean =>
  outcome.state === "failed" && outcome.failure.code === "provider_never_received"

const knownOf = ({ acknowledged, operation: { state }, reference }: MemoryRecord): KnownOutcome => ({
  state,
  acknowledged,
  reference
})

/** The key of a batch in `MemoryLedger.batches`. */
export const keyOf = ({ life, provider, worker }: Omit<ClaimBatch, "epoch" | "batch">) =>
  JSON.stringify([worker, life, provider])

/** Whether these terms may claim: see `here` of the SQL queue. */
const mayClaim = ({ cluster, home }: MemoryLedger["Service"], { recorded_by }: ClaimTerms): boolean =>
  recorded_by === undefined ? !home.has("epoch") : home.get("life") === cluster.life

const countBatch = (
  { batches, cluster: { life }, home }: MemoryLedger["Service"],
  worker: string,
  provider: ProviderName
): ClaimBatch => {
  const key = keyOf({ worker, life, provider })
  const batch = (batches.get(key) ?? 0) + 1
  batches.set(key, batch)
  return { epoch: home.get("epoch")!, worker, life, provider, batch }
}

const withBatch = (
  memory: MemoryLedger["Service"],
  claims: ReadonlyArray<Claim>,
  provider: ProviderName,
  { recorded_by }: ClaimTerms
): ReadonlyArray<Claim> => {
  if (recorded_by === undefined || claims.length === 0) return claims
  const batch = countBatch(memory, recorded_by, provider)
  return claims.map((claim) => ({ ...claim, batch }))
}

export const makeOutcomes = (table: MemoryQueueTable) => {
  const { after, findAt, nextRead, now, update } = table

  const next = (record: MemoryRecord, outcome: Outcome, recording: Recording): MemoryRecord => {
    const ends = outcome.state === "failed" || outcome.state === "cancelled"
    // As the trigger `operations_unsent`.
    if (ends && record.operation.state === "accepted" && !isUnsent(record, table.memory)) {
      throw new Error(`operation ${record.operation.id} may have been sent`)
    }
    const moved = moveRecord(record, outcome, recording.evidence, now(), nextRead(record, recording.due_in))
    return withReference({ ...moved, reversal_read: reversalRead(record, outcome, recording) }, recording.reference)
  }

  const reversalRead = (record: MemoryRecord, { state }: Outcome, { reversible }: Recording) => {
    if (state !== "succeeded" || reversible === undefined) return null
    const until = after(reversible.within)
    return {
      due_at: Math.min(nextRead(record, reversible.read_in), until),
      until,
      reading_since: null,
      hinted_at: null
    }
  }

  const moved = (record: MemoryRecord, outcome: Outcome, recording: Recording): Operation =>
    update(next(record, outcome, recording)).operation

  /**
   * Finds the record if neither the claim, a fence, the reference nor an acknowledgement contradicts the recording. A returned claim has no
   * holder.
   */
  const findFor = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.flatMap(
      findAt(id, revision),
      (found) =>
        isReturnedClaim(found) || isForeign(found, recording.send_before) || isFencedSince(found, recording) ||
          isOtherReference(found, recording.reference) || isNeverReceived(outcome) && mayHaveOrder(found, recording)
          ? Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
          : Effect.succeed(found)
    )

  const record = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, outcome, recording), (found) => moved(found, outcome, recording))

  /** All or nothing: a row that breaks a rule dies before the first update. */
  const recordAll = (all: ReadonlyArray<OutcomeRecord>) =>
    Effect.gen(function*() {
      const permitted = new Map<number, MemoryRecord>()
      for (const [{ id, outcome, recording, revision }, index] of firstOfEach(all)) {
        const found = yield* Effect.result(findFor(id, revision, outcome, recording))
        if (Result.isSuccess(found)) permitted.set(index, next(found.success, outcome, recording))
      }
      for (const record of permitted.values()) update(record)
      return all.map((_, index) => permitted.has(index))
    })

  const recordHeld = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.map(findFor(id, revision, outcome, recording), (found) =>
      moved(
        moveRecord(found, { state: "submitting" }, recording.evidence, now(), after(recording.due_in)),
        outcome,
        recording
      ))

  const report = (id: OperationId, proof: LateProof) =>
    Effect.sync((): Reported => {
      const found = table.memory.operations.get(id)
      if (found === undefined || found.operation.terminal) return { as: "settled", isKept: true }
      const { state } = found.operation
      if (state === "submitting") return { as: "claimed", isKept: false }
      const isForeignClaim = state !== "accepted" && hasClaimAfter(found, proof.claimed_at)
      const sent_as = namesNoOrder(proof) ? null : found.sent_as
      const known = { ...withReference(found, proof.reference), sent_as, due_at: table.millis() }
      const held = {
        ...known,
        hold_placed: true,
        hold_outlasts_approval: true,
        examined_timeline: null,
        unsent_in: null
      }
      const stored = state === "accepted"
        ? withReview(held, true)
        : withReview(known, isOtherReference(found, proof.reference) || isForeignClaim)
      return reportedOf({ ...knownOf(update(stored)), isForeign: isForeignClaim }, proof)
    })

  const contradict = (id: OperationId, proof: Proof) =>
    Effect.sync(() => {
      const found = table.memory.operations.get(id)
      if (found === undefined) return null
      const known = knownOf(found)
      if (!contradicts(known, proof)) return null
      if (!isReversal(known, proof)) return known
      update({ ...found, reversal: found.reversal ?? { recorded_at: now(), evidence: contradictionEvidence(proof) } })
      return known
    })

  return { record, recordAll, recordHeld, report, contradict }
}
