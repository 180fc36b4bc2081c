/**
 * A grant: the scopes that a resource owner gave to a client, with the pairwise subject and the provider connection.
 */
import * as Digest from "effect/crypto/Digest"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Schema from "effect/Schema"
import { AuthorizationDetails, decodeAuthorizationDetails } from "./AuthorizationDetails.ts"
import { InvalidCredential } from "./Credential.ts"

const identifier = (description: string) =>
  Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" }))
    .annotate({ description })

const Uuid = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u, { expected: "a lower-case UUID" })
)

/** Identifier of a grant. */
export const GrantId = Uuid.pipe(Schema.brand("GrantId"))
export type GrantId = typeof GrantId.Type

/** Identifier of the connection of one resource owner to one provider. */
export const ProviderConnectionId = Uuid.pipe(Schema.brand("ProviderConnectionId"))
export type ProviderConnectionId = typeof ProviderConnectionId.Type

/** The owner of the money. Internal: it never leaves the gateway. */
export const ResourceOwner = identifier("Resource owner").pipe(Schema.brand("ResourceOwner"))
export type ResourceOwner = typeof ResourceOwner.Type

/** The owner as one client knows it (OpenID Connect Core §8.1): no two clients can compare subjects. */
export const PairwiseSubject = identifier("Pairwise subject").pipe(Schema.brand("PairwiseSubject"))
export type PairwiseSubject = typeof PairwiseSubject.Type

/** The OAuth client (the agent), by its id at the gateway: see `gatewayClientId`. */
export const ClientId = identifier("Client").pipe(Schema.brand("ClientId"))
export type ClientId = typeof ClientId.Type

/** The upstream provider, such as a bank or a broker, by the name that the deployment gives it. */
export const ProviderName = identifier("Provider").pipe(Schema.brand("ProviderName"))
export type ProviderName = typeof ProviderName.Type

/** The authorization server, by its issuer identifier (RFC 8414 §2). */
export const Issuer = identifier("Issuer").pipe(Schema.brand("Issuer"))
export type Issuer = typeof Issuer.Type

/** A grant, by its id at the authorization server. */
export const ExternalId = identifier("Grant, as its authorization server calls it").pipe(Schema.brand("ExternalId"))
export type ExternalId = typeof ExternalId.Type

const encoder = new TextEncoder()

/**
 * The id of the gateway for a grant of an authorization server. It is a UUIDv8 (RFC 9562 §5.8) of the SHA-256 over issuer, client
 * and the server's id of the grant. So a verifier derives the grant from a token without a query.
 *
 * @internal
 */
