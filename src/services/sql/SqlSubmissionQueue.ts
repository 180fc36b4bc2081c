/**
 * The submission queue in PostgreSQL.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as SqlClient from "effect/sql/SqlClient"
import type { Provider, ProviderConnectionId, ResourceOwner } from "../../domain/Grant.ts"
import {
  IllegalTransition,
  type OperationId,
  OperationNotFound,
  type OperationState,
  type Outcome,
  StaleOperation
} from "../../domain/Operation.ts"
import {
  type Claim,
  type ClaimTerms,
  type DueRead,
  type ProviderOperation,
  type ProviderReference,
  type ReadTerms,
  type Recording,
  type ReviewTerms,
  StillHeld,
  UnsafeDatabase
} from "../../domain/Submission.ts"
import { makeClaimInTurns, maxTurns } from "../internal/claimInTurns.ts"
import { makeOpenPayload } from "../internal/openPayload.ts"
import { PayloadCipher } from "../PayloadCipher.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"
import { findOperation } from "./findOperation.ts"
import { fromRow, type OperationRow } from "./OperationRow.ts"
import {
  claimStatement,
  heldStatement,
  holdAllStatement,
  mayStillSendStatement,
  moveHomeStatement,
  postponeStatement,
  recordStatement,
  releaseAllStatement,
  releaseStatement,
  reportStatement,
  rescueStatement,
  reviewAgedStatement,
  takeHeldStatement,
  takeReadsStatement
} from "./submissionStatements.ts"

interface SubmissionRow {
  readonly id: OperationId
  readonly type: string
  readonly resource_owner: ResourceOwner
  readonly provider_connection_id: ProviderConnectionId
  readonly send_before: Date | null
  readonly revision: number
}

interface ClaimRow extends SubmissionRow {
  readonly created_at: Date
  readonly request_digest: Uint8Array
  readonly payload: Uint8Array | null
  readonly key_id: string | null
}

interface ReadRow extends SubmissionRow {
  readonly state: OperationState
  readonly reference: ProviderReference | null
  readonly reads: number
}

/** Why an operation was not released. */
interface HeldRow extends OperationRow {
  readonly is_free: boolean
  readonly is_examined: boolean
  readonly is_acknowledged: boolean
  readonly send_before: Date | null
}

/** How many rows a statement looked at. It yields one row at least, to say so. */
interface Looked {
  readonly looked: number
}

/** What a claim says of the lanes, in each of its rows, of which there is one at least. */
interface LanesRow {
  readonly more: boolean
  readonly next: string | null
}

type ClaimedRow = LanesRow & (ClaimRow | { readonly id: null })

type TakenRow = Looked & (ReadRow | { readonly id: null })

/**
 * Asks again while a full batch held more operations that had to wait than there was room for: whoever withdrew must
 * not keep others waiting. What was had already is not lost when the store goes away meanwhile.
 */
const untilServed = <A>(
  limit: number,
  ask: (left: number) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly looked: number }, StoreUnavailable>
): Effect.Effect<ReadonlyArray<A>, StoreUnavailable> =>
  Effect.gen(function*() {
    const served: Array<A> = []
    for (let turns = 0; turns < maxTurns; turns++) {
      const left = limit - served.length
      const { items, looked } = yield* ask(left).pipe(
        Effect.catchTag("StoreUnavailable", (error) =>
          served.length > 0 ? Effect.succeed({ items: [], looked: 0 }) : Effect.fail(error))
      )
      served.push(...items)
      if (looked < left || served.length === limit) {
        break
      }
    }
    return served
  })

const toDueRead = (provider: Provider, row: ReadRow): DueRead => ({
  operation: toProviderOperation(row),
  provider,
  state: row.state,
  revision: row.revision,
  reference: row.reference,
  reads: row.reads
})

const toProviderOperation = (row: SubmissionRow): ProviderOperation => ({
  id: row.id,
  type: row.type,
  resource_owner: row.resource_owner,
  provider_connection_id: row.provider_connection_id,
  send_before: row.send_before === null ? null : DateTime.fromDateUnsafe(row.send_before)
})

