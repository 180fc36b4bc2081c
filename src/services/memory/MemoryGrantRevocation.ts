/**
 * Revocations, and the standing of clients and provider connections, in memory. Each lookup and the write that follows it
 * happen in one synchronous step.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  type ClientId,
  ClientNotFound,
  type GrantId,
  GrantNotFound,
  type ProviderConnectionId,
  ProviderConnectionNotFound
} from "../../domain/Grant.ts"
import type { ClientGrants, ExternalGrant, ExternalSubject } from "../../domain/GrantRequest.ts"
import { UnmatchedRevocation } from "../../domain/IssuerClient.ts"
import { type MemoryGrant, MemoryLedger, type MemoryRevocation } from "./MemoryLedger.ts"

type RevocationNames = Omit<MemoryRevocation, "revoked_at">

export const makeGrantRevocation = Effect.gen(function*() {
  const memory = yield* MemoryLedger

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

/** Whether a revocation names a grant: by its id, or with all grants of its subject or client. */
export const isCovered = (
  { client_id, external_id, issuer, subject }: RevocationNames,
  grant: Pick<MemoryGrant, "client_id" | "issuer" | "external_id" | "subject">
): boolean =>
  client_id === grant.client_id && (issuer === null || issuer === grant.issuer)
  && (external_id === null || external_id === grant.external_id) && (subject === null || subject === grant.subject)
