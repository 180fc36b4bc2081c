/**
 * The room `services/sql/grants`: what changes grants, clients and provider connections. Read this file first. The check of a grant by a read is
 * `sql/grantStanding`.
 */
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { InvalidAuthorizationDetails } from "../../../domain/AuthorizationDetails.ts"
import {
  type ClientId,
  ClientNotFound,
  externalGrantId,
  type Grant,
  GrantConflict,
  type GrantId,
  GrantNotFound,
  type ProviderConnectionId,
  ProviderConnectionNotFound,
  ScopesExceeded,
  UnmatchedRevocation
} from "../../../domain/Grant.ts"
import type { GrantRegistration, GrantRequest } from "../../../domain/GrantRequest.ts"
import { GrantsBlocked, suspiciousAge } from "../../../domain/operators/GrantsBlocked.ts"
import { listBlockers } from "../../GrantBlockers.ts"
import {
  checkLimits,
  fitsScopes,
  isSameGrant,
  mergeRegistration,
  newGrant,
  newProviderConnectionId,
  type RevocationNames,
  revocationsBy
} from "../../rules/grantRules.ts"
import { orUnavailable, sqlState, StoreUnavailable } from "../../StoreUnavailable.ts"
import { orUnenforceable, remainingOf, type RemainingRow, toRemainingLimit } from "../limitRows.ts"

/** Whether the role of the session may register the grants that tokens show. Also true where migrations are missing. */
export const mayProvision: Effect.Effect<boolean, SqlError, SqlClient.SqlClient> = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    Effect.map(
      sql.unsafe<{ readonly may: boolean }>(
        "SELECT coalesce(has_function_privilege(to_regproc('provision_grant'), 'EXECUTE'), true) AS may"
      ),
      ([row]) => row!.may
    )
)

/** An absent member of a grant is null in its row. */
type Column<A> = A extends DateTime.Utc ? Date : A extends undefined ? null : A

type GrantRow = { readonly [Name in keyof Grant]-?: Column<Grant[Name]> }

const toGrant = ({ authorization_details, external_id, issuer, registered_by_event_at, ...row }: GrantRow): Grant => ({
  ...row,
  created_at: DateTime.fromDateUnsafe(row.created_at),
  expires_at: DateTime.fromDateUnsafe(row.expires_at),
  revoked_at: row.revoked_at === null ? null : DateTime.fromDateUnsafe(row.revoked_at),
  ...authorization_details === null ? {} : { authorization_details },
  ...issuer === null || external_id === null ? {} : { issuer, external_id },
  ...registered_by_event_at === null
    ? {}
    : { registered_by_event_at: DateTime.fromDateUnsafe(registered_by_event_at) }
})

const findStatement = `
  SELECT g.id AS grant_id, g.resource_owner, g.subject, g.client_id, c.active AS client_active,
    g.provider_connection_id, p.provider, p.connected AS provider_connected, g.scopes,
    g.created_at, g.expires_at, g.revoked_at, g.issuer, g.external_id, g.registered_by_event_at,
    g.authorization_details
  FROM grants g
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id
  WHERE g.id = $1`

const limitsStatement = `SELECT ${remainingOf("NULL")} AS limits FROM grants g WHERE g.id = $1`

const findGrant = (sql: SqlClient.SqlClient, id: GrantId) =>
  Effect.map(sql.unsafe<GrantRow>(findStatement, [id]), ([row]) => row && toGrant(row))

const orInvalidLimits = <A, E, R>(change: Effect.Effect<A, E, R>) =>
  orUnenforceable(
    change,
    (message) => Effect.fail(new InvalidAuthorizationDetails({ message: `authorization_details: ${message}` }))
  )

