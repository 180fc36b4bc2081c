/**
 * The submission queue in PostgreSQL.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import type { Provider, ProviderBindingId, ResourceOwner } from "../domain/Grant.ts"
import {
  IllegalTransition,
  type OperationId,
  OperationNotFound,
  type OperationState,
  type Outcome,
  StaleOperation
} from "../domain/Operation.ts"
import {
  type Claim,
  type ClaimTerms,
  type DueRead,
  PayloadUnreadable,
  type ProviderOperation,
  type ProviderReference,
  type ReadTerms,
  type Recording,
  type ReviewTerms,
  StillHeld,
  UnsafeDatabase
} from "../domain/Submission.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { PayloadCipher } from "./PayloadCipher.ts"
import { orUnavailable, type StoreUnavailable } from "./StoreUnavailable.ts"

interface SubmissionRow {
  readonly id: OperationId
  readonly type: string
  readonly resource_owner: ResourceOwner
  readonly provider_binding_id: ProviderBindingId
  readonly send_before: Date | null
  readonly revision: number
}

interface ClaimRow extends SubmissionRow {
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

type ClaimedRow = Looked & (ClaimRow | { readonly id: null })

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

/** Batches that one call looks at. */
const maxTurns = 32

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
  provider_binding_id: row.provider_binding_id,
  send_before: row.send_before === null ? null : DateTime.fromDateUnsafe(row.send_before)
})