export const externalGrantId = (
  issuer: Issuer,
  client: ClientId,
  grant: ExternalId
): Effect.Effect<GrantId, never, Digest.Digest> =>
  // Each id has its length in front, so that no two triples give the same text.
  Effect.map(
    Digest.Digest.use((digests) =>
      digests.digest(
        Digest.sha256,
        encoder.encode([issuer, client, grant].map((name) => `${name.length}:${name}`).join(""))
      )
    ),
    (digest) => {
      const bytes = digest.slice(0, 16)
      bytes[6] = bytes[6]! & 0x0f | 0x80
      bytes[8] = bytes[8]! & 0x3f | 0x80
      return GrantId.make(Hex.encode(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"))
    }
  )

const decodeNames = Schema.decodeUnknownEffect(
  Schema.Struct({ issuer: Issuer, client_id: ClientId, subject: PairwiseSubject, grant: ExternalId })
)

/**
 * The identity of the grant that claims name, as `Grants.register` registers it, and the limits of the credential. The claims are
 * those of a verified token, as they are: a missing or malformed one is `InvalidCredential`, so the request is refused with 401.
 */
export const externalIdentity = (
  claims: Readonly<Record<"issuer" | "client_id" | "subject" | "grant", unknown>> & {
    /** Absent or undefined: the credential has no limits of its own (RFC 9396 §9). */
    readonly authorization_details?: unknown
  }
): Effect.Effect<GrantIdentity, InvalidCredential, Digest.Digest> =>
  Effect.gen(function*() {
    const { client_id, grant, issuer, subject } = yield* decodeNames(claims)
    const { authorization_details: given } = claims
    const authorization_details = given === undefined ? null : yield* decodeAuthorizationDetails(given)
    return {
      grant_id: yield* externalGrantId(issuer, client_id, grant),
      client_id,
      subject,
      ...authorization_details === null ? {} : { authorization_details }
    }
  }).pipe(
    Effect.catchTags({
      SchemaError: () => Effect.fail(new InvalidCredential()),
      // It names members and what they must be, and never a value.
      InvalidAuthorizationDetails: ({ message }) => Effect.fail(new InvalidCredential({ reason: message }))
    })
  )

/** A scope token (RFC 6749 §3.3). */
export const Scope = Schema.String.check(
  Schema.isPattern(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/u, { expected: "a scope token of RFC 6749" })
).pipe(Schema.brand("Scope"))
export type Scope = typeof Scope.Type

/**
 * Most scopes of one grant, and most characters of them with a blank between each two. The limits exist because tokens add
 * scopes to their grant, and each operation keeps a copy. They are several times what authorization servers grant.
 *
 * @internal
 */
export const scopeLimits = { count: 100, characters: 4096 } as const

/** Whether a grant may have these scopes. The schema of the database checks the same. @internal */
export const areScopesBounded = (scopes: ReadonlyArray<Scope>): boolean =>
  scopes.length <= scopeLimits.count && scopes.join(" ").length <= scopeLimits.characters

/** `scopeLimits` in words. @internal */
export const scopeBounds =
  `a grant has at most ${scopeLimits.count} scopes, of ${scopeLimits.characters} characters in all`

/** The scope that reads of operations require (specification, "Authentication"). */
export const operationsRead = Scope.make("operations:read")

/** Whether this is a valid lifetime of a grant: at most a hundred years, because dates are limited. @internal */
export const isGrantLifetime = (lifetime: Duration.Duration): boolean =>
  Duration.isLessThanOrEqualTo(lifetime, Duration.days(36_525))

/**
 * A revocation of a subject or client leaves grants issued `revocationMargin` or more later unaffected. The margin exists
 * because authorization servers give times in whole seconds. It does not include the difference of the clocks:
 * `GrantProvisioning` subtracts that from the `iat` of tokens.
 *
 * @internal
 */
export const revocationMargin = Duration.seconds(2)

/**
 * The grant of a verified credential, by members that never change. The statement of each read checks whether the grant is
 * still live (see `refusal`).
 */
export interface GrantIdentity extends Pick<Grant, "grant_id" | "client_id" | "subject"> {
  /** The scopes of the credential, which may be fewer than those of its grant. Absent if it names none. */
  readonly limited_to?: ReadonlyArray<Scope>
  /** The limits of the credential, which hold beside those of its grant. Absent if it has none. */
  readonly authorization_details?: AuthorizationDetails
}

/** A grant, as the commands show it. */
export const Grant = Schema.Struct({
  grant_id: GrantId,
  resource_owner: ResourceOwner,
  subject: PairwiseSubject,
  client_id: ClientId,
  client_active: Schema.Boolean,
  provider_connection_id: ProviderConnectionId,
  provider: ProviderName,
  provider_connected: Schema.Boolean,
  scopes: Schema.Array(Scope),
  created_at: Schema.DateTimeUtcFromString,
  expires_at: Schema.DateTimeUtcFromString,
  revoked_at: Schema.NullOr(Schema.DateTimeUtcFromString),
  /** Absent: the grant has no limits. */
  authorization_details: Schema.optionalKey(AuthorizationDetails),
  /** The authorization server of the grant, and its id of the grant. Absent for grants of the gateway. */
  issuer: Schema.optionalKey(Issuer),
  external_id: Schema.optionalKey(ExternalId),
  /** When an event of that server first registered the grant. Absent while only tokens did, which may extend it. */
  registered_by_event_at: Schema.optionalKey(Schema.DateTimeUtcFromString)
})
export type Grant = typeof Grant.Type

/** The standing of a grant: the facts of one snapshot that decide whether it may be used. @internal */
export interface GrantStanding {
  readonly revoked: boolean
  readonly expired: boolean
  readonly client_active: boolean
  readonly scope_granted: boolean
  readonly provider_connected: boolean
}

/** No grant has this id. */
export class GrantNotFound extends Schema.TaggedError<GrantNotFound>()("GrantNotFound", { id: GrantId }) {
  override get message() {
    return `there is no grant ${this.id}`
  }
}

/** The known grant has another subject, resource owner or provider than the registration. */
export class GrantConflict extends Schema.TaggedError<GrantConflict>()("GrantConflict", { id: GrantId }) {
  override get message() {
    return `the grant ${this.id} is known with another subject, resource owner or provider, or with other limits`
  }
}

/** The grant would have more scopes than `scopeLimits` allows. */
export class ScopesExceeded extends Schema.TaggedError<ScopesExceeded>()("ScopesExceeded", { id: GrantId }) {
  override get message() {
    return `the grant ${this.id} is not registered with these scopes: ${scopeBounds}`
  }
}

/** No client has this id. */
export class ClientNotFound extends Schema.TaggedError<ClientNotFound>()("ClientNotFound", { id: ClientId }) {
  override get message() {
    return `there is no client ${this.id}`
  }
}

/** No provider connection has this id. */
export class ProviderConnectionNotFound
  extends Schema.TaggedError<ProviderConnectionNotFound>()("ProviderConnectionNotFound", {
    id: ProviderConnectionId
  })
{
  override get message() {
    return `there is no provider connection ${this.id}`
  }
}

/** The credential names a grant that does not exist. */
export class GrantUnknown extends Schema.TaggedError<GrantUnknown>()("GrantUnknown", {}) {
  override get message() {
    return "there is no such grant"
  }
}

/** The grant was revoked or has expired: the owner must authorize the client again. */
export class GrantRevoked extends Schema.TaggedError<GrantRevoked>()("GrantRevoked", {
  reason: Schema.Literals(["revoked", "expired"])
}) {
  override get message() {
    return this.reason === "revoked" ? "the grant was revoked" : "the grant has expired"
  }
}

/** The client was deactivated. */
export class ClientInactive extends Schema.TaggedError<ClientInactive>()("ClientInactive", {}) {
  override get message() {
    return "the client of the grant is deactivated"
  }
}

/** The grant lacks the scope that the request needs. */
export class InsufficientScope extends Schema.TaggedError<InsufficientScope>()("InsufficientScope", {
  required: Scope
}) {
  override get message() {
    return `the grant lacks the scope ${this.required}`
  }
}

/** The provider connection of the grant is disconnected: the owner must connect the provider again. */
export class ProviderDisconnected extends Schema.TaggedError<ProviderDisconnected>()("ProviderDisconnected", {}) {
  override get message() {
    return "the provider connection of the grant is disconnected"
  }
}

/** The reasons for which a grant may not be used. */
export type GrantRefusal = GrantUnknown | GrantRevoked | ClientInactive | InsufficientScope | ProviderDisconnected

/**
 * Why a grant may not be used, or null if it may (specification, "Authentication" 4). The order of the checks is grant, client,
 * scope, provider connection. Without a scope, none is required.
 *
 * @internal
 */
export const refusal = (standing: GrantStanding, scope: Scope | null): GrantRefusal | null => {
  if (standing.revoked) return new GrantRevoked({ reason: "revoked" })
  if (standing.expired) return new GrantRevoked({ reason: "expired" })
  if (!standing.client_active) return new ClientInactive()
  if (scope !== null && !standing.scope_granted) return new InsufficientScope({ required: scope })
  if (!standing.provider_connected) return new ProviderDisconnected()
  return null
}

/** The standing of a grant for one of its credentials, which may have fewer scopes. @internal */
export const standingFor = (
  { limited_to }: GrantIdentity,
  standing: GrantStanding,
  scope: Scope | null
): GrantStanding =>
  scope === null || limited_to === undefined || limited_to.includes(scope)
    ? standing
    : { ...standing, scope_granted: false }

/** The standing of a grant at an instant, for stores of whole grants. A grant expires at `expires_at`. @internal */
export const standingAt = (grant: Grant, scope: Scope | null, now: DateTime.Utc): GrantStanding => ({
  revoked: grant.revoked_at !== null,
  expired: grant.expires_at.epochMilliseconds <= now.epochMilliseconds,
  client_active: grant.client_active,
  scope_granted: scope !== null && grant.scopes.includes(scope),
  provider_connected: grant.provider_connected
})

/**
 * A client id as the authorization server uses it: in its tokens and in its events. Grants and operations name the client by its
 * `ClientId`, so no call of the gateway takes this one. `gatewayClientId` converts it.
 */
export const IssuerClientId = Schema.String.pipe(Schema.brand("IssuerClientId"))
export type IssuerClientId = typeof IssuerClientId.Type

const isClientId = Schema.is(ClientId)

/** Whether ids of clients and owners can begin with this text: nothing, or a text that could be such an id itself. @internal */
export const isIdPrefix = (prefix: string): boolean => prefix === "" || isClientId(prefix)

/**
 * The client id of the gateway for a client of an authorization server. It is the client prefix of that issuer (empty where it
 * has none), and the id that the server uses. Null if the result is no client id, because it is empty, longer than 255 characters or
 * holds other than visible ASCII characters.
 */
export const gatewayClientId = (prefix: string, client: IssuerClientId): ClientId | null => {
  const id: string = prefix + client
  return isClientId(id) ? id : null
}

/**
 * A revocation by client matched nothing that the ledger knows: it has grants of the issuer, but none of this client; or, where no
 * issuer was named, no such client at all. The revocation is recorded all the same, and holds for grants of this client id
 * that are registered later. The usual cause is an id of the authorization server without the client prefix.
 */
export class UnmatchedRevocation extends Schema.TaggedError<UnmatchedRevocation>()("UnmatchedRevocation", {
  client_id: ClientId,
  issuer: Schema.NullOr(Issuer)
}) {
  override get message() {
    const known = this.issuer === null
      ? `there is no client ${this.client_id}`
      : `no grant of ${this.issuer} is of the client ${this.client_id}`
    return `the revocation matched no grant: ${known}. If the authorization server has a client_prefix, repeat the call with `
      + "the prefix in front of the client id. Otherwise do not repeat it: the revocation is recorded, unless a transaction of "
      + "yours rolls it back, and holds for grants of this client id that are registered later"
  }
}