const makeGrantRegistration = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()

  /** Inserts client and provider connection of a new grant, unless they are known. */
  const prepare = Effect.fnUntraced(
    function*({ client_id, provider, resource_owner }: GrantRequest, newConnectionId: ProviderConnectionId) {
      yield* sql`INSERT INTO clients (id) VALUES (${client_id}) ON CONFLICT DO NOTHING`
      yield* sql`
        INSERT INTO provider_connections (id, resource_owner, provider)
        VALUES (${newConnectionId}, ${resource_owner}, ${provider}) ON CONFLICT DO NOTHING`
    }
  )

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_connection_id } = yield* newGrant(request)
    const { authorization_details, client_id, provider, resource_owner, scopes, subject } = request
    const limits = authorization_details === undefined ? null : JSON.stringify(authorization_details)
    const grant = yield* orUnavailable(orInvalidLimits(sql.withTransaction(Effect.gen(function*() {
      yield* prepare(request, new_connection_id)
      yield* sql`
        INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at,
          authorization_details)
        SELECT ${grant_id}, ${client_id}, ${resource_owner}, ${subject}, id, ${scopes}::text[],
          now() + make_interval(secs => ${Duration.toSeconds(request.expires_in)}), ${limits}::jsonb
        FROM provider_connections WHERE resource_owner = ${resource_owner} AND provider = ${provider}`
      yield* sql`
        INSERT INTO access_tokens (digest, grant_id, client_id)
        VALUES (decode(${digest}, 'hex'), ${grant_id}, ${client_id})`
      return yield* findGrant(sql, grant_id)
    }))))
    return { grant: grant!, access_token }
  }, Effect.provideContext(platform))

  const write = Effect.fnUntraced(function*(id: GrantId, registration: GrantRegistration) {
    const {
      authorization_details: limits,
      client_id,
      expires_at,
      grant,
      granted_at,
      issuer,
      provider,
      resource_owner,
      scopes,
      subject
    } = registration
    const called = registration.learned_from === "token" ? "provision" : "register"
    const [row] = yield* callAlone<{ readonly outcome: "registered" | "conflict" | "scopes" }>(
      sql,
      limits === undefined
        ? registrationStatement(called, "")
        : registrationStatement(`${called}_limited`, ", $11::jsonb"),
      [
        issuer,
        grant,
        client_id,
        subject,
        resource_owner,
        provider,
        scopes,
        DateTime.toDateUtc(expires_at),
        granted_at === undefined || granted_at === null ? null : DateTime.toDateUtc(granted_at),
        yield* newProviderConnectionId,
        ...limits === undefined ? [] : [JSON.stringify(limits)]
      ]
    )
    if (row!.outcome === "conflict") return yield* new GrantConflict({ id })
    if (row!.outcome === "scopes") return yield* new ScopesExceeded({ id })
    return (yield* findGrant(sql, id))!
  })

  /** Most registrations change nothing, and cost one read. No revocation misses a known grant. */
  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    yield* checkLimits(registration.authorization_details)
    const id = yield* externalGrantId(registration.issuer, registration.client_id, registration.grant)
    const known = yield* orUnavailable(findGrant(sql, id))
    const now = yield* DateTime.now
    if (known !== undefined && !isSameGrant(known, registration)) return yield* new GrantConflict({ id })
    if (!fitsScopes(known, registration, now)) return yield* new ScopesExceeded({ id })
    return known !== undefined && mergeRegistration(known, registration, now) === known
      ? known
      : yield* orUnavailable(orInvalidLimits(write(id, registration)))
  }, Effect.provideContext(platform))

  return { issue, register }
})

const registrationStatement = (called: string, limits: string) =>
  `SELECT ${called}_grant($1, $2, $3, $4, $5, $6, $7, $8, $9, $10${limits}) AS outcome`

/** The server ended the wait for a lock: by the limit of the function, or by that of the session. */
const lockTimeouts: ReadonlySet<string> = new Set(["LockTimeoutError", "StatementTimeoutError"])

const makeGrantRevocation = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const show = Effect.fn("Grants.show")(function*(id: GrantId) {
    return (yield* orUnavailable(findGrant(sql, id))) ?? (yield* new GrantNotFound({ id }))
  })

  const limits = Effect.fn("Grants.limits")(function*(id: GrantId) {
    const [row] = yield* orUnavailable(
      sql.unsafe<{ readonly limits: ReadonlyArray<RemainingRow> }>(limitsStatement, [id])
    )
    return row === undefined ? yield* new GrantNotFound({ id }) : row.limits.map(toRemainingLimit)
  })

  /** After a lock timeout, the error names the sessions that may hold the lock. */
  const orBlocked = <A, E, R>(change: Effect.Effect<A, E | SqlError, R>) =>
    orUnavailable(Effect.catchIf(
      change,
      (error): error is Extract<E | SqlError, SqlError> => isSqlError(error) && lockTimeouts.has(error.reason._tag),
      () =>
        Effect.flatMap(
          listBlockers(sql, suspiciousAge),
          (blockers) => new StoreUnavailable({ cause: new GrantsBlocked({ blockers }) })
        )
    ))

  /** Changes a row at once if no session has it locked, and else waits as `change_standing` does. Returns whether it did. */
  const changeStanding = (table: StandingTable, id: string, good: boolean) =>
    orBlocked(Effect.flatMap(
      callAlone(sql, standingStatements[table], [id, good]),
      (rows) =>
        rows.length > 0 ? Effect.succeed(true) : Effect.map(
          callAlone<{ readonly changed: boolean }>(sql, changeStatement, [table, id, good]),
          ([row]) => row!.changed
        )
    ))

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    const known = yield* show(id)
    if (known.revoked_at !== null) return known
    yield* changeStanding("grants", id, false)
    return yield* show(id)
  })

  /** Revokes in two steps: a lock that a session keeps delays the revocation of the locked grants, and of no others. */
  const revokeAll = ({ client_id, external_id, issuer, subject }: RevocationNames) =>
    Effect.gen(function*() {
      let revoked = 0
      for (const wait of [false, true]) {
        const [row] = yield* orBlocked(
          callAlone<{ readonly count: number }>(sql, revokeStatement, [client_id, issuer, external_id, subject, wait])
        )
        revoked += row!.count
      }
      if (revoked === 0) {
        // The revocation is made. A failure of this question must not call it failed.
        const [row] = yield* orUnavailable(
          sql.unsafe<{ readonly matched: boolean }>(isMatchedStatement, [client_id, issuer])
        ).pipe(Effect.catchTag("StoreUnavailable", () => Effect.succeed([{ matched: true }])))
        if (!row!.matched) return yield* new UnmatchedRevocation({ client_id, issuer })
      }
      return revoked
    })

  const setClientActive = Effect.fn("Grants.setClientActive")(function*(id: ClientId, active: boolean) {
    if (!(yield* changeStanding("clients", id, active))) return yield* new ClientNotFound({ id })
  })

  const setProviderConnected = Effect.fn("Grants.setProviderConnected")(
    function*(id: ProviderConnectionId, connected: boolean) {
      const changed = yield* changeStanding("provider_connections", id, connected)
      if (!changed) return yield* new ProviderConnectionNotFound({ id })
    }
  )

  return { show, limits, revoke, ...revocationsBy(revokeAll), setClientActive, setProviderConnected }
})

