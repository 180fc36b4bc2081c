/** Acceptances in PostgreSQL. One statement records a batch of requests with one grant. A single request is a batch of one. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import type { LimitRefusal } from "../../../domain/AuthorizationDetails.ts"
import { type GrantIdentity, GrantUnknown, type ProviderName, refusal, type Scope } from "../../../domain/Grant.ts"
import { BindingConflict, type FinancialRequest, type IdempotencyKey } from "../../../domain/Idempotency.ts"
import type { Operation, OperationId } from "../../../domain/Operation.ts"
import type { Acceptance } from "../../Acceptance.ts"
import {
  anyProvider,
  makePrepareAcceptance,
  maxBatchBytes,
  maxBatchRequests,
  type Platform,
  type PreparedRequest,
  refusalOf
} from "../../rules/prepareAcceptance.ts"
import { orUnavailable, sqlState } from "../../StoreUnavailable.ts"
import { AcceptanceSignal } from "../../WorkSignals.ts"
import { goodStanding, grantOfCredential, isGrantOfCredential, standingInteger, standingOf } from "../grantStanding.ts"
import { type LimitRefusalRow, orRefusedCredential, toLimitRefusal } from "../limitRows.ts"
import { fromRow, type OperationRow, publicColumns } from "../OperationRow.ts"

/** A row of `acceptStatement`: the standing of the grant, its provider, and a created operation. One row has the refusals by limits. */
type AcceptedRow =
  & { readonly provider: ProviderName; readonly standing: number }
  & { readonly refusals: ReadonlyArray<{ readonly id: OperationId; readonly refusal: LimitRefusalRow }> | null }
  & (OperationRow | { readonly id: null })

/** The operation of a request binding, and whether its request is the same. */
interface Bound {
  readonly operation: Operation
  readonly same_request: boolean
}

type BoundRow = OperationRow & {
  readonly request_id: OperationId
  readonly same_request: boolean
  readonly standing: number
}

/** The driver encodes no array of nulls. */
const noBytes = new Uint8Array()

type Batch = ReadonlyArray<PreparedRequest>

