/**
 * A grant: what a resource owner allowed a client to do, under which pairwise subject, through which provider binding.
 */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

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
export const ProviderBindingId = Uuid.pipe(Schema.brand("ProviderBindingId"))
export type ProviderBindingId = typeof ProviderBindingId.Type

/** The party to whom the money belongs. Internal: it never leaves the gateway. */
export const ResourceOwner = identifier("Resource owner").pipe(Schema.brand("ResourceOwner"))
export type ResourceOwner = typeof ResourceOwner.Type

/** The owner as one client knows it (OpenID Connect Core §8.1): no two clients can compare subjects. */
export const PairwiseSubject = identifier("Pairwise subject").pipe(Schema.brand("PairwiseSubject"))
export type PairwiseSubject = typeof PairwiseSubject.Type

/** The OAuth client, that is: the agent. */
export const ClientId = identifier("Client").pipe(Schema.brand("ClientId"))
export type ClientId = typeof ClientId.Type

/** The upstream provider, such as a bank or a broker, by the name that the deployment gives it. */
export const Provider = identifier("Provider").pipe(Schema.brand("Provider"))
export type Provider = typeof Provider.Type

/** A scope token (RFC 6749 §3.3). */
export const Scope = Schema.String.check(
  Schema.isPattern(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/u, { expected: "a scope token of RFC 6749" })
).pipe(Schema.brand("Scope"))
export type Scope = typeof Scope.Type

/** What reading operations requires (specification, "Authentication"). */
export const operationsRead = Scope.make("operations:read")

/** Whether a grant may live for so long: at most a hundred years, because dates end somewhere. */
export const isGrantLifetime = (lifetime: Duration.Duration): boolean =>
  Duration.isLessThanOrEqualTo(lifetime, Duration.days(36_525))

/**
 * What a verified credential says of the grant: who asks, and nothing that may change. Whether the grant is still good
 * is checked in the same statement as the read (see `refusal`).
 */
export type GrantIdentity = Pick<Grant, "grant_id" | "client_id" | "subject">

/** A grant as its operator sees it. */
export const Grant = Schema.Struct({
  grant_id: GrantId,
  resource_owner: ResourceOwner,
  subject: PairwiseSubject,
  client_id: ClientId,
  client_active: Schema.Boolean,
  provider_binding_id: ProviderBindingId,
  provider: Provider,
  provider_connected: Schema.Boolean,
  scopes: Schema.Array(Scope),
  created_at: Schema.DateTimeUtcFromString,
  expires_at: Schema.DateTimeUtcFromString,
  revoked_at: Schema.NullOr(Schema.DateTimeUtcFromString)
})
export type Grant = typeof Grant.Type

/** The facts of one snapshot on which a grant's standing depends. */
export interface GrantStanding {
  readonly revoked: boolean
  readonly expired: boolean
  readonly client_active: boolean
  readonly scope_granted: boolean
  readonly provider_connected: boolean
}

/** The credential names a grant that does not exist. */
export class GrantUnknown extends Schema.TaggedError<GrantUnknown>()("GrantUnknown", {}) {
  override get message() {
    return "there is no such grant"
  }
}

/** The grant was revoked or has expired: the owner must authorize the client anew. */
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

/** The provider binding of the grant is disconnected: the owner must connect the provider again. */
export class ProviderDisconnected extends Schema.TaggedError<ProviderDisconnected>()("ProviderDisconnected", {}) {
  override get message() {
    return "the provider binding of the grant is disconnected"
  }
}

/** Why a grant may not be used. */
export type GrantRefusal = GrantUnknown | GrantRevoked | ClientInactive | InsufficientScope | ProviderDisconnected

/**
 * The rule of the specification ("Authentication" 4), in the order in which the checks run: grant, client, scope,
 * provider. Without a scope none is asked for. Returns why the grant may not be used, or null when it may.
 */
export const refusal = (standing: GrantStanding, scope: Scope | null): GrantRefusal | null => {
  if (standing.revoked) return new GrantRevoked({ reason: "revoked" })
  if (standing.expired) return new GrantRevoked({ reason: "expired" })
  if (!standing.client_active) return new ClientInactive()
  if (scope !== null && !standing.scope_granted) return new InsufficientScope({ required: scope })
  if (!standing.provider_connected) return new ProviderDisconnected()
  return null
}

/** The standing of a grant at an instant, for stores that hold whole grants. A grant expires at `expires_at`. */
export const standingAt = (grant: Grant, scope: Scope | null, now: DateTime.Utc): GrantStanding => ({
  revoked: grant.revoked_at !== null,
  expired: grant.expires_at.epochMilliseconds <= now.epochMilliseconds,
  client_active: grant.client_active,
  scope_granted: scope !== null && grant.scopes.includes(scope),
  provider_connected: grant.provider_connected
})
