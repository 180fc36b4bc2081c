/**
 * The administration of grants in PostgreSQL.
 */
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import {
  type ClientId,
  ClientNotFound,
  externalGrantId,
  type ExternalId,
  type Grant,
  GrantConflict,
  type GrantId,
  GrantNotFound,
  type Issuer,
  type PairwiseSubject,
  type ProviderConnectionId,
  ProviderConnectionNotFound,
  ScopesExceeded
} from "../../domain/Grant.ts"
import { GrantsBlocked, listBlockers, suspiciousAge } from "../GrantBlockers.ts"
import type { ClientGrants, ExternalGrant, ExternalSubject, GrantRegistration, GrantRequest } from "../Grants.ts"
import { fitsScopes, isSameGrant, mergeRegistration } from "../internal/mergeRegistration.ts"
import { newGrant, newProviderConnectionId } from "../internal/newGrant.ts"
import { orUnavailable, sqlState, StoreUnavailable } from "../StoreUnavailable.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()

  const find = (id: GrantId) => Effect.map(sql.unsafe<GrantRow>(showStatement, [id]), ([row]) => row && fromRow(row))

  const show = Effect.fn("Grants.show")(function*(id: GrantId) {
    return (yield* orUnavailable(find(id))) ?? (yield* new GrantNotFound({ id }))
  })

  /** Client and provider connection of a new grant, unless they are known. */
  const prepare = Effect.fnUntraced(
    function*(
      { client_id, provider, resource_owner }: Pick<GrantRequest, "client_id" | "provider" | "resource_owner">,
      newBindingId: ProviderConnectionId
    ) {
      yield* sql`INSERT INTO clients (id) VALUES (${client_id}) ON CONFLICT DO NOTHING`
      yield* sql`
        INSERT INTO provider_connections (id, resource_owner, provider)
        VALUES (${newBindingId}, ${resource_owner}, ${provider}) ON CONFLICT DO NOTHING`
    }
  )

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_binding_id } = yield* newGrant(request)
    const { client_id, provider, resource_owner, scopes, subject } = request
    const grant = yield* orUnavailable(sql.withTransaction(Effect.gen(function*() {
      yield* prepare(request, new_binding_id)
      yield* sql`
        INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at)
        SELECT ${grant_id}, ${client_id}, ${resource_owner}, ${subject}, id, ${scopes}::text[],
          now() + make_interval(secs => ${Duration.toSeconds(request.expires_in)})
        FROM provider_connections WHERE resource_owner = ${resource_owner} AND provider = ${provider}`
      yield* sql`
        INSERT INTO access_tokens (digest, grant_id, client_id)
        VALUES (decode(${digest}, 'hex'), ${grant_id}, ${client_id})`
      return yield* find(grant_id)
    })))
    return { grant: grant!, access_token }
  }, Effect.provideContext(platform))

  /**
   * One statement is one transaction, so a process that stops keeps no lock: the server ends both without it. The
   * statement may wait for a lock, so no other shares its connection. Sessions at another isolation level than READ
   * COMMITTED need a transaction, which the server ends when it hears nothing for `idleInTransaction`. Inside a
   * transaction of the caller's, a failure undoes this statement alone.
   */
  const call = <Row extends object>(text: string, parameters: ReadonlyArray<unknown>) => {
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

  const write = Effect.fnUntraced(function*(id: GrantId, registration: GrantRegistration) {
    const { client_id, expires_at, grant, granted_at, issuer, provider, resource_owner, scopes, subject } = registration
    const [row] = yield* call<{ readonly outcome: "registered" | "conflict" | "scopes" }>(
      registration.learned_from === "token" ? provisionStatement : registerStatement,
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
        yield* newProviderConnectionId
      ]
    )
    if (row!.outcome === "conflict") return yield* new GrantConflict({ id })
    if (row!.outcome === "scopes") return yield* new ScopesExceeded({ id })
    return (yield* find(id))!
  })

  /** Most registrations say nothing new, and cost one read. A grant that is known is never missed by a revocation. */
  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    const id = yield* externalGrantId(registration.issuer, registration.client_id, registration.grant)
    const known = yield* orUnavailable(find(id))
    const now = yield* DateTime.now
    if (known !== undefined && !isSameGrant(known, registration)) return yield* new GrantConflict({ id })
    if (!fitsScopes(known, registration, now)) return yield* new ScopesExceeded({ id })
    return known !== undefined && mergeRegistration(known, registration, now) === known
      ? known
      : yield* orUnavailable(write(id, registration))
  }, Effect.provideContext(platform))

  /** Says who holds the lock for which a change waited in vain. */
  const orBlocked = <A, E, R>(change: Effect.Effect<A, E | SqlError, R>) =>
    orUnavailable(Effect.catchIf(
      change,
      (error): error is Extract<E | SqlError, SqlError> => isSqlError(error) && gaveUp.has(error.reason._tag),
      () =>
        Effect.flatMap(
          listBlockers(sql, suspiciousAge),
          (blockers) => new StoreUnavailable({ cause: new GrantsBlocked({ blockers }) })
        )
    ))

  /** Changes a row at once if no session has it locked; else it waits as `change_standing` does. Yields whether it did. */
  const changeStanding = (table: StandingTable, id: string, good: boolean) =>
    orBlocked(Effect.flatMap(
      call(standingStatements[table], [id, good]),
      (rows) =>
        rows.length > 0 ? Effect.succeed(true) : Effect.map(
          call<{ readonly changed: boolean }>(changeStatement, [table, id, good]),
          ([row]) => row!.changed
        )
    ))

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    const known = yield* show(id)
    if (known.revoked_at !== null) return known
    yield* changeStanding("grants", id, false)
    return yield* show(id)
  })

  /** In two steps: a lock that a session keeps holds up the revocation of what it locked, and of nothing else. */
  const revokeAll = ({ client, external_id, issuer, subject }: Revocation) =>
    Effect.gen(function*() {
      let revoked = 0
      for (const wait of [false, true]) {
        const [row] = yield* orBlocked(
          call<{ readonly count: number }>(revokeStatement, [client, issuer, external_id, subject, wait])
        )
        revoked += row!.count
      }
      return revoked
    })

  const revokeExternal = Effect.fn("Grants.revokeExternal")(({ client_id, grant, issuer }: ExternalGrant) =>
    revokeAll({ client: client_id, issuer, external_id: grant, subject: null })
  )

  const revokeSubject = Effect.fn("Grants.revokeSubject")(({ client_id, issuer, subject }: ExternalSubject) =>
    revokeAll({ client: client_id, issuer, external_id: null, subject })
  )

  const revokeClient = Effect.fn("Grants.revokeClient")(({ client_id, issuer }: ClientGrants) =>
    revokeAll({ client: client_id, issuer: issuer ?? null, external_id: null, subject: null })
  )

  const setClientActive = Effect.fn("Grants.setClientActive")(function*(id: ClientId, active: boolean) {
    if (!(yield* changeStanding("clients", id, active))) return yield* new ClientNotFound({ id })
  })

  const setProviderConnected = Effect.fn("Grants.setProviderConnected")(
    function*(id: ProviderConnectionId, connected: boolean) {
      const changed = yield* changeStanding("provider_connections", id, connected)
      if (!changed) return yield* new ProviderConnectionNotFound({ id })
    }
  )

  return {
    issue,
    register,
    show,
    revoke,
    revokeExternal,
    revokeSubject,
    revokeClient,
    setClientActive,
    setProviderConnected
  }
})

