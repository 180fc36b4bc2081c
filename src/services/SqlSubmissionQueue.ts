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
  UnsafeDatabase
} from "../domain/Submission.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { PayloadCipher } from "./PayloadCipher.ts"
import { orUnavailable } from "./StoreUnavailable.ts"

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
    const moved = yield* orUnavailable(sql.unsafe(moveHomeStatement))
    return { moved: moved.length > 0 }
  }).pipe(Effect.withSpan("SubmissionQueue.prepare"))

  const claim = Effect.fn("SubmissionQueue.claim")(function*(provider: Provider, limit: number, terms: ClaimTerms) {
    const rows = yield* orUnavailable(
      sql.unsafe<ClaimRow>(claimStatement(limit), [
        provider,
        cipher.keyIds,
        Duration.toMillis(terms.send_within),
        Duration.toMillis(terms.rescue_after),
        Duration.toMillis(terms.idle),
        Duration.toMillis(terms.review_after)
      ])
    )
    return rows.map((row): Claim => ({
      operation: toProviderOperation(row),
      revision: row.revision,
      payload: openPayload(row)
    }))
  })

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
          Duration.toMillis(recording.due_in)
        ])
      )
      return row === undefined ? yield* stale(id, revision) : fromRow(row)
    }
  )

  const rescue = Effect.fn("SubmissionQueue.rescue")(function*(limit: number) {
    const rows = yield* orUnavailable(sql.unsafe<{ readonly id: OperationId }>(rescueStatement(limit)))
    return rows.map(({ id }) => id)
  })

  const take = (statement: (limit: number) => string) =>
    Effect.fnUntraced(function*(provider: Provider, limit: number, terms: ReadTerms) {
      const rows = yield* orUnavailable(
        sql.unsafe<ReadRow>(statement(limit), [
          provider,
          Duration.toMillis(terms.lease),
          Duration.toMillis(terms.idle),
          Duration.toMillis(terms.review_submitted_after),
          Duration.toMillis(terms.review_indeterminate_after)
        ])
      )
      return rows.map((row): DueRead => ({
        operation: toProviderOperation(row),
        provider,
        state: row.state,
        revision: row.revision,
        reference: row.reference,
        reads: row.reads
      }))
    })

  const postpone = Effect.fn("SubmissionQueue.postpone")(
    (id: OperationId, revision: number, { due_in, reference }: Pick<Recording, "due_in" | "reference">) =>
      Effect.asVoid(orUnavailable(sql.unsafe(postponeStatement, [id, revision, Duration.toMillis(due_in), reference])))
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
    const [row] = yield* orUnavailable(sql.unsafe<OperationRow>(releaseStatement, [id]))
    if (row !== undefined) return fromRow(row)
    const { state } = yield* show(id)
    return yield* new IllegalTransition({ id, from: state, to: "submitting", reason: "not_permitted" })
  })

  const releaseAll = Effect.map(
    orUnavailable(sql.unsafe(releaseAllStatement)),
    (rows) => rows.length
  ).pipe(Effect.withSpan("SubmissionQueue.releaseAll"))

  return {
    prepare,
    claim,
    record,
    rescue,
    takeReads: take(takeReadsStatement),
    takeHeld: take(takeHeldStatement),
    postpone,
    recordHeld,
    release,
    releaseAll
  }
})

const millis = (parameter: string) => `${parameter}::float8 * interval '1 millisecond'`

/** Client, owner and subject of an operation `o` still let it be driven, be it through a newer grant. */
const standing = `
    EXISTS (SELECT 1 FROM clients c WHERE c.id = o.client_id AND c.active)
    AND EXISTS (SELECT 1 FROM provider_bindings p WHERE p.id = o.provider_binding_id AND p.connected)
    AND EXISTS (
      SELECT 1 FROM grants g
      WHERE g.client_id = o.client_id AND g.resource_owner = o.resource_owner AND g.subject = o.subject
        AND g.provider_binding_id = o.provider_binding_id AND g.revoked_at IS NULL AND g.expires_at > now()
    )`

/** Puts an operation under review once it has been in its state for so long, counted from the last review. */
const reviewAfter = (age: string) =>
  `under_review = o.under_review OR greatest(o.updated_at, o.reviewed_at) <= now() - ${age}`

const providerColumns = "o.id, o.type, o.resource_owner, o.provider_binding_id, o.send_before, o.revision"

/** Whatever was accepted before the ledger moved is older than the first timeline of its new home. */
const moveHomeStatement = `
  WITH home AS (
    UPDATE ledger_home h SET system_identifier = s.system_identifier
    FROM pg_control_system() s WHERE h.system_identifier <> s.system_identifier
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
    SELECT o.id, o.client_id, ${standing}
      AND NOT EXISTS (
        SELECT 1 FROM operation_payloads y
        WHERE y.operation_id = o.id AND y.client_id = o.client_id
          AND y.key_id IS NOT NULL AND y.key_id <> ALL ($2::text[])
      ) AS ready
    FROM operations o
    WHERE o.state = 'accepted' AND o.provider = $1 AND o.due_at <= now()
      AND o.timeline = (
        SELECT ledger_timeline() FROM ledger_home h JOIN pg_control_system() s USING (system_identifier)
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
    SET due_at = now() + ${millis("$5")}, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )
  SELECT ${providerColumns}, y.payload, y.key_id
  FROM claimed o LEFT JOIN operation_payloads y ON y.operation_id = o.id AND y.client_id = o.client_id`

const recordStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6,
    reference = coalesce(o.reference, $7), due_at = now() + ${millis("$8")}
  WHERE o.id = $1 AND o.revision = $2
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
    SELECT o.id, o.client_id, ${standing} AS active
    FROM operations o
    WHERE o.state IN ('submitted', 'indeterminate') AND o.provider = $1 AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${millis("$3")} END,
      reads = o.reads + due.active::integer,
      ${reviewAfter(`CASE o.state WHEN 'submitted' THEN ${millis("$4")} ELSE ${millis("$5")} END`)}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )
  SELECT ${providerColumns}, o.state, o.reference, o.reads FROM taken o WHERE o.active`

/** Bytes may have left until the timeline changed, that is: before now. */
const takeHeldStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing} AS active
    FROM operations o
    WHERE o.state = 'accepted' AND o.provider = $1 AND o.timeline < (SELECT ledger_timeline()) AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${millis("$3")} END,
      reads = o.reads + due.active::integer, send_before = coalesce(o.send_before, now()),
      under_review = o.under_review OR o.reviewed_at IS NULL
        OR o.reviewed_at <= now() - least(${millis("$4")}, ${millis("$5")})
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )
  SELECT ${providerColumns}, o.state, o.reference, o.reads FROM taken o WHERE o.active`

const postponeStatement = `
  UPDATE operations o SET due_at = now() + ${millis("$3")}, reference = coalesce(o.reference, $4)
  WHERE o.id = $1 AND o.revision = $2 AND o.due_at IS NOT NULL`

const released =
  "timeline = ledger_timeline(), due_at = now(), send_before = NULL, under_review = false, reviewed_at = now()"

const releaseAllStatement = `
  UPDATE operations SET ${released} WHERE state = 'accepted' AND timeline < ledger_timeline() RETURNING 1`

const releaseStatement = `
  UPDATE operations o SET ${released}
  WHERE o.id = $1 AND o.state = 'accepted'
  RETURNING ${publicColumns}`
