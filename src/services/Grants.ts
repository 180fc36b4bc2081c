/** The administration of grants: which clients may read and submit, for which resource owners. */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { InvalidAuthorizationDetails, RemainingLimit } from "../domain/AuthorizationDetails.ts"
import type {
  ClientId,
  ClientNotFound,
  Grant,
  GrantConflict,
  GrantId,
  GrantNotFound,
  ProviderConnectionId,
  ProviderConnectionNotFound,
  ScopesExceeded,
  UnmatchedRevocation
} from "../domain/Grant.ts"
import type {
  ClientGrants,
  ExternalGrant,
  ExternalSubject,
  GrantRegistration,
  GrantRequest,
  IssuedGrant
} from "../domain/GrantRequest.ts"
import { makeMemory } from "./memory/MemoryGrants.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeSql } from "./sql/grants/SqlGrants.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

export type { GrantRegistration, GrantRequest, IssuedGrant }

type Platform = Digest.Digest | SecureRandom.SecureRandom

/**
 * Writes the rows on which every read and every acceptance depends. A change holds for the very next read, in every process
 * that shares the database.
 *
 * A revocation also holds for grants of authorization servers that the gateway has not seen: a later registration registers them
 * as revoked. So a registration waits for a revocation of its client, and a revocation for registrations under way. Each is
 * one statement: a stopped process keeps no lock. Inside a longer transaction the locks last until its end. Its isolation
 * level must be READ COMMITTED: at a higher one, both die.
 *
 * A revocation waits at most five seconds for each lock. Then it fails with `StoreUnavailable`, whose cause `GrantsBlocked` names
 * the sessions that may hold the lock. Grants that no session has locked are revoked nevertheless. The changes of clients and
 * provider connections wait and fail in the same way.
 */
export class Grants extends Context.Service<Grants, {
  /**
   * Issues a grant and its token. A new client starts as active, and a new provider connection as connected. Known ones keep
   * their standing: to issue a grant neither reactivates nor reconnects. It fails with `InvalidAuthorizationDetails` if the ledger cannot
   * hold the limits, such as those in a time zone that its database lacks.
   */
  readonly issue: (request: GrantRequest) => Effect.Effect<IssuedGrant, InvalidAuthorizationDetails | StoreUnavailable>
  /**
   * Registers a grant of an authorization server under `externalGrantId`, or updates a known one: the server decides scopes and
   * end. It makes no token. Client and provider connection start as with `issue`.
   *
   * A registration by a token waits at most a quarter of a second for a revocation of its client, and one by an event five
   * seconds. Then it fails with `StoreUnavailable`.
   *
   * A revoked grant stays revoked for ever: see `revoked_at` of the result. The call fails with `GrantConflict` if the grant
   * is known with another subject, resource owner or provider, or an event gives other limits. It fails with `ScopesExceeded` if the
   * grant would exceed `scopeLimits`, and with `InvalidAuthorizationDetails` as `issue`. A failed call changes nothing.
   */
  readonly register: (
    registration: GrantRegistration
  ) => Effect.Effect<Grant, GrantConflict | InvalidAuthorizationDetails | ScopesExceeded | StoreUnavailable>
  readonly show: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /** What remains of each limit of the grant, in their order. Limits of its credentials are not among them. */
  readonly limits: (id: GrantId) => Effect.Effect<ReadonlyArray<RemainingLimit>, GrantNotFound | StoreUnavailable>
  /** Revokes for ever. A second revocation changes nothing and keeps the first time. */
  readonly revoke: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /**
   * Revokes a grant of an authorization server for ever, also one that the gateway has not seen. Returns how many grants this
   * call revoked: 0 or 1.
   *
   * Fails with `UnmatchedRevocation` if the ledger has grants of the issuer, but none of the client. The revocation is recorded
   * and holds nevertheless. Where the client id comes from `gatewayClientId`, the client has never used the gateway, and you can
   * ignore the failure. Inside a transaction of your own, catch it: a rollback undoes the revocation.
   */
  readonly revokeExternal: (grant: ExternalGrant) => Effect.Effect<number, UnmatchedRevocation | StoreUnavailable>
  /**
   * Revokes all grants of a subject to a client until now, also those that the gateway has not seen. Grants that are given
   * `revocationMargin` later or more are unaffected. Returns how many grants this call revoked, expired ones included. Fails
   * with `UnmatchedRevocation` as `revokeExternal` does.
   */
  readonly revokeSubject: (subject: ExternalSubject) => Effect.Effect<number, UnmatchedRevocation | StoreUnavailable>
  /**
   * Does the same for all grants of a client until now, of any subject. The client stays active and can be granted access again.
   * To exclude it, use `setClientActive`. Without an issuer it fails with `UnmatchedRevocation` if there is no such client.
   */
  readonly revokeClient: (client: ClientGrants) => Effect.Effect<number, UnmatchedRevocation | StoreUnavailable>
  readonly setClientActive: (
    id: ClientId,
    active: boolean
  ) => Effect.Effect<void, ClientNotFound | StoreUnavailable>
  readonly setProviderConnected: (
    id: ProviderConnectionId,
    connected: boolean
  ) => Effect.Effect<void, ProviderConnectionNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/Grants") {
  static readonly layer: Layer.Layer<Grants, never, SqlClient.SqlClient | Platform> = Layer.effect(
    Grants,
    Effect.suspend(() => Effect.map(makeSql, (grants) => Grants.of(grants)))
  )

  static readonly layerMemory: Layer.Layer<Grants, never, MemoryLedger | Platform> = Layer.effect(
    Grants,
    Effect.suspend(() => Effect.map(makeMemory, (grants) => Grants.of(grants)))
  )
}
