/** The administration of grants in memory. Each lookup and the write that follows it happen in one synchronous step. */
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
  ScopesExceeded,
  UnmatchedRevocation
} from "../../domain/Grant.ts"
import type { GrantRegistration, GrantRequest } from "../../domain/GrantRequest.ts"
import {
  checkLimits,
  fitsScopes,
  isSameGrant,
  mergeRegistration,
  newGrant,
  newProviderConnectionId,
  type RevocationNames,
  revocationsBy
} from "../rules/grantRules.ts"
import { remainingLimits } from "../rules/limits.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryGrant, MemoryRevocation } from "./MemoryRecords.ts"
import { reservationsOf } from "./recordRules.ts"

export const makeMemory = Effect.gen(function*() {
  return { ...yield* makeRegistration, ...yield* makeRevocation }
})

const makeRegistration = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()

  /** Adds a grant. It adds its client and its provider connection, too, unless they are known. */
  const add = (
    { client_id, provider, resource_owner, scopes, subject }: GrantRequest | GrantRegistration,
    newId: ProviderConnectionId,
    rest: Omit<MemoryGrant, "client_id" | "resource_owner" | "subject" | "provider_connection_id" | "scopes">
  ) => {
    if (!memory.clients.has(client_id)) memory.clients.set(client_id, true)
    const known = [...memory.connections.values()].find((connection) =>
      connection.resource_owner === resource_owner && connection.provider === provider
    )
    const connection = known ?? { id: newId, resource_owner, provider, connected: true }
    memory.connections.set(connection.id, connection)
    const grant = { resource_owner, subject, client_id, provider_connection_id: connection.id, scopes, ...rest }
    memory.grants.set(grant.grant_id, grant)
  }

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_connection_id } = yield* newGrant(request)
    const created_at = yield* DateTime.now
    const { authorization_details, client_id, subject } = request
    yield* Effect.sync(() => {
      const expires_at = DateTime.addDuration(created_at, request.expires_in)
      const limits = authorization_details === undefined ? {} : { authorization_details }
      add(request, new_connection_id, { grant_id, created_at, expires_at, revoked_at: null, ...limits })
      memory.tokens.set(digest, { grant_id, client_id, subject })
    })
    return { grant: memory.showGrant(grant_id)!, access_token }
  }, Effect.provideContext(platform))

  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    const { authorization_details, client_id, expires_at, issuer } = registration
    yield* checkLimits(authorization_details)
    const grant_id = yield* externalGrantId(issuer, client_id, registration.grant)
    const newConnectionId = yield* newProviderConnectionId
    const created_at = yield* DateTime.now
    return yield* Effect.suspend((): Effect.Effect<Grant, GrantConflict | ScopesExceeded> => {
      const known = memory.showGrant(grant_id)
      if (known !== undefined && !isSameGrant(known, registration)) {
        return Effect.fail(new GrantConflict({ id: grant_id }))
      }
      if (!fitsScopes(known, registration, created_at)) return Effect.fail(new ScopesExceeded({ id: grant_id }))
      if (known === undefined) {
        add(registration, newConnectionId, {
          grant_id,
          created_at,
          expires_at,
          revoked_at: firstRevocation([...memory.revocations.values()], registration),
          issuer,
          external_id: registration.grant,
          ...registration.learned_from === "token" ? {} : { registered_by_event_at: created_at },
          ...authorization_details === undefined ? {} : { authorization_details }
        })
      } else {
        memory.grants.set(grant_id, mergeRegistration(memory.grants.get(grant_id)!, registration, created_at))
      }
      return Effect.succeed(memory.showGrant(grant_id)!)
    })
  }, Effect.provideContext(platform))

  return { issue, register }
})

/** Whether an earlier revocation covers a grant that is registered now. Only `external_id` revokes later grants as well. */
const isRevokedBy = (registration: GrantRegistration) => (revocation: MemoryRevocation): boolean => {
  if (!isCovered(revocation, { ...registration, external_id: registration.grant })) return false
  const { granted_at } = registration
  if (revocation.external_id !== null || granted_at === undefined || granted_at === null) return true
  return DateTime.isLessThan(granted_at, DateTime.addDuration(revocation.revoked_at, revocationMargin))
}

const firstRevocation = (
  revocations: ReadonlyArray<MemoryRevocation>,
  registration: GrantRegistration
): DateTime.Utc | null =>
  revocations.filter(isRevokedBy(registration)).map(({ revoked_at }) => revoked_at).toSorted(DateTime.Order)[0] ?? null

const makeRevocation = Effect.gen(function*() {
  const memory = yield* MemoryLedger

  const limits = Effect.fn("Grants.limits")(function*(id: GrantId) {
    const grant = memory.showGrant(id)
    if (grant === undefined) return yield* new GrantNotFound({ id })
    return remainingLimits([grant.authorization_details], reservationsOf(memory, id), yield* DateTime.now)
  })

  const show = (id: GrantId) =>
    Effect.suspend(() => {
      const grant = memory.showGrant(id)
      return grant === undefined ? Effect.fail(new GrantNotFound({ id })) : Effect.succeed(grant)
    })

  const revoke = Effect.fn("Grants.revoke")(function*(id: GrantId) {
    const revoked_at = yield* DateTime.now
    yield* Effect.sync(() => {
      const grant = memory.grants.get(id)
      if (grant !== undefined && grant.revoked_at === null) memory.grants.set(id, { ...grant, revoked_at })
    })
    return yield* show(id)
  })

  /** See `UnmatchedRevocation`: an issuer without any grant here is unknown, and may have any client. */
  const isMatched = ({ client_id, issuer }: RevocationNames) => {
    if (issuer === null) return memory.clients.has(client_id)
    const ofIssuer = [...memory.grants.values()].filter((grant) => grant.issuer === issuer)
    return ofIssuer.length === 0 || ofIssuer.some((grant) => grant.client_id === client_id)
  }

  const revokeAll = Effect.fnUntraced(function*(names: RevocationNames) {
    const revoked_at = yield* DateTime.now
    return yield* Effect.suspend(() => {
      const { client_id, external_id, issuer, subject } = names
      const key = JSON.stringify([client_id, issuer, external_id, subject])
      // One grant is revoked once. A revocation of all grants until now is renewed by the next one.
      if (external_id === null || !memory.revocations.has(key)) memory.revocations.set(key, { ...names, revoked_at })
      const grants = [...memory.grants.values()].filter((grant) => grant.revoked_at === null && isCovered(names, grant))
      for (const grant of grants) memory.grants.set(grant.grant_id, { ...grant, revoked_at })
      return grants.length > 0 || isMatched(names)
        ? Effect.succeed(grants.length)
        : Effect.fail(new UnmatchedRevocation({ client_id, issuer }))
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
      const connection = memory.connections.get(id)
      if (connection === undefined) return Effect.fail(new ProviderConnectionNotFound({ id }))
      memory.connections.set(id, { ...connection, connected })
      return Effect.void
    })

  return {
    show,
    limits,
    revoke,
    ...revocationsBy(revokeAll),
    setClientActive,
    setProviderConnected
  }
})

/** Whether a revocation names a grant: by its id, or with all grants of its subject or client. */
const isCovered = (
  { client_id, external_id, issuer, subject }: RevocationNames,
  grant: Pick<MemoryGrant, "client_id" | "issuer" | "external_id" | "subject">
): boolean =>
  client_id === grant.client_id && (issuer === null || issuer === grant.issuer)
  && (external_id === null || external_id === grant.external_id) && (subject === null || subject === grant.subject)
