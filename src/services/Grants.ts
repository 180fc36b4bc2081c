/**
 * The administration of grants: who may read and submit, and who no longer may.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { accessTokenDigest, generateAccessToken } from "../domain/AccessToken.ts"
import {
  ClientId,
  type Grant,
  GrantId,
  isGrantLifetime,
  type PairwiseSubject,
  type Provider,
  ProviderBindingId,
  type ResourceOwner,
  type Scope
} from "../domain/Grant.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import { orUnavailable, type StoreUnavailable } from "./StoreUnavailable.ts"

/** What a new grant is to allow. */
export interface GrantRequest {
  readonly resource_owner: ResourceOwner
  readonly subject: PairwiseSubject
  readonly client_id: ClientId
  readonly provider: Provider
  readonly scopes: ReadonlyArray<Scope>
  /** A hundred years at most; more is a mistake of the caller's, and dies. */
  readonly expires_in: Duration.Duration
}

/** A new grant with its access token, which is shown here and never again. */
export interface IssuedGrant {
  readonly grant: Grant
  readonly access_token: Redacted.Redacted<string>
}

/** No grant has this id. */
export class GrantNotFound extends Schema.TaggedError<GrantNotFound>()("GrantNotFound", { id: GrantId }) {
  override get message() {
    return `there is no grant ${this.id}`
  }
}

/** No grant was ever issued to this client. */
export class ClientNotFound extends Schema.TaggedError<ClientNotFound>()("ClientNotFound", { id: ClientId }) {
  override get message() {
    return `there is no client ${this.id}`
  }
}

/** No provider binding has this id. */
export class ProviderBindingNotFound extends Schema.TaggedError<ProviderBindingNotFound>()("ProviderBindingNotFound", {
  id: ProviderBindingId
}) {
  override get message() {
    return `there is no provider binding ${this.id}`
  }
}

type Platform = Digest.Digest | SecureRandom.SecureRandom

/**
 * Writes the rows on which every read and every acceptance depends. A change holds for the very next read, in every
 * process that shares the database.
 */
export class Grants extends Context.Service<Grants, {
  /**
   * Issues a grant and its token. A client or a provider binding that is seen for the first time starts active and
   * connected; one that is known stays as it is, so issuing a grant neither reactivates nor reconnects.
   */
  readonly issue: (request: GrantRequest) => Effect.Effect<IssuedGrant, StoreUnavailable>
  readonly show: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /** Revokes for ever. Revoking once more changes nothing and keeps the first time. */
  readonly revoke: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  readonly setClientActive: (
    id: ClientId,
    active: boolean
  ) => Effect.Effect<void, ClientNotFound | StoreUnavailable>
  readonly setProviderConnected: (
    id: ProviderBindingId,
    connected: boolean
  ) => Effect.Effect<void, ProviderBindingNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/Grants") {
  static readonly layer: Layer.Layer<Grants, never, SqlClient.SqlClient | Platform> = Layer.effect(
    Grants,
    Effect.suspend(() => makeSql)
  )

  static readonly layerMemory: Layer.Layer<Grants, never, MemoryLedger | Platform> = Layer.effect(
    Grants,
    Effect.suspend(() => makeMemory)
  )
}

/** What is made before anything is looked up or written. */
const draw = Effect.fnUntraced(function*(request: GrantRequest) {
  if (!isGrantLifetime(request.expires_in)) {
    return yield* Effect.die(new RangeError("a grant lives for a hundred years at most"))
  }
  const random = yield* SecureRandom.SecureRandom
  const access_token = yield* generateAccessToken
  return {
    access_token,
    digest: yield* accessTokenDigest(Redacted.value(access_token)),
    grant_id: GrantId.make(yield* random.uuidV7()),
    new_binding_id: ProviderBindingId.make(yield* random.uuidV7())
  }
})

// --- PostgreSQL