/** A row of `grant_revocations`. */
interface Revocation {
  readonly client: ClientId
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly subject: PairwiseSubject | null
}

/** SQLSTATE of `require_read_committed`. */
const invalidTransactionState = "25000"

/** Milliseconds. Less than `revocationPatience`, so that a revocation outlasts a process that stopped. */
const idleInTransaction = "2000"

/** The server gave up a wait for a lock, be it by the limit of this change or by that of the session. */
const gaveUp: ReadonlySet<string> = new Set(["LockTimeoutError", "StatementTimeoutError"])

type StandingTable = "grants" | "clients" | "provider_connections"

/** $1 id, $2 whether it is good from now on. Leaves a row alone that another session has locked. */
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

const registration = "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS outcome"
const registerStatement = `SELECT register_grant${registration}`
const provisionStatement = `SELECT provision_grant${registration}`
const revokeStatement = "SELECT revoke_grants($1, $2, $3, $4, $5) AS count"

interface GrantRow
  extends Omit<Grant, "created_at" | "expires_at" | "revoked_at" | "issuer" | "external_id" | "registered_by_event_at">
{
  readonly created_at: Date
  readonly expires_at: Date
  readonly revoked_at: Date | null
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly registered_by_event_at: Date | null
}

const fromRow = ({ external_id, issuer, registered_by_event_at, ...row }: GrantRow): Grant => ({
  ...row,
  created_at: DateTime.fromDateUnsafe(row.created_at),
  expires_at: DateTime.fromDateUnsafe(row.expires_at),
  revoked_at: row.revoked_at === null ? null : DateTime.fromDateUnsafe(row.revoked_at),
  ...issuer === null || external_id === null ? {} : { issuer, external_id },
  ...registered_by_event_at === null
    ? {}
    : { registered_by_event_at: DateTime.fromDateUnsafe(registered_by_event_at) }
})

const showStatement = `
  SELECT g.id AS grant_id, g.resource_owner, g.subject, g.client_id, c.active AS client_active,
    g.provider_connection_id, p.provider, p.connected AS provider_connected, g.scopes,
    g.created_at, g.expires_at, g.revoked_at, g.issuer, g.external_id, g.registered_by_event_at
  FROM grants g
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id
  WHERE g.id = $1`

/** Whether the role of the session may register the grants that tokens show. True where migrations are missing as well. */
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