export const makeAcceptances = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const prepare = yield* makePrepareAcceptance

  /**
   * The operations of keys that were bound before the batch, by the id that `prepare` made for the request. The grant is asked again:
   * since the statement before, it may have been revoked.
   */
  const findBound = Effect.fnUntraced(function*(grant: GrantIdentity, batch: Batch, scope: Scope | null) {
    if (batch.length === 0) return new Map<OperationId, Bound>()
    const rows = yield* orUnavailable(
      sql.unsafe<BoundRow>(boundStatement, [
        grant.grant_id,
        grant.client_id,
        grant.subject,
        batch.map(({ id }) => id),
        batch.map(({ request }) => request.key),
        batch.map(({ digest }) => digest),
        scope,
        grant.limited_to ?? null
      ])
    )
    const refused = rows.length === 0 ? null : refusal(standingOf(rows[0]!.standing), scope)
    if (refused !== null) return yield* refused
    return new Map(
      rows.map((row) => [row.request_id, { operation: fromRow(row), same_request: row.same_request }] as const)
    )
  })

  const record = Effect.fnUntraced(function*(grant: GrantIdentity, batch: Batch, scope: Scope | null) {
    const statement = sql.unsafe<AcceptedRow>(acceptStatement, [
      grant.grant_id,
      grant.client_id,
      grant.subject,
      scope,
      grant.limited_to ?? null,
      batch.map(({ id }) => id),
      batch.map(({ request }) => request.type),
      batch.map(({ request }) => request.key),
      batch.map(({ digest }) => digest),
      batch.map(({ payload }) => payload.payload),
      // The driver encodes no array of nulls.
      batch.map(({ payload }) => payload.key_id ?? ""),
      // No name of a provider has a space.
      batch.map(({ refusals }) => [...refusals.keys()].join(" ")),
      batch.map(({ terms }) => terms?.payload ?? noBytes),
      batch.map(({ terms }) => terms?.key_id ?? ""),
      batch.map(({ request }) => request.terms?.kept === false),
      batch.map(({ payeeIndex }) => payeeIndex ?? noBytes),
      grant.authorization_details === undefined ? null : JSON.stringify(grant.authorization_details),
      // Terms that are invalid have no hash.
      batch.map(({ payeeHash, request }) => payeeHash === null ? "" : request.terms!.amount),
      batch.map(({ payeeHash, request }) => payeeHash === null ? "" : request.terms!.currency),
      batch.map(({ payeeHash }) => payeeHash ?? noBytes),
      batch.map(({ limitPayee }) => limitPayee ?? noBytes)
    ])
    const rows = yield* orUnavailable(
      orRefusedCredential(grant, whenUnlocked(sql, statement))
    )
    const [first] = rows
    if (first === undefined) return yield* new GrantUnknown()
    const refused = refusal(standingOf(first.standing), scope)
    if (refused !== null) return yield* refused
    const limited = new Map(
      rows.flatMap(({ refusals }) => (refusals ?? []).map(({ id, refusal }) => [id, toLimitRefusal(refusal)] as const))
    )
    const created = new Map(rows.flatMap((row) => row.id === null ? [] : [[row.id, fromRow(row)] as const]))
    if (created.size > 0) yield* signal.announce(first.provider)
    const createdKeys = new Set(batch.filter(({ id }) => created.has(id)).map(({ request }) => request.key))
    // The first statement cannot see a row for whose commit it waited, so this is a second one.
    const bound = yield* findBound(grant, batch.filter(({ request }) => !createdKeys.has(request.key)), scope)
    return yield* resultsOf(batch, first.provider, created, bound, limited)
  })

  /**
   * A statement that dies has recorded nothing. One request may be the cause, which the others must not share: so each is
   * accepted alone. A failure that concerns the grant or the store ends the call.
   */
  const recordOrEach = (grant: GrantIdentity, batch: Batch, scope: Scope | null) =>
    Effect.catchDefect(record(grant, batch, scope), (defect) =>
      Effect.andThen(
        warnOfDefect(batch.length, defect),
        Effect.forEach(batch, (prepared) =>
          record(grant, [prepared], scope).pipe(
            Effect.map(([result]) => result!),
            Effect.catchDefect((defect) => Effect.succeed<Acceptance>(Exit.die(defect)))
          ))
      ))

  const accept = Effect.fn("OperationLedger.accept")(
    function*(grant: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const [result] = yield* record(grant, [yield* prepare(request)], scope)
      return yield* result!
    },
    Effect.provideContext(platform)
  )

  const acceptAll = Effect.fn("OperationLedger.acceptAll")(
    function*(grant: GrantIdentity, requests: ReadonlyArray<FinancialRequest>, scope: Scope | null = null) {
      const results: Array<Acceptance> = []
      let batch: Array<PreparedRequest & { readonly index: number }> = []
      let bytes = 0
      const finishBatch = Effect.fnUntraced(function*() {
        if (batch.length === 0) return
        const acceptances = yield* recordOrEach(grant, batch, scope)
        for (const [n, { index }] of batch.entries()) results[index] = acceptances[n]!
        batch = []
        bytes = 0
      })
      for (const [index, request] of requests.entries()) {
        const prepared = yield* Effect.exit(prepare(request))
        if (Exit.isFailure(prepared)) {
          results[index] = Exit.failCause(prepared.cause)
          continue
        }
        const { length } = prepared.value.payload.payload
        if (batch.length === maxBatchRequests || bytes + length > maxBatchBytes) yield* finishBatch()
        batch.push({ ...prepared.value, index })
        bytes += length
      }
      yield* finishBatch()
      return results
    },
    Effect.provideContext(platform)
  )

  return { accept, acceptAll }
})

const pauses = Schedule.min([Schedule.exponential("10 millis"), Schedule.spaced("100 millis")])

/** From the first attempt to the start of the last one. A request has less than two seconds. */
const patience = Duration.seconds(1)

const isLocked = (error: unknown): boolean => isSqlError(error) && error.reason._tag === "LockTimeoutError"

/**
 * Runs a statement that takes its locks with `NOWAIT`, and repeats it while another transaction has one of them. Between two
 * attempts it holds no connection, so a locked row delays only the requests for that row. After about a second it fails with
 * the `LockTimeoutError` of the last attempt.
 */
