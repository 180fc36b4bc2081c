/**
 * New and changed grants in memory. Each lookup and the write that follows it happen in one synchronous step.
 */
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  externalGrantId,
  type Grant,
  GrantConflict,
  type ProviderConnectionId,
  revocationMargin,
  ScopesExceeded
} from "../../domain/Grant.ts"
import type { GrantRegistration, GrantRequest } from "../../domain/GrantRequest.ts"
import { fitsScopes, isSameGrant, mergeRegistration } from "../rules/mergeRegistration.ts"
import { newGrant, newProviderConnectionId } from "../rules/newGrant.ts"
import { isCovered } from "./MemoryGrantRevocation.ts"
import { MemoryLedger, type MemoryRevocation } from "./MemoryLedger.ts"

export const makeGrantRegistration = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Digest.Digest | SecureRandom.SecureRandom>()

  /** The provider connection of a new grant. It adds client and connection, unless they are known. */
  const prepare = (
    { client_id, provider, resource_owner }: Pick<GrantRequest, "client_id" | "provider" | "resource_owner">,
    newId: ProviderConnectionId
  ) => {
    if (!memory.clients.has(client_id)) memory.clients.set(client_id, true)
    const known = [...memory.connections.values()].find((connection) =>
      connection.resource_owner === resource_owner && connection.provider === provider
    )
    const connection = known ?? { id: newId, resource_owner, provider, connected: true }
    memory.connections.set(connection.id, connection)
    return connection.id
  }

  const issue = Effect.fn("Grants.issue")(function*(request: GrantRequest) {
    const { access_token, digest, grant_id, new_connection_id } = yield* newGrant(request)
    const created_at = yield* DateTime.now
    const { client_id, resource_owner, scopes, subject } = request
    yield* Effect.sync(() => {
      memory.grants.set(grant_id, {
        grant_id,
        resource_owner,
        subject,
        client_id,
        provider_connection_id: prepare(request, new_connection_id),
        scopes,
        created_at,
        expires_at: DateTime.addDuration(created_at, request.expires_in),
        revoked_at: null
      })
      memory.tokens.set(digest, { grant_id, client_id, subject })
    })
    return { grant: memory.showGrant(grant_id)!, access_token }
  }, Effect.provideContext(platform))

  const register = Effect.fn("Grants.register")(function*(registration: GrantRegistration) {
    const { client_id, expires_at, issuer, resource_owner, scopes, subject } = registration
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
        memory.grants.set(grant_id, {
          grant_id,
          resource_owner,
          subject,
          client_id,
          provider_connection_id: prepare(registration, newConnectionId),
          scopes,
          created_at,
          expires_at,
          revoked_at: firstRevocation([...memory.revocations.values()], registration),
          issuer,
          external_id: registration.grant,
          ...registration.learned_from === "token" ? {} : { registered_by_event_at: created_at }
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
