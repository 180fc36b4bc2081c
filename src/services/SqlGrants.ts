/**
 * The administration of grants in PostgreSQL.
 */
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
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
  type ProviderBindingId,
  ProviderBindingNotFound,
  revocationMargin
} from "../domain/Grant.ts"
import { drawBindingId, drawGrant } from "./drawGrant.ts"
import type { ClientGrants, ExternalGrant, ExternalSubject, GrantRegistration, GrantRequest } from "./Grants.ts"
import { isSameGrant, learnGrant, leastExtension } from "./learnGrant.ts"
import { orUnavailable } from "./StoreUnavailable.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()

  const find = (id: GrantId) => Effect.map(sql.unsafe<GrantRow>(showStatement, [id]), ([row]) => row && fromRow(row))

  const show = Effect.fn("Grants.show")(function*(id: GrantId) {
    return (yield* orUnavailable(find(id))) ?? (yield* new GrantNotFound({ id }))
  })

  /** Client and provider binding of a new grant, unless they are known. */
  const prepare = Effect.fnUntraced(
    function*(
      { client_id, provider, resource_owner }: Pick<GrantRequest, "client_id" | "provider" | "resource_owner">,
      newBindingId: ProviderBindingId
    ) {
      yield* sql`INSERT INTO clients (id) VALUES (${client_id}) ON CONFLICT DO NOTHING`
      yield* sql`
        INSERT INTO provider_bindings (id, resource_owner, provider)
        VALUES (${newBindingId}, ${resource_owner}, ${provider}) ON CONFLICT DO NOTHING`
    }
  )

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_binding_id } = yield* drawGrant(request)
    const { client_id, provider, resource_owner, scopes, subject } = request
    const grant = yield* orUnavailable(sql.withTransaction(Effect.gen(function*() {
      yield* prepare(request, new_binding_id)
      yield* sql`
        INSERT INTO grants (id, client_id, resource_owner, subject, provider_binding_id, scopes, expires_at)
        SELECT ${grant_id}, ${client_id}, ${resource_owner}, ${subject}, id, ${scopes}::text[],
          now() + make_interval(secs => ${Duration.toSeconds(request.expires_in)})
        FROM provider_bindings WHERE resource_owner = ${resource_owner} AND provider = ${provider}`
      yield* sql`
        INSERT INTO access_tokens (digest, grant_id, client_id)
        VALUES (decode(${digest}, 'hex'), ${grant_id}, ${client_id})`
      return yield* find(grant_id)
    })))
    return { grant: grant!, access_token }
  }, Effect.provideContext(platform))

  /**
   * Registrations of a client go side by side, its revocations alone. Each statement after the lock must see what was
   * committed while it was waited for, whatever the isolation level of the session.
   */
  const inTurn = <A, E, R>(lock: Lock, client: ClientId, effect: Effect.Effect<A, E, R>) =>
    sql.withTransaction(Effect.gen(function*() {
      if (lock.patience !== null) {
        yield* sql`SELECT set_config('lock_timeout', ${String(Duration.toMillis(lock.patience))}, true)`
      }
      yield* sql.unsafe(lock.statement, [client])
      return yield* effect
    })).pipe(
      Effect.provideService(SqlClient.BeginTransaction, "BEGIN ISOLATION LEVEL READ COMMITTED")
    )

  const write = Effect.fnUntraced(function*(id: GrantId, registration: GrantRegistration) {
    const { client_id, expires_at, grant, granted_at, issuer, provider, resource_owner, scopes, subject } = registration
    const newBindingId = yield* drawBindingId
    const isToken = registration.learned_from === "token"
    return yield* inTurn(
      isToken ? sharedSoon : shared,
      client_id,
      Effect.gen(function*() {
        yield* prepare(registration, newBindingId)
        yield* sql.unsafe(isToken ? registerToken : registerEvent, [
          id,
          client_id,
          resource_owner,
          subject,
          provider,
          scopes,
          DateTime.toDateUtc(expires_at),
          issuer,
          grant,
          granted_at === undefined || granted_at === null ? null : DateTime.toDateUtc(granted_at),
          Duration.toSeconds(revocationMargin),
          ...isToken ? [Duration.toSeconds(leastExtension)] : []
        ])
        const registered = (yield* find(id))!
        return isSameGrant(registered, registration) ? registered : yield* new GrantConflict({ id })
      })
    )
  })

  /** Most registrations say nothing new, and cost one read. A grant that is known is never missed by a revocation. */
  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    const id = yield* externalGrantId(registration.issuer, registration.client_id, registration.grant)
    const known = yield* orUnavailable(find(id))
    if (known === undefined) return yield* orUnavailable(write(id, registration))
    if (!isSameGrant(known, registration)) return yield* new GrantConflict({ id })
    return learnGrant(known, registration, yield* DateTime.now) === known
      ? known
      : yield* orUnavailable(write(id, registration))
  }, Effect.provideContext(platform))

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    yield* orUnavailable(sql`
      UPDATE grants SET revoked_at = date_trunc('milliseconds', clock_timestamp())
      WHERE id = ${id} AND revoked_at IS NULL`)
    return yield* show(id)
  })

  const revokeAll = ({ client, external_id, issuer, subject }: Revocation) =>
    orUnavailable(inTurn(
      exclusive,
      client,
      Effect.gen(function*() {
        yield* sql`
          INSERT INTO grant_revocations AS known (client_id, issuer, external_id, subject)
          VALUES (${client}, ${issuer}, ${external_id}, ${subject})
          ON CONFLICT (client_id, issuer, external_id, subject)
            DO UPDATE SET revoked_at = greatest(known.revoked_at, excluded.revoked_at)
            WHERE known.external_id IS NULL`
        const conditions = [
          sql`client_id = ${client} AND revoked_at IS NULL`,
          ...issuer === null ? [] : [sql`issuer = ${issuer}`],
          ...external_id === null ? [] : [sql`external_id = ${external_id}`],
          ...subject === null ? [] : [sql`subject = ${subject}`]
        ]
        const [row] = yield* sql<{ readonly count: number }>`
          WITH revoked AS (
            UPDATE grants SET revoked_at = date_trunc('milliseconds', clock_timestamp())
            WHERE ${sql.and(conditions)} RETURNING 1
          )
          SELECT count(*)::int AS count FROM revoked`
        return row!.count
      })
    ))

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
    const rows = yield* orUnavailable(sql`UPDATE clients SET active = ${active} WHERE id = ${id} RETURNING id`)
    if (rows.length === 0) return yield* new ClientNotFound({ id })
  })

  const setProviderConnected = Effect.fn("Grants.setProviderConnected")(
    function*(id: ProviderBindingId, connected: boolean) {
      const rows = yield* orUnavailable(
        sql`UPDATE provider_bindings SET connected = ${connected} WHERE id = ${id} RETURNING id`
      )
      if (rows.length === 0) return yield* new ProviderBindingNotFound({ id })
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

interface Lock {
  readonly statement: string
  /** How long the transaction waits for this lock, and for those that it needs then. */
  readonly patience: Duration.Duration | null
}

const lockOf = (mode: string, patience: Duration.Duration | null = null): Lock => ({
  statement: `SELECT pg_advisory_xact_lock${mode}(hashtextextended('financial-agents-gateway/grants/' || $1, 0))`,
  patience
})

const shared = lockOf("_shared")
const exclusive = lockOf("")

/** For tokens: a request waits, and so do the first sights of others behind its connection. */
const sharedSoon = lockOf("_shared", Duration.millis(250))

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
    g.provider_binding_id, p.provider, p.connected AS provider_connected, g.scopes,
    g.created_at, g.expires_at, g.revoked_at, g.issuer, g.external_id, g.registered_by_event_at
  FROM grants g
  JOIN clients c ON c.id = g.client_id
  JOIN provider_bindings p ON p.id = g.provider_binding_id
  WHERE g.id = $1`

/** Whether a revocation of everything until then means a grant of this age, or of an unknown one. */
const isMeant = "($10::timestamptz IS NULL OR $10::timestamptz < r.revoked_at + make_interval(secs => $11))"

/**
 * $1 id, $2 client, $3 owner, $4 subject, $5 provider, $6 scopes, $7 end, $8 issuer, $9 the issuer's name for it, $10 when
 * it was granted, $11 margin in seconds. Leaves a grant alone that is known with another identity. What a known grant
 * learns is what `learnGrant` says.
 */
const registerStatement = (registeredByEventAt: string, learn: string) => `
  INSERT INTO grants AS known (id, client_id, resource_owner, subject, provider_binding_id, scopes, expires_at, issuer,
    external_id, registered_by_event_at, revoked_at)
  SELECT $1::uuid, $2::text, $3::text, $4::text, p.id, $6::text[], $7::timestamptz, $8::text, $9::text,
    ${registeredByEventAt}, (
    SELECT min(r.revoked_at) FROM grant_revocations r
    WHERE (r.client_id = $2 AND r.issuer = $8 AND r.external_id = $9 AND r.subject IS NULL)
      OR (r.client_id = $2 AND r.issuer = $8 AND r.external_id IS NULL AND r.subject = $4 AND ${isMeant})
      OR (r.client_id = $2 AND r.issuer = $8 AND r.external_id IS NULL AND r.subject IS NULL AND ${isMeant})
      OR (r.client_id = $2 AND r.issuer IS NULL AND ${isMeant})
  )
  FROM provider_bindings p WHERE p.resource_owner = $3 AND p.provider = $5
  ON CONFLICT (id, client_id) DO UPDATE SET ${learn}
    AND (known.resource_owner, known.subject, known.provider_binding_id)
      = (excluded.resource_owner, excluded.subject, excluded.provider_binding_id)`

const registerEvent = registerStatement(
  "date_trunc('milliseconds', clock_timestamp())",
  `scopes = excluded.scopes, expires_at = excluded.expires_at,
    registered_by_event_at = coalesce(known.registered_by_event_at, excluded.registered_by_event_at)
  WHERE (known.registered_by_event_at IS NULL
    OR (known.scopes, known.expires_at) IS DISTINCT FROM (excluded.scopes, excluded.expires_at))`
)

/** $12 is the least extension in seconds. */
const registerToken = registerStatement(
  "NULL",
  `scopes = known.scopes || ARRAY(SELECT s FROM unnest(excluded.scopes) s WHERE s <> ALL (known.scopes)),
    expires_at = greatest(known.expires_at, excluded.expires_at)
  WHERE known.registered_by_event_at IS NULL
    AND (NOT excluded.scopes <@ known.scopes
      OR excluded.expires_at > known.expires_at + make_interval(secs => $12))`
)
