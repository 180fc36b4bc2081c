/**
 * The administration of grants: which clients may read and submit, for which resource owners.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import type {
  ClientId,
  ClientNotFound,
  ExternalId,
  Grant,
  GrantConflict,
  GrantId,
  GrantNotFound,
  Issuer,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderConnectionNotFound,
  ProviderName,
  ResourceOwner,
  Scope,
  ScopesExceeded
} from "../domain/Grant.ts"
import type { UnmatchedRevocation } from "../domain/IssuerClient.ts"
import { makeMemory } from "./memory/MemoryGrants.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeSql } from "./sql/grants/SqlGrants.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** A grant to issue. */
export interface GrantRequest {
  readonly resource_owner: ResourceOwner
  readonly subject: PairwiseSubject
  readonly client_id: ClientId
  readonly provider: ProviderName
  /** Within `scopeLimits`. The call dies with more. */
  readonly scopes: ReadonlyArray<Scope>
  /** A hundred years at most. The call dies with more. */
  readonly expires_in: Duration.Duration
}

/** A new grant with its access token. The token cannot be read again. */
export interface IssuedGrant {
  readonly grant: Grant
  readonly access_token: Redacted.Redacted<string>
}

/** A grant of an authorization server. */
export interface GrantRegistration {
  readonly issuer: Issuer
  /** The id of the grant at its authorization server. */
  readonly grant: ExternalId
  /** From `gatewayClientId`, with the client prefix of the issuer. */
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
  readonly resource_owner: ResourceOwner
  readonly provider: ProviderName
  readonly scopes: ReadonlyArray<Scope>
  readonly expires_at: DateTime.Utc
  /**
   * The latest possible grant time: the time of the event, or the `iat` of the token that shows the grant, less the tolerance
   * for clocks. It decides whether an earlier revocation of the subject or the client covers this grant. Absent or null when
   * the time is unknown: then such a revocation does.
   */
  readonly granted_at?: DateTime.Utc | null
  /**
   * `event`, the default: an event of the authorization server describes the whole grant. Scopes and end become those of the
   * event, and no token changes them later.
   *
   * `token`: a token shows a part of the grant. Until the first event it adds its scopes to those of other tokens. It only moves
   * the end further away, and by more than an hour or not at all, because tokens arrive in any order and often.
   */
  readonly learned_from?: "event" | "token"
}

/** One grant of an authorization server. */
export interface ExternalGrant {
  readonly issuer: Issuer
  /** From `gatewayClientId`, with the client prefix of the issuer. */
  readonly client_id: ClientId
  readonly grant: ExternalId
}

/** All grants of a subject to a client at an authorization server. */
export interface ExternalSubject {
  readonly issuer: Issuer
  /** From `gatewayClientId`, with the client prefix of the issuer. */
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
}

/** All grants of a client: at one authorization server or, without an issuer, at all of them and at the gateway. */
export interface ClientGrants {
  readonly issuer?: Issuer | null
  /** From `gatewayClientId`, with the client prefix of the issuer. */
  readonly client_id: ClientId
}

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
   * their standing: to issue a grant neither reactivates nor reconnects.
   */
  readonly issue: (request: GrantRequest) => Effect.Effect<IssuedGrant, StoreUnavailable>
  /**
   * Registers a grant of an authorization server under `externalGrantId`, or updates a known one: the server decides scopes and
   * end. It makes no token. Client and provider connection start as with `issue`.
   *
   * A registration by a token waits at most a quarter of a second for a revocation of its client, and one by an event five
   * seconds. Then it fails with `StoreUnavailable`.
   *
   * A revoked grant stays revoked for ever: see `revoked_at` of the result. The call fails with `GrantConflict` if the grant
   * is known with another subject, resource owner or provider. It fails with `ScopesExceeded` if the grant would exceed
   * `scopeLimits`. A failed call changes nothing.
   */
  readonly register: (
    registration: GrantRegistration
  ) => Effect.Effect<Grant, GrantConflict | ScopesExceeded | StoreUnavailable>
  readonly show: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
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