const decoder = new TextDecoder("utf-8", { fatal: true })

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const cipher = yield* PayloadCipher

  const openPayload = (row: ClaimRow): Effect.Effect<Schema.Json, PayloadUnreadable> =>
    row.payload === null
      ? Effect.fail(new PayloadUnreadable())
      : Effect.flatMap(cipher.open(row.id, { key_id: row.key_id, payload: row.payload }), (bytes) =>
        Effect.try({
          try: () => JSON.parse(decoder.decode(bytes)) as Schema.Json,
          catch: () => new PayloadUnreadable()
        }))

  const settings = sql.unsafe<{ readonly fsync: string; readonly synchronous_commit: string }>(
    "SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit"
  )

  const prepare = Effect.gen(function*() {
    const [row] = yield* orUnavailable(settings)
    for (const setting of ["fsync", "synchronous_commit"] as const) {
      if (row![setting] === "off") return yield* new UnsafeDatabase({ setting })
    }
    // As long as it takes: there may be many operations to hold.
    const moved = yield* orUnavailable(
      sql.withTransaction(Effect.andThen(sql.unsafe("SET LOCAL statement_timeout = 0"), sql.unsafe(moveHomeStatement)))
    )
    return { moved: moved.length > 0 }
  }).pipe(Effect.withSpan("SubmissionQueue.prepare"))

  const claimOnce = (provider: Provider, limit: number, terms: ClaimTerms) =>
    orUnavailable(
      sql.unsafe<ClaimedRow>(claimStatement(limit), [
        provider,
        cipher.keyIds,
        Duration.toMillis(terms.send_within),
        Duration.toMillis(terms.rescue_after),
        Duration.toMillis(terms.idle),
        Duration.toMillis(terms.review_after)
      ])
    )

  const toClaim = (row: ClaimRow): Claim => ({
    operation: toProviderOperation(row),
    revision: row.revision,
    payload: openPayload(row)
  })

  const claim = Effect.fn("SubmissionQueue.claim")((provider: Provider, limit: number, terms: ClaimTerms) =>
    untilServed(limit, (left) =>
      Effect.map(claimOnce(provider, left, terms), (rows) => ({
        items: rows.filter((row): row is ClaimRow & Looked => row.id !== null).map(toClaim),
        looked: rows[0]!.looked
      })))
  )

  const show = (id: OperationId) =>
    Effect.flatMap(
      orUnavailable(sql.unsafe<OperationRow>(`SELECT ${publicColumns} FROM operations o WHERE o.id = $1`, [id])),
      ([row]) => row === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(fromRow(row))
    )

  const stale = Effect.fnUntraced(function*(id: OperationId, expected: number) {
    const { revision: actual } = yield* show(id)
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
    (id: OperationId, revision: number, { due_in, reference, send_before }: Omit<Recording, "evidence">) =>
      Effect.asVoid(orUnavailable(
        sql.unsafe(postponeStatement, [id, revision, Duration.toMillis(due_in), reference, toDate(send_before)])
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

  const counted = (statement: string) => Effect.map(orUnavailable(sql.unsafe(statement)), (rows) => rows.length)

  return {
    prepare,
    claim,
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

const toDate = (instant: DateTime.Utc | null | undefined): Date | null =>
  instant == null ? null : DateTime.toDateUtc(instant)

const millis = (parameter: string) => `${parameter}::float8 * interval '1 millisecond'`

/**
 * Client, owner and subject of an operation `o` still let it be driven, be it through a newer grant. To be sent it needs
 * one that allows all that the accepting one did when it accepted.
 */
const standing = (purpose: "send" | "read") => `
    EXISTS (SELECT 1 FROM clients c WHERE c.id = o.client_id AND c.active)
    AND EXISTS (SELECT 1 FROM provider_bindings p WHERE p.id = o.provider_binding_id AND p.connected)
    AND EXISTS (
      SELECT 1 FROM grants g
      WHERE g.client_id = o.client_id AND g.resource_owner = o.resource_owner AND g.subject = o.subject
        AND g.provider_binding_id = o.provider_binding_id AND g.revoked_at IS NULL AND g.expires_at > now()${
  purpose === "read" ? "" : " AND g.scopes @> o.scopes"
}
    )`

/** Whoever withdrew long ago is looked at less often: a tenth of the time since, five minutes at most. */
const idle = (parameter: string) =>
  `greatest(${millis(parameter)}, least(interval '5 minutes', (now() - o.updated_at) / 10))`

/** Puts an operation under review once it has been in its state for so long, counted from the last review. */
const reviewAfter = (age: string) =>
  `under_review = o.under_review OR greatest(o.updated_at, o.reviewed_at) <= now() - ${age}`

const providerColumns = "o.id, o.type, o.resource_owner, o.provider_binding_id, o.send_before, o.revision"

/** Whatever was accepted before the ledger moved is older than the first timeline of its new home. */
const moveHomeStatement = `
  WITH home AS (
    UPDATE ledger_home h SET system_identifier = s.system_identifier, database = d.oid
    FROM pg_control_system() s, pg_database d
    WHERE d.datname = current_database()
      AND (h.system_identifier, h.database) IS DISTINCT FROM (s.system_identifier, d.oid)
    RETURNING 1
  ), held AS (
    UPDATE operations SET timeline = 0 WHERE state = 'accepted' AND EXISTS (SELECT 1 FROM home)
  )
  SELECT 1 FROM home`

/**
 * The limit is a literal, because PostgreSQL would plan a generic statement for a tenth of the queue. `here` is a
 * subquery, so that the index gives the order; it is null where nothing may be claimed, on a database that could
 * forget or in a cluster that nobody prepared.
 */
const claimStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("send")}
      AND NOT EXISTS (
        SELECT 1 FROM operation_payloads y
        WHERE y.operation_id = o.id AND y.client_id = o.client_id
          AND y.key_id IS NOT NULL AND y.key_id <> ALL ($2::text[])
      ) AS ready
    FROM operations o
    WHERE o.state = 'accepted' AND o.provider = $1 AND o.due_at <= now()
      AND o.timeline = (
        SELECT ledger_timeline() FROM ledger_home h
        JOIN pg_control_system() s USING (system_identifier)
        JOIN pg_database d ON d.oid = h.database AND d.datname = current_database()
        WHERE current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'
      )
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), claimed AS (
    UPDATE operations o
    SET state = 'submitting', revision = o.revision + 1, send_before = now() + ${millis("$3")},
      due_at = now() + ${millis("$4")}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready
    RETURNING ${providerColumns}, o.client_id
  ), waiting AS (
    UPDATE operations o
    SET due_at = now() + ${idle("$5")}, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )
  SELECT looked, ${providerColumns}, y.payload, y.key_id
  FROM (SELECT count(*)::integer AS looked FROM due) l
  LEFT JOIN claimed o ON true
  LEFT JOIN operation_payloads y ON y.operation_id = o.id AND y.client_id = o.client_id`

const recordStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6,
    reference = coalesce(o.reference, $7), due_at = now() + ${millis("$8")}
  WHERE o.id = $1 AND o.revision = $2
    AND ($9::timestamptz IS NULL OR o.send_before = $9)
  RETURNING ${publicColumns}`

const rescueStatement = (limit: number) => `
  WITH stale AS (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND due_at <= now()
    ORDER BY due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  )
  UPDATE operations o
  SET state = 'indeterminate', revision = o.revision + 1, due_at = now(),
    evidence = '{"by":"rescuer","reason":"the worker that claimed the operation did not record what became of it"}'
  FROM stale WHERE o.id = stale.id AND o.client_id = stale.client_id
  RETURNING o.id`

const takeReadsStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("read")} AS active
    FROM operations o
    WHERE o.state IN ('submitted', 'indeterminate') AND o.provider = $1 AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = o.reads + due.active::integer,
      ${reviewAfter(`CASE o.state WHEN 'submitted' THEN ${millis("$4")} ELSE ${millis("$5")} END`)}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )
  SELECT looked, ${providerColumns}, o.state, o.reference, o.reads
  FROM (SELECT count(*)::integer AS looked FROM due) l
  LEFT JOIN taken o ON o.active`

/**
 * Whoever claimed it on the earlier timeline may send it until that claim is stale, from now at the latest. The negative
 * timeline tells whether that was said on this one: what was said before, a failover may have brought back together with
 * the hold, and forgotten the release and the claim that followed.
 */
const takeHeldStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("read")} AS active
    FROM operations o
    WHERE o.state = 'accepted' AND o.provider = $1 AND o.timeline < (SELECT ledger_timeline()) AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = o.reads + due.active::integer, timeline = -(SELECT ledger_timeline()),
      send_before = coalesce(
        CASE o.timeline WHEN -(SELECT ledger_timeline()) THEN o.send_before END, now() + ${millis("$6")}
      ),
      under_review = o.under_review OR o.reviewed_at IS NULL
        OR o.reviewed_at <= now() - least(${millis("$4")}, ${millis("$5")})
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )
  SELECT looked, ${providerColumns}, o.state, o.reference, o.reads
  FROM (SELECT count(*)::integer AS looked FROM due) l
  LEFT JOIN taken o ON o.active`

const postponeStatement = `
  UPDATE operations o SET due_at = now() + ${millis("$3")}, reference = coalesce(o.reference, $4)
  WHERE o.id = $1 AND o.revision = $2 AND CASE o.state
    WHEN 'accepted' THEN o.send_before = $5::timestamptz AND o.timeline = -ledger_timeline()
    ELSE o.state IN ('submitted', 'indeterminate') AND ($5 IS NULL OR o.send_before = $5)
  END`

const reportStatement = `
  UPDATE operations o
  SET due_at = now(), reference = coalesce(o.reference, $2), under_review = o.under_review OR o.state = 'accepted',
    timeline = CASE o.state WHEN 'accepted' THEN 0 ELSE o.timeline END
  WHERE o.id = $1 AND o.state IN ('accepted', 'submitted', 'indeterminate')`

const reviewAgedStatement = (limit: number) => {
  const aged = (state: string, age: string) => `
    (SELECT id, client_id FROM operations
    WHERE state = '${state}' AND NOT under_review AND greatest(updated_at, reviewed_at) <= now() - ${millis(age)}
    LIMIT ${limit})`
  return `
  UPDATE operations o SET under_review = true
  FROM (${aged("accepted", "$1")} UNION ALL ${aged("submitted", "$2")} UNION ALL ${aged("indeterminate", "$3")}
    LIMIT ${limit}) old
  WHERE o.id = old.id AND o.client_id = old.client_id AND o.due_at IS NOT NULL
  RETURNING 1`
}

const released =
  "timeline = ledger_timeline(), due_at = now(), send_before = NULL, under_review = false, reviewed_at = now()"

const releaseAllStatement = `
  UPDATE operations SET ${released}
  WHERE state = 'accepted' AND timeline < ledger_timeline() AND reference IS NULL
  RETURNING 1`

/**
 * Somebody looked at it since the failover, and whoever had claimed it before can send it no more. Who read its status
 * says which look that was: it may have been let go since, and another failover forgot that.
 */
const releaseStatement = `
  UPDATE operations o SET ${released}
  WHERE o.id = $1 AND o.state = 'accepted' AND o.timeline = -ledger_timeline() AND o.send_before <= now()
    AND o.reference IS NULL AND ($2::timestamptz IS NULL OR o.send_before = $2)
  RETURNING ${publicColumns}`

const heldStatement = `
  SELECT ${publicColumns}, o.timeline = ledger_timeline() AS is_free, o.timeline = -ledger_timeline() AS is_examined,
    o.reference IS NOT NULL AS is_acknowledged, o.send_before
  FROM operations o WHERE o.id = $1`

const holdAllStatement = "UPDATE operations SET timeline = 0, due_at = now() WHERE state = 'accepted' RETURNING 1"
