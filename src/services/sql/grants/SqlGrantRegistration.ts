/**
 * New and changed grants in PostgreSQL.
 */
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import {
  externalGrantId,
  GrantConflict,
  type GrantId,
  type ProviderConnectionId,
  ScopesExceeded
} from "../../../domain/Grant.ts"
import type { GrantRegistration, GrantRequest } from "../../../domain/GrantRequest.ts"
import { fitsScopes, isSameGrant, mergeRegistration } from "../../rules/mergeRegistration.ts"
import { newGrant, newProviderConnectionId } from "../../rules/newGrant.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { callAlone } from "./callAlone.ts"
import { findGrant } from "./GrantRow.ts"

export const makeGrantRegistration = Effect.gen(function*() {
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
    const { client_id, provider, resource_owner, scopes, subject } = request
    const grant = yield* orUnavailable(sql.withTransaction(Effect.gen(function*() {
      yield* prepare(request, new_connection_id)
      yield* sql`
        INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at)
        SELECT ${grant_id}, ${client_id}, ${resource_owner}, ${subject}, id, ${scopes}::text[],
          now() + make_interval(secs => ${Duration.toSeconds(request.expires_in)})
        FROM provider_connections WHERE resource_owner = ${resource_owner} AND provider = ${provider}`
      yield* sql`
        INSERT INTO access_tokens (digest, grant_id, client_id)
        VALUES (decode(${digest}, 'hex'), ${grant_id}, ${client_id})`
      return yield* findGrant(sql, grant_id)
    })))
    return { grant: grant!, access_token }
  }, Effect.provideContext(platform))

  const write = Effect.fnUntraced(function*(id: GrantId, registration: GrantRegistration) {
    const { client_id, expires_at, grant, granted_at, issuer, provider, resource_owner, scopes, subject } = registration
    const [row] = yield* callAlone<{ readonly outcome: "registered" | "conflict" | "scopes" }>(
      sql,
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
    return (yield* findGrant(sql, id))!
  })

  /** Most registrations change nothing, and cost one read. No revocation misses a known grant. */
  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    const id = yield* externalGrantId(registration.issuer, registration.client_id, registration.grant)
    const known = yield* orUnavailable(findGrant(sql, id))
    const now = yield* DateTime.now
    if (known !== undefined && !isSameGrant(known, registration)) return yield* new GrantConflict({ id })
    if (!fitsScopes(known, registration, now)) return yield* new ScopesExceeded({ id })
    return known !== undefined && mergeRegistration(known, registration, now) === known
      ? known
      : yield* orUnavailable(write(id, registration))
  }, Effect.provideContext(platform))

  return { issue, register }
})

const registration = "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS outcome"
const registerStatement = `SELECT register_grant${registration}`
const provisionStatement = `SELECT provision_grant${registration}`