const whenUnlocked = <A>(
  sql: SqlClient.SqlClient,
  statement: Effect.Effect<A, SqlError>
): Effect.Effect<A, SqlError> =>
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const end = clock.currentTimeMillisUnsafe() + Duration.toMillis(patience)
    const transaction = yield* Effect.serviceOption(sql.transactionService)
    // Inside a transaction of the caller it sets a savepoint. Without one, a failed attempt would end the transaction.
    return yield* Effect.retry(transaction._tag === "None" ? statement : sql.withTransaction(statement), {
      // A wait for another request with the same key ends with the same error, after `lock_timeout`.
      while: (error) => isLocked(error) && clock.currentTimeMillisUnsafe() < end,
      schedule: pauses
    })
  })

/** The message of the database may quote values of the request, so the log has only its SQLSTATE. */
const warnOfDefect = (requests: number, defect: unknown): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning("Batch of acceptances failed: accepting each of its requests alone"),
    { requests, sqlstate: isSqlError(defect) ? sqlState(defect) : "" }
  )

/** The results of the requests, as if they had come one after the other. */
const resultsOf = (
  batch: Batch,
  provider: ProviderName,
  created: ReadonlyMap<string, Operation>,
  bound: ReadonlyMap<OperationId, Bound>,
  limited: ReadonlyMap<OperationId, LimitRefusal>
): Effect.Effect<ReadonlyArray<Acceptance>> => {
  /** The request of this batch that created the operation of a key. */
  const creators = new Map<IdempotencyKey, PreparedRequest>()
  return Effect.forEach(batch, (prepared): Effect.Effect<Acceptance> => {
    const { digest, id, request: { key } } = prepared
    const operation = created.get(id)
    if (operation !== undefined) {
      creators.set(key, prepared)
      return Effect.succeed(Exit.succeed({ operation, created: true }))
    }
    const creator = creators.get(key)
    const earlier = creator === undefined
      ? bound.get(id)
      : { operation: created.get(creator.id)!, same_request: digest === creator.digest }
    // The key of a request that nothing precedes is free, so only its provider or a limit can have refused it.
    const unsendable = earlier === undefined ? refusalOf(prepared, provider) : undefined
    if (unsendable !== undefined) return Effect.exit(unsendable)
    const refused = earlier === undefined ? limited.get(id) : undefined
    if (refused !== undefined) return Effect.succeed(Exit.fail(refused))
    return Effect.succeed(
      earlier?.same_request === true
        ? Exit.succeed({ operation: earlier.operation, created: false })
        : Exit.fail(new BindingConflict({ key }))
    )
  })
}

/** The standing for a scope, which may be null, and the scopes to which the credential is limited. */
const standingFor = (scope: string, limitedTo: string) =>
  standingInteger(
    `${scope}::text IS NULL OR (${scope} = ANY (g.scopes) AND (${limitedTo}::text[] IS NULL OR ${scope} = ANY (${limitedTo})))`
  )

/**
 * Grant, client and provider connection stay locked until the operations are recorded. So a revocation, a deactivation or a
 * disconnection comes either before or after. The statement waits for none of these locks: see `whenUnlocked`.
 */
const standing = `
  standing AS (
    SELECT g.id AS grant_id, g.client_id, g.resource_owner, g.subject, g.provider_connection_id, p.provider,
      g.authorization_details IS NOT NULL OR $17::text IS NOT NULL AS is_limited,
      ${standingFor("$4", "$5")} AS standing
    ${grantOfCredential}
    WHERE ${isGrantOfCredential}
    FOR SHARE OF g, c, p NOWAIT
  )`

const isSendable = `NOT string_to_array(r.refused_by, ' ') && ARRAY[s.provider, '${anyProvider}']`

/**
 * Accepts requests. Of the requests with one key it takes the first that neither the provider nor a limit refuses.
 *
 * - `$1` id, `$2` client and `$3` subject of the grant.
 * - `$4` the scope that the work needs, and `$5` the scopes to which the credential is limited. Both may be null.
 * - Arrays: `$6` ids, `$7` types, `$8` keys, `$9` digests, `$10` payloads, `$11` ids of their keys (empty: none), `$12` the providers
 *   that refuse the request, separated by spaces, `$13` terms (empty: none), `$14` ids of their keys, `$15` whether the end of the
 *   operation erases them, `$16` the values by which operators find their payees,
 *   `$18` amounts and `$19` currencies of the terms (empty: none), and `$20` the SHA-256 of their payees, `$21` the values by
 *   which the ledger finds that a payee received money (empty: none).
 * - `$17` the limits of the credential as JSON, or null.
 *
 * A key that another transaction has inserted makes the statement wait for the end of that transaction. Every batch inserts its
 * keys in the same order, in the order of their bytes, so that batches never wait for each other in a circle. With limits, the order is
 * that of the requests, because each leaves less for the next: of two batches of one client in a circle, PostgreSQL ends one.
 *
 * It returns one row for each created operation. If none was created, one row without an operation. No row: the grant is unknown.
 */