const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Platform>()

  const find = (id: GrantId) => Effect.map(sql.unsafe<GrantRow>(showStatement, [id]), ([row]) => row && fromRow(row))

  const show = Effect.fn("Grants.show")(function*(id: GrantId) {
    return (yield* orUnavailable(find(id))) ?? (yield* new GrantNotFound({ id }))
  })

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_binding_id } = yield* draw(request)
    const { client_id, provider, resource_owner, scopes, subject } = request
    const grant = yield* orUnavailable(sql.withTransaction(Effect.gen(function*() {
      yield* sql`INSERT INTO clients (id) VALUES (${client_id}) ON CONFLICT DO NOTHING`
      yield* sql`
        INSERT INTO provider_bindings (id, resource_owner, provider)
        VALUES (${new_binding_id}, ${resource_owner}, ${provider}) ON CONFLICT DO NOTHING`
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

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    yield* orUnavailable(sql`
      UPDATE grants SET revoked_at = date_trunc('milliseconds', clock_timestamp())
      WHERE id = ${id} AND revoked_at IS NULL`)
    return yield* show(id)
  })

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

  return Grants.of({ issue, show, revoke, setClientActive, setProviderConnected })
})

interface GrantRow extends Omit<Grant, "created_at" | "expires_at" | "revoked_at"> {
  readonly created_at: Date
  readonly expires_at: Date
  readonly revoked_at: Date | null
}

const fromRow = (row: GrantRow): Grant => ({
  ...row,
  created_at: DateTime.fromDateUnsafe(row.created_at),
  expires_at: DateTime.fromDateUnsafe(row.expires_at),
  revoked_at: row.revoked_at === null ? null : DateTime.fromDateUnsafe(row.revoked_at)
})

const showStatement = `
  SELECT g.id AS grant_id, g.resource_owner, g.subject, g.client_id, c.active AS client_active,
    g.provider_binding_id, p.provider, p.connected AS provider_connected, g.scopes,
    g.created_at, g.expires_at, g.revoked_at
  FROM grants g
  JOIN clients c ON c.id = g.client_id
  JOIN provider_bindings p ON p.id = g.provider_binding_id
  WHERE g.id = $1`

// --- memory: whatever is looked up and then written happens in one synchronous step

const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Platform>()
  const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.makeUnsafe(millis))

  const show = (id: GrantId) =>
    Effect.suspend(() => {
      const grant = memory.showGrant(id)
      return grant === undefined ? Effect.fail(new GrantNotFound({ id })) : Effect.succeed(grant)
    })

  const bindingOf = ({ provider, resource_owner }: GrantRequest, newId: ProviderBindingId) => {
    const known = [...memory.bindings.values()].find((binding) =>
      binding.resource_owner === resource_owner && binding.provider === provider
    )
    const binding = known ?? { id: newId, resource_owner, provider, connected: true }
    memory.bindings.set(binding.id, binding)
    return binding
  }

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_binding_id } = yield* draw(request)
    const created_at = yield* now
    const { client_id, resource_owner, scopes, subject } = request
    yield* Effect.sync(() => {
      if (!memory.clients.has(client_id)) memory.clients.set(client_id, true)
      memory.grants.set(grant_id, {
        grant_id,
        resource_owner,
        subject,
        client_id,
        provider_binding_id: bindingOf(request, new_binding_id).id,
        scopes,
        created_at,
        expires_at: DateTime.addDuration(created_at, request.expires_in),
        revoked_at: null
      })
      memory.tokens.set(digest, { grant_id, client_id, subject })
    })
    return { grant: yield* Effect.orDie(show(grant_id)), access_token }
  }, Effect.provideContext(platform))

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    const revoked_at = yield* now
    yield* Effect.sync(() => {
      const grant = memory.grants.get(id)
      if (grant !== undefined && grant.revoked_at === null) memory.grants.set(id, { ...grant, revoked_at })
    })
    return yield* show(id)
  })

  const setClientActive = (id: ClientId, active: boolean) =>
    Effect.suspend(() => {
      if (!memory.clients.has(id)) return Effect.fail(new ClientNotFound({ id }))
      memory.clients.set(id, active)
      return Effect.void
    })

  const setProviderConnected = (id: ProviderBindingId, connected: boolean) =>
    Effect.suspend(() => {
      const binding = memory.bindings.get(id)
      if (binding === undefined) return Effect.fail(new ProviderBindingNotFound({ id }))
      memory.bindings.set(id, { ...binding, connected })
      return Effect.void
    })

  return Grants.of({ issue, show, revoke, setClientActive, setProviderConnected })
})
