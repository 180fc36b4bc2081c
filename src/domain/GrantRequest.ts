/** What the administration of grants is asked for: grants to issue, to register and to revoke. */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Redacted from "effect/Redacted"
import type { AuthorizationDetails } from "./AuthorizationDetails.ts"
import type {
  ClientId,
  ExternalId,
  Grant,
  Issuer,
  PairwiseSubject,
  ProviderName,
  ResourceOwner,
  Scope
} from "./Grant.ts"

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
  /** The limits of the grant, which never change. Absent: it has none. */
  readonly authorization_details?: AuthorizationDetails
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
  /**
   * The limits of the grant, from its first registration with limits. They never change: an event with others is a `GrantConflict`, and a
   * token changes nothing. Limits of a token hold beside them. Absent: none are given.
   */
  readonly authorization_details?: AuthorizationDetails
}

/** One grant of an authorization server. */
export interface ExternalGrant extends Pick<GrantRegistration, "issuer" | "client_id" | "grant"> {}

/** All grants of a subject to a client at an authorization server. */
export interface ExternalSubject extends Pick<GrantRegistration, "issuer" | "client_id" | "subject"> {}

/** All grants of a client: at one authorization server or, without an issuer, at all of them and at the gateway. */
export interface ClientGrants {
  readonly issuer?: Issuer | null
  /** From `gatewayClientId`, with the client prefix of the issuer. */
  readonly client_id: ClientId
}
