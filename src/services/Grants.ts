/**
 * The administration of grants: who may read and submit, and who no longer may.
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
  Provider,
  ProviderConnectionId,
  ProviderConnectionNotFound,
  ResourceOwner,
  Scope,
  ScopesExceeded
} from "../domain/Grant.ts"
import { makeMemory } from "./memory/MemoryGrants.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeSql } from "./sql/SqlGrants.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** What a new grant is to allow. */
export interface GrantRequest {
  readonly resource_owner: ResourceOwner
  readonly subject: PairwiseSubject
  readonly client_id: ClientId
  readonly provider: Provider
  /** Within `scopeLimits`; more is a mistake of the caller's, and dies. */
  readonly scopes: ReadonlyArray<Scope>
  /** A hundred years at most; more is a mistake of the caller's, and dies. */
  readonly expires_in: Duration.Duration
}

/** A new grant with its access token, which is shown here and never again. */
export interface IssuedGrant {
  readonly grant: Grant
  readonly access_token: Redacted.Redacted<string>
}

/** A grant that an authorization server gave. */
export interface GrantRegistration {
  readonly issuer: Issuer
  /** The grant, as its authorization server calls it. */
  readonly grant: ExternalId
  /** As the gateway calls it: with the prefix of the issuer, where there is one. */
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
  readonly resource_owner: ResourceOwner
  readonly provider: Provider
  readonly scopes: ReadonlyArray<Scope>
  readonly expires_at: DateTime.Utc
  /**
   * When it was granted, at the latest: the time of the event, or the `iat` of the token that shows the grant, less what
   * the clocks may differ. It decides whether an
   * earlier revocation of the subject or the client meant this grant as well. Absent when nobody knows: then it did.
   */
  readonly granted_at?: DateTime.Utc | null
  /**
   * An event of the authorization server speaks for the whole grant, so that scopes and end become what it says (the
   * default), and no token changes them any more. Until then a token shows a part: it adds its scopes to those that other
   * tokens showed, and only ever moves the end further away, by more than an hour or not at all, because tokens arrive in
   * any order and often.
   */
  readonly learned_from?: "event" | "token"
}

/**
 * One grant of an authorization server, as that calls it. Only the client is as the gateway calls it: where the issuer has a
 * client prefix, the server's own client id without it names nobody, and a revocation revokes nothing, without an error.
 */
export interface ExternalGrant {
  readonly issuer: Issuer
  /** With the prefix of the issuer, where there is one. */
  readonly client_id: ClientId
  readonly grant: ExternalId
}

/**
 * All that a subject gave to a client at an authorization server. The client is as the gateway calls it: see
 * `ExternalGrant`.
 */
export interface ExternalSubject {
  readonly issuer: Issuer
  /** With the prefix of the issuer, where there is one. */
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
}

/**
 * All that a client was given: by one authorization server or, without an issuer, by anyone, the gateway included. The
 * client is as the gateway calls it: see `ExternalGrant`.
 */
export interface ClientGrants {
  readonly issuer?: Issuer | null
  /** With the prefix of the issuer, where there is one. */
  readonly client_id: ClientId
}

type Platform = Digest.Digest | SecureRandom.SecureRandom

/**
 * Writes the rows on which every read and every acceptance depends. A change holds for the very next read, in every
 * process that shares the database.
 *
 * A revocation holds also for grants of authorization servers that were never seen: when one is registered later, it is
 * revoked from the start. So a registration waits for a revocation of its client, and a revocation for registrations that
 * are under way. Each is one statement: a process that stops keeps no lock. Inside a longer transaction the locks last until
 * its end, and its isolation level must be READ COMMITTED: above it, both die.
 *
 * A revocation waits five seconds at most for each lock, and is `StoreUnavailable` then, whose cause `GrantsBlocked` names the
 * sessions that may hold it. What no session holds is revoked all the same. So do the other changes of what a grant depends
 * on.
 */
export class Grants extends Context.Service<Grants, {
  /**
   * Issues a grant and its token. A client or a provider connection that is seen for the first time starts active and
   * connected; one that is known stays as it is, so issuing a grant neither reactivates nor reconnects.
   */
  readonly issue: (request: GrantRequest) => Effect.Effect<IssuedGrant, StoreUnavailable>
  /**
   * Registers a grant of an authorization server under `externalGrantId`, or brings a known one up to date: the server is
   * the authority on scopes and end. No token is made. Client and provider connection start as with `issue`.
   *
   * What a token shows waits a quarter of a second at most for a revocation of its client that is under way, and an event
   * five seconds. Then it is `StoreUnavailable`.
   *
   * A revoked grant stays revoked, for ever; see `revoked_at` of what this yields. Changes nothing and fails with
   * `GrantConflict` when the grant is known with another subject, resource owner or provider, and with `ScopesExceeded`
   * when it would have more scopes than `scopeLimits` allows.
   */
  readonly register: (
    registration: GrantRegistration
  ) => Effect.Effect<Grant, GrantConflict | ScopesExceeded | StoreUnavailable>
  readonly show: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /** Revokes for ever. Revoking once more changes nothing and keeps the first time. */
  readonly revoke: (id: GrantId) => Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /**
   * Revokes a grant of an authorization server for ever, whether or not it was seen before. Yields how many grants this
   * very call revoked: 0 or 1.
   */
  readonly revokeExternal: (grant: ExternalGrant) => Effect.Effect<number, StoreUnavailable>
  /**
   * Revokes all that a subject gave to a client until now, also what was not seen yet. What is granted more than
   * `revocationMargin` later holds. Yields how many grants this very call revoked, expired ones included.
   */
  readonly revokeSubject: (subject: ExternalSubject) => Effect.Effect<number, StoreUnavailable>
  /**
   * The same for all that a client was given until now, by whichever subject. The client stays active: it can be
   * granted access anew. To shut it out, use `setClientActive`.
   */
  readonly revokeClient: (client: ClientGrants) => Effect.Effect<number, StoreUnavailable>
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