export const makeSql = Effect.gen(function*() {
  return { ...yield* makeGrantRegistration, ...yield* makeGrantRevocation }
})

type StandingTable = "grants" | "clients" | "provider_connections"

/** $1 is an id, and $2 whether the row is good from now on. They skip a row that another session has locked. */
const standingStatements: Readonly<Record<StandingTable, string>> = {
  grants: `
    UPDATE grants SET revoked_at = clock_timestamp()
    WHERE revoked_at IS NULL AND NOT $2 AND id = (SELECT id FROM grants WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING id`,
  clients: `
    UPDATE clients SET active = $2 WHERE id = (SELECT id FROM clients WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING id`,
  provider_connections: `
    UPDATE provider_connections SET connected = $2
    WHERE id = (SELECT id FROM provider_connections WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING id`
}

const changeStatement = "SELECT change_standing($1, $2, $3) AS changed"

const revokeStatement = "SELECT revoke_grants($1, $2, $3, $4, $5) AS count"

/** See `UnmatchedRevocation`: an issuer without any grant here is unknown, and may have any client. */
const isMatchedStatement = `
  SELECT CASE WHEN $2::text IS NULL THEN EXISTS (SELECT FROM clients WHERE id = $1)
    ELSE EXISTS (SELECT FROM grants WHERE issuer = $2 AND client_id = $1)
      OR NOT EXISTS (SELECT FROM grants WHERE issuer = $2)
  END AS matched`

/** SQLSTATE of `require_read_committed`. */
const invalidTransactionState = "25000"

/** Milliseconds. Less than `revocationPatience`, so that a revocation outlasts a process that stopped. */
const idleInTransaction = "2000"

/**
 * Runs a statement that locks rows of grants, as a transaction of its own: a process that stops then keeps no lock, because the
 * server ends statement and transaction without it. The statement may wait for a lock, so it has a connection of its own.
 *
 * In a session at another isolation level than READ COMMITTED it needs a transaction. The server ends that transaction if the
 * process is silent for `idleInTransaction`. Inside a transaction of the caller, a failure undoes only this statement.
 */
const callAlone = <Row extends object>(
  sql: SqlClient.SqlClient,
  text: string,
  parameters: ReadonlyArray<unknown>
) => {
  const statement = sql.unsafe<Row>(text, parameters)
  const alone = Effect.scoped(
    Effect.flatMap(
      sql.reserve,
      (connection) => Effect.provideService(statement, sql.transactionService, [connection, 0])
    )
  )
  const atReadCommitted = Effect.provideService(
    sql.withTransaction(Effect.andThen(
      sql.unsafe("SELECT set_config('idle_in_transaction_session_timeout', $1, true)", [idleInTransaction]),
      statement
    )),
    SqlClient.BeginTransaction,
    "BEGIN ISOLATION LEVEL READ COMMITTED"
  )
  return Effect.flatMap(Effect.serviceOption(sql.transactionService), (outer) =>
    outer._tag === "Some"
      ? sql.withTransaction(statement)
      : Effect.catchIf(alone, (error) => sqlState(error) === invalidTransactionState, () => atReadCommitted))
}
