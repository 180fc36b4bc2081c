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
import type * as Redacted from "effect/Redacted"
import { value as reveal } from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { accessTokenDigest, generateAccessToken } from "../domain/AccessToken.ts"
import {
  ClientId,
  type Grant,
  GrantId,
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
  static readonly layer: Layer.Layer<
    Grants,
    never,
    SqlClient.SqlClient | Digest.Digest | SecureRandom.SecureRandom
  > = Layer.effect(
    Grants,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const context = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()
      const random = yield* SecureRandom.SecureRandom

      const show = Effect.fn("Grants.show")(function*(id: GrantId) {
        const [row] = yield* orUnavailable(sql.unsafe<GrantRow>(showStatement, [id]))
        if (row === undefined) return yield* new GrantNotFound({ id })
        return fromGrantRow(row)
      })

      const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
        const access_token = yield* generateAccessToken
        const digest = yield* accessTokenDigest(reveal(access_token))
        const id = (yield* random.uuidV7()) as GrantId
        const { client_id, provider, resource_owner, scopes, subject } = request
        yield* orUnavailable(sql.withTransaction(Effect.gen(function*() {
          yield* sql`INSERT INTO clients (id) VALUES (${client_id}) ON CONFLICT DO NOTHING`
          // The update changes nothing; it makes the row, ours or an earlier one, come back.
          const [binding] = yield* sql<{ readonly id: string }>`
            INSERT INTO provider_bindings (id, resource_owner, provider)
            VALUES (${yield* random.uuidV7()}, ${resource_owner}, ${provider})
            ON CONFLICT (resource_owner, provider) DO UPDATE SET provider = EXCLUDED.provider
            RETURNING id`
          yield* sql`
            INSERT INTO grants (id, client_id, resource_owner, subject, provider_binding_id, scopes, expires_at)
            VALUES (${id}, ${client_id}, ${resource_owner}, ${subject}, ${binding!.id},
              string_to_array(${scopes.join(" ")}, ' '),
              now() + make_interval(secs => ${Duration.toSeconds(request.expires_in)}))`
          yield* sql`
            INSERT INTO access_tokens (digest, grant_id, client_id)
            VALUES (decode(${digest}, 'hex'), ${id}, ${client_id})`
        })))
        return { grant: yield* Effect.orDie(show(id)), access_token }
      }, Effect.provideContext(context))

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
  )

  static readonly layerMemory: Layer.Layer<
    Grants,
    never,
    MemoryLedger | Digest.Digest | SecureRandom.SecureRandom
  > = Layer.effect(
    Grants,
    Effect.gen(function*() {
      const memory = yield* MemoryLedger
      const context = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()
      const random = yield* SecureRandom.SecureRandom
      const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.makeUnsafe(millis))

      const show = (id: GrantId) =>
        Effect.suspend(() => {
          const grant = memory.showGrant(id)
          return grant === undefined ? Effect.fail(new GrantNotFound({ id })) : Effect.succeed(grant)
        })

      const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
        const { client_id, provider, resource_owner, scopes, subject } = request
        const access_token = yield* generateAccessToken
        const grant_id = (yield* random.uuidV7()) as GrantId
        const created_at = yield* now
        if (!memory.clients.has(client_id)) memory.clients.set(client_id, true)
        const known = [...memory.bindings.values()].find((binding) =>
          binding.resource_owner === resource_owner && binding.provider === provider
        )
        const provider_binding_id = known?.id ?? (yield* random.uuidV7()) as ProviderBindingId
        if (known === undefined) {
          memory.bindings.set(provider_binding_id, {
            id: provider_binding_id,
            resource_owner,
            provider,
            connected: true
          })
        }
        memory.grants.set(grant_id, {
          grant_id,
          resource_owner,
          subject,
          client_id,
          provider_binding_id,
          scopes,
          created_at,
          expires_at: DateTime.addDuration(created_at, request.expires_in),
          revoked_at: null
        })
        memory.tokens.set(yield* accessTokenDigest(reveal(access_token)), {
          grantId: grant_id,
          clientId: client_id,
          subject
        })
        return { grant: yield* Effect.orDie(show(grant_id)), access_token }
      }, Effect.provideContext(context))

      const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
        const revoked_at = yield* now
        const grant = memory.grants.get(id)
        if (grant !== undefined && grant.revoked_at === null) memory.grants.set(id, { ...grant, revoked_at })
        return yield* show(id)
      })

      const setClientActive = Effect.fn("Grants.setClientActive")(function*(id: ClientId, active: boolean) {
        if (!memory.clients.has(id)) return yield* new ClientNotFound({ id })
        memory.clients.set(id, active)
      })

      const setProviderConnected = Effect.fn("Grants.setProviderConnected")(
        function*(id: ProviderBindingId, connected: boolean) {
          const binding = memory.bindings.get(id)
          if (binding === undefined) return yield* new ProviderBindingNotFound({ id })
          memory.bindings.set(id, { ...binding, connected })
        }
      )

      return Grants.of({ issue, show, revoke, setClientActive, setProviderConnected })
    })
  )
}

// --- PostgreSQL

interface GrantRow extends Omit<Grant, "created_at" | "expires_at" | "revoked_at"> {
  readonly created_at: Date
  readonly expires_at: Date
  readonly revoked_at: Date | null
}

const fromGrantRow = (row: GrantRow): Grant => ({
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