export const acceptStatement = `
  WITH ${standing}, given AS (
    SELECT * FROM unnest($6::uuid[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::text[], $12::text[],
        $13::bytea[], $14::text[], $15::boolean[], $16::bytea[], $18::text[], $19::text[], $20::bytea[], $21::bytea[])
      WITH ORDINALITY AS r (id, type, key, digest, payload, key_id, refused_by, terms, terms_key_id, erases_terms, payee_index,
        amount, currency, payee, limit_payee, position)
  ), o AS (
    INSERT INTO operations (client_id, resource_owner, subject, grant_id, provider_connection_id, state, revision, id, type,
      idempotency_key, request_digest, terms, terms_key_id, erases_terms, payee_index, limit_amount, limit_currency,
      limit_payee, acceptance)
    SELECT s.client_id, s.resource_owner, s.subject, s.grant_id, s.provider_connection_id,
      'accepted', 1, r.id, r.type, r.key, decode(r.digest, 'hex'), nullif(r.terms, ''), nullif(r.terms_key_id, ''),
      r.erases_terms, nullif(r.payee_index, ''),
      -- Without terms, only the repetition of an earlier request gets here.
      CASE WHEN s.is_limited THEN nullif(r.amount, '')::numeric END,
      CASE WHEN s.is_limited THEN nullif(r.currency, '') END,
      CASE WHEN s.is_limited THEN nullif(r.limit_payee, '') END,
      CASE WHEN s.is_limited THEN jsonb_build_object('reports', true, 'credential', $17::jsonb, 'payee', encode(r.payee, 'hex')) END
    FROM standing s CROSS JOIN given r
    WHERE s.standing = ${goodStanding} AND ${isSendable}
    ORDER BY CASE WHEN s.is_limited THEN '' ELSE r.key END COLLATE "C", r.position
    ON CONFLICT (client_id, subject, idempotency_key) DO NOTHING
    RETURNING *
  ), payload AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload, key_id)
    SELECT o.id, o.client_id, r.payload, nullif(r.key_id, '')
    FROM o JOIN given r ON r.id = o.id
  )
  SELECT s.provider, s.standing, ${publicColumns},
    -- Of one row. The trigger has reported all refusals once the INSERT has finished, and the id is known only then.
    CASE WHEN s.is_limited AND o.id IS NOT DISTINCT FROM (SELECT id FROM o ORDER BY id LIMIT 1)
      THEN nullif(current_setting('financial_agents_gateway.refusals', true), '')::jsonb END AS refusals
  FROM standing s LEFT JOIN o ON true`

/**
 * The operations of request bindings: `$4` ids of the requests, `$5` keys, `$6` digests, as arrays; `$7` and `$8` as `$4` and `$5` above. Each
 * has the standing of the grant. A request is the same only through
 * the same provider connection, which has one resource owner and one provider. The first OFFSET 0 hides the number of requests from the
 * planner, which would plan each call anew: a plan for few rows seems cheaper than the prepared one. The second one makes each key a
 * read of the index, so that no plan reads all operations.
 */
export const boundStatement = `
  SELECT r.id AS request_id, ${publicColumns}, ${standingFor("$7", "$8")} AS standing,
    o.request_digest = decode(r.digest, 'hex') AND o.provider_connection_id = g.provider_connection_id AS same_request
  ${grantOfCredential}
  CROSS JOIN (SELECT $4::uuid[] AS ids, $5::text[] AS keys, $6::text[] AS digests OFFSET 0) a
  CROSS JOIN LATERAL unnest(ids, keys, digests) AS r (id, key, digest)
  CROSS JOIN LATERAL (
    SELECT * FROM operations WHERE client_id = $2 AND subject = $3 AND idempotency_key = r.key OFFSET 0
  ) o
  WHERE ${isGrantOfCredential}`
