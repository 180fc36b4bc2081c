/**
 * The administration of grants in memory. Whatever is looked up and then written happens in one synchronous step.
 */
import * as Clock from "effect/Clock"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
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
  revocationMargin,
  ScopesExceeded
} from "../../domain/Grant.ts"
import type { ClientGrants, ExternalGrant, ExternalSubject, GrantRegistration, GrantRequest } from "../Grants.ts"
import { fitsScopes, isSameGrant, mergeRegistration } from "../internal/mergeRegistration.ts"
import { newGrant, newProviderConnectionId } from "../internal/newGrant.ts"
import { type MemoryGrant, MemoryLedger, type MemoryRevocation } from "./MemoryLedger.ts"

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()
  const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.makeUnsafe(millis))

  const show = (id: GrantId) =>
    Effect.suspend(() => {
      const grant = memory.showGrant(id)
      return grant === undefined ? Effect.fail(new GrantNotFound({ id })) : Effect.succeed(grant)
    })

  /** The provider connection of a new grant, whose client and binding are made unless they are known. */
  const prepare = (
    { client_id, provider, resource_owner }: Pick<GrantRequest, "client_id" | "provider" | "resource_owner">,
    newId: ProviderConnectionId
  ) => {
    if (!memory.clients.has(client_id)) memory.clients.set(client_id, true)
    const known = [...memory.bindings.values()].find((binding) =>
      binding.resource_owner === resource_owner && binding.provider === provider
    )
    const binding = known ?? { id: newId, resource_owner, provider, connected: true }
    memory.bindings.set(binding.id, binding)
    return binding.id
  }

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_binding_id } = yield* newGrant(request)
    const created_at = yield* now
    const { client_id, resource_owner, scopes, subject } = request
    yield* Effect.sync(() => {
      memory.grants.set(grant_id, {
        grant_id,
        resource_owner,
        subject,
        client_id,
        provider_connection_id: prepare(request, new_binding_id),
        scopes,
        created_at,
        expires_at: DateTime.addDuration(created_at, request.expires_in),
        revoked_at: null
      })
      memory.tokens.set(digest, { grant_id, client_id, subject })
    })
    return { grant: yield* Effect.orDie(show(grant_id)), access_token }
  }, Effect.provideContext(platform))

  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    const { client_id, expires_at, issuer, resource_owner, scopes, subject } = registration
    const grant_id = yield* externalGrantId(issuer, client_id, registration.grant)
    const newBindingId = yield* newProviderConnectionId
    const created_at = yield* now
    return yield* Effect.suspend((): Effect.Effect<Grant, GrantConflict | ScopesExceeded> => {
      const known = memory.showGrant(grant_id)
      if (known !== undefined && !isSameGrant(known, registration)) {
        return Effect.fail(new GrantConflict({ id: grant_id }))
      }
      if (!fitsScopes(known, registration, created_at)) return Effect.fail(new ScopesExceeded({ id: grant_id }))
      if (known === undefined) {
        memory.grants.set(grant_id, {
          grant_id,
          resource_owner,
          subject,
          client_id,
          provider_connection_id: prepare(registration, newBindingId),
          scopes,
          created_at,
          expires_at,
          revoked_at: firstOf([...memory.revocations.values()].filter((revoked) => isMeant(revoked, registration))),
          issuer,
          external_id: registration.grant,
          ...registration.learned_from === "token" ? {} : { registered_by_event_at: created_at }
        })
      } else {
        memory.grants.set(grant_id, mergeRegistration(memory.grants.get(grant_id)!, registration, created_at))
      }
      return Effect.orDie(show(grant_id))
    })
  }, Effect.provideContext(platform))

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    const revoked_at = yield* now
    yield* Effect.sync(() => {
      const grant = memory.grants.get(id)
      if (grant !== undefined && grant.revoked_at === null) memory.grants.set(id, { ...grant, revoked_at })
    })
    return yield* show(id)
  })

  const revokeAll = Effect.fnUntraced(function*(revoked: Omit<MemoryRevocation, "revoked_at">) {
    const revoked_at = yield* now
    return yield* Effect.sync(() => {
      const name = JSON.stringify([revoked.client_id, revoked.issuer, revoked.external_id, revoked.subject])
      // One grant is revoked once. What is revoked until now is revoked until later when it is revoked again.
      if (revoked.external_id === null || !memory.revocations.has(name)) {
        memory.revocations.set(name, { ...revoked, revoked_at })
      }
      const grants = [...memory.grants.values()].filter((grant) => grant.revoked_at === null && covers(revoked, grant))
      for (const grant of grants) memory.grants.set(grant.grant_id, { ...grant, revoked_at })
      return grants.length
    })
  })

  const setClientActive = (id: ClientId, active: boolean) =>
    Effect.suspend(() => {
      if (!memory.clients.has(id)) return Effect.fail(new ClientNotFound({ id }))
      memory.clients.set(id, active)
      return Effect.void
    })

  const setProviderConnected = (id: ProviderConnectionId, connected: boolean) =>
    Effect.suspend(() => {
      const binding = memory.bindings.get(id)
      if (binding === undefined) return Effect.fail(new ProviderConnectionNotFound({ id }))
      memory.bindings.set(id, { ...binding, connected })
      return Effect.void
    })

  return {
    issue,
    register,
    show,
    revoke,
    revokeExternal: ({ client_id, grant, issuer }: ExternalGrant) =>
      revokeAll({ client_id, issuer, external_id: grant, subject: null }),
    revokeSubject: ({ client_id, issuer, subject }: ExternalSubject) =>
      revokeAll({ client_id, issuer, external_id: null, subject }),
    revokeClient: ({ client_id, issuer }: ClientGrants) =>
      revokeAll({ client_id, issuer: issuer ?? null, external_id: null, subject: null }),
    setClientActive,
    setProviderConnected
  }
})

type Name = Pick<MemoryGrant, "client_id" | "issuer" | "external_id" | "subject">

/** Whether a revocation names a grant, by itself or with all others of its subject or client. */
const covers = ({ client_id, external_id, issuer, subject }: Omit<MemoryRevocation, "revoked_at">, grant: Name) =>
  client_id === grant.client_id && (issuer === null || issuer === grant.issuer)
  && (external_id === null || external_id === grant.external_id) && (subject === null || subject === grant.subject)

/** Whether a revocation, which came first, means the grant that is now registered. */
const isMeant = (revocation: MemoryRevocation, registration: GrantRegistration): boolean => {
  if (!covers(revocation, { ...registration, external_id: registration.grant })) return false
  const { granted_at } = registration
  if (revocation.external_id !== null || granted_at === undefined || granted_at === null) return true
  return DateTime.isLessThan(granted_at, DateTime.addDuration(revocation.revoked_at, revocationMargin))
}

const firstOf = (revocations: ReadonlyArray<MemoryRevocation>): DateTime.Utc | null =>
  revocations.map(({ revoked_at }) => revoked_at).toSorted(DateTime.Order)[0] ?? null
