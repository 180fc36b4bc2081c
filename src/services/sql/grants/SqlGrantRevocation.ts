/**
 * Revocations, and the standing of clients and provider connections, in PostgreSQL.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import {
  type ClientId,
  ClientNotFound,
  type ExternalId,
  type GrantId,
  GrantNotFound,
  type Issuer,
  type PairwiseSubject,
  type ProviderConnectionId,
  ProviderConnectionNotFound
} from "../../../domain/Grant.ts"
import type { ClientGrants, ExternalGrant, ExternalSubject } from "../../../domain/GrantRequest.ts"
import { UnmatchedRevocation } from "../../../domain/IssuerClient.ts"
import { GrantsBlocked, suspiciousAge } from "../../../domain/operators/GrantsBlocked.ts"
import { orUnavailable, StoreUnavailable } from "../../StoreUnavailable.ts"
import { callAlone } from "./callAlone.ts"
import { findGrant } from "./GrantRow.ts"
import { listBlockers } from "./listBlockers.ts"

/** The names of a row of `grant_revocations`. */
interface Revocation {
  readonly client: ClientId
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly subject: PairwiseSubject | null
}

/** The server ended the wait for a lock: by the limit of the function, or by that of the session. */
const lockTimeouts: ReadonlySet<string> = new Set(["LockTimeoutError", "StatementTimeoutError"])

export const makeGrantRevocation = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const show = Effect.fn("Grants.show")(function*(id: GrantId) {
    return (yield* orUnavailable(findGrant(sql, id))) ?? (yield* new GrantNotFound({ id }))
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
  const revokeAll = ({ client, external_id, issuer, subject }: Revocation) =>
    Effect.gen(function*() {
      let revoked = 0
      for (const wait of [false, true]) {
        const [row] = yield* orBlocked(
          callAlone<{ readonly count: number }>(sql, revokeStatement, [client, issuer, external_id, subject, wait])
        )
        revoked += row!.count
      }
      if (revoked === 0) {
        // The revocation is made. A failure of this question must not call it failed.
        const [row] = yield* orUnavailable(
          sql.unsafe<{ readonly matched: boolean }>(isMatchedStatement, [client, issuer])
        ).pipe(Effect.catchTag("StoreUnavailable", () => Effect.succeed([{ matched: true }])))
        if (!row!.matched) return yield* new UnmatchedRevocation({ client_id: client, issuer })
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

  return { show, revoke, revokeExternal, revokeSubject, revokeClient, setClientActive, setProviderConnected }
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