const toDate = (instant: DateTime.Utc | null | undefined): Date | null =>
  instant == null ? null : DateTime.toDateUtc(instant)

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const cipher = yield* PayloadCipher

  const openPayload = yield* makeOpenPayload

  const settings = sql.unsafe<{ readonly fsync: string; readonly synchronous_commit: string }>(
    "SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit"
  )

  /** Runs a statement for as long as it takes: it may have all accepted operations to change. */
  const untimed = (statement: string) =>
    sql.withTransaction(Effect.andThen(sql.unsafe("SET LOCAL statement_timeout = 0"), sql.unsafe(statement)))

  const prepare = Effect.gen(function*() {
    const [row] = yield* orUnavailable(settings)
    for (const setting of ["fsync", "synchronous_commit"] as const) {
      if (row![setting] === "off") return yield* new UnsafeDatabase({ setting })
    }
    const moved = yield* orUnavailable(untimed(moveHomeStatement))
    return { moved: moved.length > 0 }
  }).pipe(Effect.withSpan("SubmissionQueue.prepare"))

  const claimOnce = (provider: Provider, limit: number, terms: ClaimTerms, after: string) =>
    orUnavailable(
      sql.unsafe<ClaimedRow>(claimStatement(limit), [
        provider,
        cipher.keyIds,
        Duration.toMillis(terms.send_within),
        Duration.toMillis(terms.rescue_after),
        Duration.toMillis(terms.idle),
        Duration.toMillis(terms.review_after),
        after,
        cipher.plaintextBefore
      ])
    )

  const toClaim = (row: ClaimRow): Claim => ({
    operation: toProviderOperation(row),
    revision: row.revision,
    payload: openPayload({
      id: row.id,
      type: row.type,
      created_at: DateTime.fromDateUnsafe(row.created_at),
      request_digest: Hex.encode(row.request_digest),
      sealed: row.payload === null ? null : { key_id: row.key_id, payload: row.payload }
    })
  })

  const claimInTurns = makeClaimInTurns()
  const claim = Effect.fn("SubmissionQueue.claim")((provider: Provider, limit: number, terms: ClaimTerms) =>
    claimInTurns(provider, limit, (left, after) =>
      Effect.map(claimOnce(provider, left, terms, after), (rows) => ({
        items: rows.filter((row): row is ClaimRow & LanesRow => row.id !== null).map(toClaim),
        more: rows[0]!.more,
        next: rows[0]!.next
      })))
  )

  const mayStillSend = Effect.fn("SubmissionQueue.mayStillSend")(
    function*({ operation: { id, send_before }, revision }: Pick<Claim, "operation" | "revision">) {
      const [row] = yield* orUnavailable(
        sql.unsafe<{ readonly may_send: boolean | null }>(mayStillSendStatement, [id, revision, toDate(send_before)])
      )
      return row!.may_send ?? (yield* new StoreUnavailable({ cause: new Error("the server is in recovery") }))
    }
  )

  const stale = Effect.fnUntraced(function*(id: OperationId, expected: number) {
    const { revision: actual } = yield* findOperation(sql, id)
    return yield* new StaleOperation({ id, expected, actual })
  })

  const record = Effect.fn("SubmissionQueue.record")(
    function*(id: OperationId, revision: number, outcome: Outcome, recording: Recording) {
      const failure = outcome.state === "failed" ? outcome.failure : null
      const [row] = yield* orUnavailable(
        sql.unsafe<OperationRow>(recordStatement, [
          id,
          revision,
          outcome.state,
          failure?.code ?? null,
          failure?.message ?? null,
          JSON.stringify(recording.evidence),
          recording.reference,
          Duration.toMillis(recording.due_in),
          toDate(recording.send_before)
        ])
      )
      return row === undefined ? yield* stale(id, revision) : fromRow(row)
    }
  )

  const rescue = Effect.fn("SubmissionQueue.rescue")(function*(limit: number) {
    const rows = yield* orUnavailable(sql.unsafe<{ readonly id: OperationId }>(rescueStatement(limit)))
    return rows.map(({ id }) => id)
  })

  const take =
    (statement: (limit: number) => string, more: (terms: ReadTerms) => ReadonlyArray<Duration.Duration>) =>
    (provider: Provider, limit: number, terms: ReadTerms) =>
      untilServed(limit, (left) => {
        const { idle, lease, review_indeterminate_after, review_submitted_after } = terms
        const durations = [lease, idle, review_submitted_after, review_indeterminate_after, ...more(terms)]
        const parameters = [provider, ...durations.map((duration) => Duration.toMillis(duration))]
        return Effect.map(orUnavailable(sql.unsafe<TakenRow>(statement(left), parameters)), (rows) => ({
          items: rows.filter((row): row is ReadRow & Looked => row.id !== null).map((row) => toDueRead(provider, row)),
          looked: rows[0]!.looked
        }))
      })

  const reviewAged = Effect.fn("SubmissionQueue.reviewAged")((limit: number, terms: ReviewTerms) =>
    Effect.map(
      orUnavailable(
        sql.unsafe(reviewAgedStatement(limit), [
          Duration.toMillis(terms.accepted),
          Duration.toMillis(terms.submitted),
          Duration.toMillis(terms.indeterminate)
        ])
      ),
      (rows) => rows.length
    )
  )

  const postpone = Effect.fn("SubmissionQueue.postpone")(
    (
      id: OperationId,
      revision: number,
      { due_in, reference, review = false, send_before }: Omit<Recording, "evidence"> & { readonly review?: boolean }
    ) =>
      Effect.asVoid(orUnavailable(
        sql.unsafe(postponeStatement, [id, revision, Duration.toMillis(due_in), reference, toDate(send_before), review])
      ))
  )

  const report = Effect.fn("SubmissionQueue.report")((id: OperationId, reference: ProviderReference | null) =>
    Effect.asVoid(orUnavailable(sql.unsafe(reportStatement, [id, reference])))
  )

  const recordHeld = Effect.fn("SubmissionQueue.recordHeld")(
    function*(id: OperationId, revision: number, outcome: Outcome, recording: Recording) {
      // Due at another time than after it: the trigger takes a time that stays for one that nobody gave.
      const submitting = { ...recording, reference: null, due_in: Duration.zero }
      return yield* orUnavailable(
        sql.withTransaction(Effect.andThen(
          record(id, revision, { state: "submitting" }, submitting),
          record(id, revision + 1, outcome, recording)
        ))
      )
    }
  )

  const release = Effect.fn("SubmissionQueue.release")(function*(id: OperationId) {
    const [released] = yield* orUnavailable(sql.unsafe<OperationRow>(releaseStatement, [id, null]))
    if (released !== undefined) return fromRow(released)
    const [row] = yield* orUnavailable(sql.unsafe<HeldRow>(heldStatement, [id]))
    if (row === undefined) return yield* new OperationNotFound({ id })
    if (row.state !== "accepted") {
      return yield* new IllegalTransition({ id, from: row.state, to: "submitting", reason: "not_permitted" })
    }
    if (row.is_free) return fromRow(row)
    const reason = row.is_acknowledged ? "acknowledged" : row.is_examined ? "sendable" : "unexamined"
    const until = reason === "sendable" ? DateTime.fromDateUnsafe(row.send_before!) : null
    return yield* new StillHeld({ id, reason, until })
  })

  const releaseUnsent = Effect.fn("SubmissionQueue.releaseUnsent")(
    function*(id: OperationId, send_before: DateTime.Utc) {
      const rows = yield* orUnavailable(sql.unsafe(releaseStatement, [id, toDate(send_before)]))
      if (rows.length === 0) yield* stale(id, 1)
    }
  )

  const counted = (statement: string) => Effect.map(orUnavailable(untimed(statement)), (rows) => rows.length)

  return {
    prepare,
    claim,
    mayStillSend,
    record,
    rescue,
    takeReads: take(takeReadsStatement, () => []),
    takeHeld: take(takeHeldStatement, ({ rescue_after }) => [rescue_after]),
    postpone,
    report,
    recordHeld,
    release,
    releaseUnsent,
    releaseAll: counted(releaseAllStatement),
    holdAll: counted(holdAllStatement),
    reviewAged
  }
})
