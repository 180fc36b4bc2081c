/**
 * The submission queue in memory, on the clock that there is when it is made: that of the database, as it were. Whatever
 * is looked up and then written happens in one synchronous step.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Provider } from "../../domain/Grant.ts"
import { refusal, standingAt } from "../../domain/Grant.ts"
import {
  IllegalTransition,
  type Operation,
  type OperationId,
  OperationNotFound,
  type Outcome,
  StaleOperation
} from "../../domain/Operation.ts"
import {
  type Claim,
  type ClaimTerms,
  type DueRead,
  type ProviderReference,
  type ReadTerms,
  type Recording,
  type ReviewTerms,
  StillHeld
} from "../../domain/Submission.ts"
import { type LaneVisit, makeClaimInTurns, shareOf } from "../internal/claimInTurns.ts"
import { makeOpenPayload } from "../internal/openPayload.ts"
import { PayloadCipher } from "../PayloadCipher.ts"
import { MemoryLedger, type MemoryRecord, moveRecord } from "./MemoryLedger.ts"

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const cipher = yield* PayloadCipher
  const openPayload = yield* makeOpenPayload
  const clock = yield* Clock.Clock
  const millis = () => clock.currentTimeMillisUnsafe()
  const now = () => DateTime.makeUnsafe(millis())

  const update = (record: MemoryRecord): MemoryRecord => {
    memory.operations.set(record.operation.id, record)
    return record
  }

  /** Records that are due, oldest first. */
  const due = (provider: Provider | null, belongs: (record: MemoryRecord) => boolean) =>
    [...memory.operations.values()]
      .filter((record) =>
        record.due_at !== null && record.due_at <= millis()
        && (provider === null || record.owner.provider === provider) && belongs(record)
      )
      .toSorted((a, b) => a.due_at! - b.due_at!)

  /** Up to `limit` of what is due. What has to wait makes room for what comes after it. */
  const serve = <A>(
    records: ReadonlyArray<MemoryRecord>,
    limit: number,
    handle: (record: MemoryRecord) => A | null
  ): ReadonlyArray<A> => {
    const served: Array<A> = []
    for (const record of records) {
      if (served.length === limit) break
      const item = handle(record)
      if (item !== null) served.push(item)
    }
    return served
  }

  const hasStanding = ({ owner, scopes }: MemoryRecord, purpose: "send" | "read"): boolean =>
    [...memory.grants.keys()].some((id) => {
      const grant = memory.showGrant(id)!
      return grant.client_id === owner.client_id && grant.resource_owner === owner.resource_owner
        && grant.subject === owner.subject && grant.provider_connection_id === owner.provider_connection_id
        && refusal(standingAt(grant, null, now()), null) === null
        && (purpose === "read" || scopes.every((scope) => grant.scopes.includes(scope)))
    })

  /** With a review that begins once the operation has been in its state for so long. */
  const aged = (record: MemoryRecord, age: Duration.Duration): MemoryRecord => {
    const since = Math.max(
      record.operation.updated_at.epochMilliseconds,
      record.reviewed_at?.epochMilliseconds ?? -Infinity
    )
    const isOld = since <= millis() - Duration.toMillis(age)
    return isOld ? { ...record, operation: { ...record.operation, under_review: true } } : record
  }

  const after = (delay: Duration.Duration) => millis() + Duration.toMillis(delay)

  const toProviderOperation = ({ operation, owner, send_before }: MemoryRecord) => ({
    id: operation.id,
    type: operation.type,
    resource_owner: owner.resource_owner,
    provider_connection_id: owner.provider_connection_id,
    send_before
  })

  const isReadable = ({ operation, payload }: MemoryRecord): boolean => {
    if (payload === null) return true
    return payload.key_id === null
      ? operation.created_at.epochMilliseconds < cipher.plaintextBefore
      : cipher.keyIds.includes(payload.key_id)
  }

  const isReady = (record: MemoryRecord) => hasStanding(record, "send") && isReadable(record)

  /** When somebody looks again at an operation whose owner withdrew: less often, the longer ago. */
  const idleUntil = ({ operation }: MemoryRecord, idle: Duration.Duration) => {
    const age = millis() - operation.updated_at.epochMilliseconds
    return millis() + Math.max(Duration.toMillis(idle), Math.min(5 * 60_000, age / 10))
  }

  const isClaimable = ({ operation, timeline }: MemoryRecord) =>
    operation.state === "accepted" && timeline === memory.cluster.timeline

  /** As the index of PostgreSQL has them: the records of each lane, those that are due first. */
  const lanesOf = (provider: Provider) => {
    const lanes = new Map<string, Array<MemoryRecord>>()
    for (const record of memory.operations.values()) {
      if (record.owner.provider !== provider || !isClaimable(record)) continue
      const lane = record.waiting ? "" : record.owner.client_id
      if (record.waiting && record.due_at! > millis()) continue
      lanes.set(lane, [...lanes.get(lane) ?? [], record])
    }
    return lanes
  }

  const claimOne = (record: MemoryRecord, terms: ClaimTerms): Claim | null => {
    if (!isReady(record)) {
      update({ ...aged(record, terms.review_after), due_at: idleUntil(record, terms.idle), waiting: true })
      return null
    }
    const claimed = update({
      ...moveRecord(record, { state: "submitting" }, null, now(), after(terms.rescue_after)),
      send_before: DateTime.makeUnsafe(after(terms.send_within))
    })
    return {
      operation: toProviderOperation(claimed),
      revision: claimed.operation.revision,
      payload: openPayload({ ...record.operation, request_digest: record.digest, sealed: record.payload })
    }
  }

  const visitLanes = (provider: Provider, limit: number, terms: ClaimTerms, start: string): LaneVisit<Claim> => {
    const lanes = lanesOf(provider)
    const names = [...lanes.keys()].toSorted((a, b) => a < b ? -1 : 1)
    const inOrder = [...names.filter((name) => name > start), ...names.filter((name) => name <= start)]
    const visited = inOrder.slice(0, limit)
    const isRound = visited.length === inOrder.length
    const claims: Array<Claim> = []
    let more = !isRound
    for (const [index, name] of visited.entries()) {
      const share = shareOf(limit, visited.length, index)
      const due = lanes.get(name)!.filter(({ due_at }) => due_at! <= millis())
        .toSorted((a, b) => a.due_at! - b.due_at!).slice(0, share)
      more ||= due.length === share
      for (const record of due) {
        const claim = claimOne(record, terms)
        if (claim !== null) claims.push(claim)
      }
    }
    return { items: claims, more, next: (isRound ? visited[0] : visited.at(-1)) ?? null }
  }

  const claimInTurns = makeClaimInTurns()
  const claim = (provider: Provider, limit: number, terms: ClaimTerms) =>
    claimInTurns(provider, limit, (left, start) => Effect.sync(() => visitLanes(provider, left, terms, start)))

  const mayStillSend = ({ operation, revision }: Pick<Claim, "operation" | "revision">) =>
    Effect.sync(() => {
      const found = memory.operations.get(operation.id)
      return found !== undefined && found.operation.state === "submitting" && found.operation.revision === revision
        && found.send_before?.epochMilliseconds === operation.send_before?.epochMilliseconds
        && hasStanding(found, "send")
    })

  const find = (id: OperationId) =>
    Effect.suspend(() => {
      const record = memory.operations.get(id)
      return record === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(record)
    })

  const findAt = (id: OperationId, revision: number) =>
    Effect.flatMap(find(id), (record) => {
      const { revision: actual } = record.operation
      return actual === revision
        ? Effect.succeed(record)
        : Effect.fail(new StaleOperation({ id, expected: revision, actual }))
    })

  const moved = (record: MemoryRecord, outcome: Outcome, recording: Recording): Operation =>
    update({
      ...moveRecord(record, outcome, recording.evidence, now(), after(recording.due_in)),
      reference: record.reference ?? recording.reference
    }).operation

  /** Whether something is of another claim than the one that is recorded. */
  const isForeign = ({ send_before }: MemoryRecord, known: DateTime.Utc | null | undefined) =>
    known != null && send_before?.epochMilliseconds !== known.epochMilliseconds

  /** Whether the provider's name for it is another one than the one that is recorded. */
  const isOtherName = ({ reference }: MemoryRecord, known: ProviderReference | null) =>
    reference !== null && known !== null && reference !== known

  const withReview = (record: MemoryRecord, begins: boolean): MemoryRecord =>
    begins ? { ...record, operation: { ...record.operation, under_review: true } } : record

  const record = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.flatMap(
      findAt(id, revision),
      (found) =>
        isForeign(found, recording.send_before) || isOtherName(found, recording.reference)
          ? Effect.fail(new StaleOperation({ id, expected: revision, actual: found.operation.revision }))
          : Effect.sync(() => moved(found, outcome, recording))
    )

  const rescue = (limit: number) =>
    Effect.sync(() =>
      due(null, ({ operation }) => operation.state === "submitting").slice(0, limit).map((stale) => {
        update(moveRecord(stale, { state: "indeterminate" }, rescued, now()))
        return stale.operation.id
      })
    )

  const take =
    (belongs: (record: MemoryRecord) => boolean, review: (r: MemoryRecord, t: ReadTerms) => MemoryRecord) =>
    (provider: Provider, limit: number, terms: ReadTerms) =>
      Effect.sync(() =>
        serve(due(provider, belongs), limit, (record): DueRead | null => {
          const active = hasStanding(record, "read")
          const { operation, reads, reference, ...taken } = update({
            ...review(record, terms),
            due_at: active ? after(terms.lease) : idleUntil(record, terms.idle),
            reads: record.reads + (active ? 1 : 0)
          })
          const { revision, state } = operation
          const read = { operation: toProviderOperation({ ...record, ...taken }), provider, state, revision }
          return active ? { ...read, reference, reads } : null
        })
      )

  const takeReads = take(
    ({ operation }) => operation.state === "submitted" || operation.state === "indeterminate",
    (record, terms) =>
      aged(
        record,
        record.operation.state === "submitted" ? terms.review_submitted_after : terms.review_indeterminate_after
      )
  )

  const takeHeld = take(
    ({ operation, timeline }) => operation.state === "accepted" && timeline < memory.cluster.timeline,
    (record, terms) => {
      const lookedAt = -memory.cluster.timeline
      const send_before = record.timeline === lookedAt && record.send_before !== null
        ? record.send_before
        : DateTime.makeUnsafe(after(terms.rescue_after))
      const held = { ...record, send_before, timeline: lookedAt }
      return record.reviewed_at === null
        ? { ...held, operation: { ...record.operation, under_review: true } }
        : aged(held, Duration.min(terms.review_submitted_after, terms.review_indeterminate_after))
    }
  )

  /** Held, and looked at on this timeline. */
  const isExamined = ({ operation, timeline }: MemoryRecord) =>
    operation.state === "accepted" && timeline === -memory.cluster.timeline

  const isBeingRead = ({ operation: { state } }: MemoryRecord) => state === "submitted" || state === "indeterminate"

  const postpone = (
    id: OperationId,
    revision: number,
    next: Omit<Recording, "evidence"> & { readonly review?: boolean }
  ) =>
    Effect.sync(() => {
      const found = memory.operations.get(id)
      if (found?.operation.revision !== revision || isForeign(found, next.send_before)) return
      if (!isBeingRead(found) && !(isExamined(found) && next.send_before != null)) return
      update(withReview(
        { ...found, due_at: after(next.due_in), reference: found.reference ?? next.reference },
        next.review === true &&
          (found.reviewed_at === null ||
            found.reviewed_at.epochMilliseconds < found.operation.updated_at.epochMilliseconds)
      ))
    })

  const report = (id: OperationId, reference: ProviderReference | null) =>
    Effect.sync(() => {
      const found = memory.operations.get(id)
      if (found === undefined) return
      const known = { ...found, due_at: millis(), reference: found.reference ?? reference }
      if (isBeingRead(found)) update(withReview(known, isOtherName(found, reference)))
      else if (found.operation.state === "accepted") {
        update({ ...known, timeline: 0, operation: { ...found.operation, under_review: true } })
      }
    })

  const recordHeld = (id: OperationId, revision: number, outcome: Outcome, recording: Recording) =>
    Effect.flatMap(
      findAt(id, revision),
      (found) =>
        isForeign(found, recording.send_before) || isOtherName(found, recording.reference)
          ? Effect.fail(new StaleOperation({ id, expected: revision, actual: revision }))
          : Effect.sync(() =>
            moved(moveRecord(found, { state: "submitting" }, recording.evidence, now()), outcome, recording)
          )
    )

  const released = (record: MemoryRecord): Operation =>
    update({
      ...record,
      operation: { ...record.operation, under_review: false },
      timeline: memory.cluster.timeline,
      due_at: millis(),
      waiting: false,
      send_before: null,
      reviewed_at: now()
    }).operation

  const release = (id: OperationId) =>
    Effect.flatMap(find(id), (record): Effect.Effect<Operation, StillHeld | IllegalTransition> => {
      const { operation, reference, send_before, timeline } = record
      if (operation.state !== "accepted") {
        const illegal = { id, from: operation.state, to: "submitting", reason: "not_permitted" } as const
        return Effect.fail(new IllegalTransition(illegal))
      }
      if (timeline === memory.cluster.timeline) return Effect.succeed(operation)
      if (reference !== null) return Effect.fail(new StillHeld({ id, reason: "acknowledged", until: null }))
      if (!isExamined(record)) return Effect.fail(new StillHeld({ id, reason: "unexamined", until: null }))
      return send_before!.epochMilliseconds > millis()
        ? Effect.fail(new StillHeld({ id, reason: "sendable", until: send_before }))
        : Effect.sync(() => released(record))
    })

  const releaseUnsent = (id: OperationId, send_before: DateTime.Utc) =>
    Effect.flatMap(find(id), (record) => {
      const { revision: actual } = record.operation
      const isAsRead = isExamined(record) && record.reference === null && !isForeign(record, send_before)
        && send_before.epochMilliseconds <= millis()
      return isAsRead
        ? Effect.asVoid(Effect.sync(() => released(record)))
        : Effect.fail(new StaleOperation({ id, expected: 1, actual }))
    })

  const releaseAll = Effect.sync(() =>
    [...memory.operations.values()].filter((record) =>
      record.operation.state === "accepted" && record.timeline < memory.cluster.timeline && record.reference === null
    ).map(released).length
  )

  const holdAll = Effect.sync(() =>
    [...memory.operations.values()].filter(({ operation }) => operation.state === "accepted")
      .map((record) => update({ ...record, timeline: 0, due_at: millis() })).length
  )

  const reviewAged = (limit: number, terms: ReviewTerms) =>
    Effect.sync(() =>
      [...memory.operations.values()].filter(({ operation: { state, under_review } }) =>
        !under_review && (state === "accepted" || state === "submitted" || state === "indeterminate")
      ).map((record) => [record, aged(record, terms[record.operation.state as keyof ReviewTerms])] as const)
        .filter(([before, after]) => before !== after).slice(0, limit).map((pair) => update(pair[1])).length
    )

  const prepare = Effect.succeed({ moved: false })

  return {
    prepare,
    claim,
    mayStillSend,
    record,
    rescue,
    takeReads,
    takeHeld,
    postpone,
    report,
    recordHeld,
    release,
    releaseUnsent,
    releaseAll,
    holdAll,
    reviewAged
  }
})

const rescued = {
  by: "rescuer",
  reason: "the worker that claimed the operation did not record what became of it"
}
