/** New grants, and what registrations change of known ones. */
import * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import {
  AuthorizationDetails,
  decodeAuthorizationDetails,
  financialOperations,
  InvalidAuthorizationDetails
} from "../../domain/AuthorizationDetails.ts"
import { accessTokenDigest, generateAccessToken } from "../../domain/Credential.ts"
import {
  areScopesBounded,
  type ClientId,
  type ExternalId,
  type Grant,
  GrantId,
  isGrantLifetime,
  type Issuer,
  type PairwiseSubject,
  ProviderConnectionId,
  scopeBounds
} from "../../domain/Grant.ts"
import type {
  ClientGrants,
  ExternalGrant,
  ExternalSubject,
  GrantRegistration,
  GrantRequest
} from "../../domain/GrantRequest.ts"

/** Fails with `InvalidAuthorizationDetails` if the limits of a grant cannot be held, or limit nothing. */
export const checkLimits = Effect.fnUntraced(function*(details: AuthorizationDetails | undefined) {
  if (details !== undefined && (yield* decodeAuthorizationDetails(details)) === null) {
    return yield* new InvalidAuthorizationDetails({
      message: `authorization_details: Expected an object of the type ${financialOperations}`
    })
  }
})

/** Prepares a new grant: its ids, its access token and the digest of the token. Reads and writes no store. */
export const newGrant = Effect.fnUntraced(function*(request: GrantRequest) {
  if (!isGrantLifetime(request.expires_in)) {
    return yield* Effect.die(new RangeError("a grant lives for a hundred years at most"))
  }
  if (!areScopesBounded(request.scopes)) return yield* Effect.die(new RangeError(scopeBounds))
  yield* checkLimits(request.authorization_details)
  const access_token = yield* generateAccessToken
  return {
    access_token,
    digest: yield* accessTokenDigest(yield* Digest.Digest, Redacted.value(access_token)),
    grant_id: GrantId.make(yield* SecureRandom.SecureRandom.use((random) => random.uuidV7())),
    new_connection_id: yield* newProviderConnectionId
  }
})

/** An id for a provider connection, unless the store knows the connection already. */
export const newProviderConnectionId = Effect.map(
  SecureRandom.SecureRandom.use((random) => random.uuidV7()),
  (id) => ProviderConnectionId.make(id)
)

/**
 * A token moves the end of a grant only by more than this. Each use of a token computes a later end, so otherwise each use
 * would write.
 */
const leastExtension = Duration.hours(1)

/** The members of a grant that registrations may change. */
type Registered = Pick<Grant, "scopes" | "expires_at" | "registered_by_event_at" | "authorization_details">

/** A known grant after a registration: the same object if the registration changes nothing. */
export const mergeRegistration = <G extends Registered>(
  known: G,
  registration: GrantRegistration,
  now: DateTime.Utc
): G => {
  const merged = registration.learned_from === "token"
    ? mergeToken(known, registration)
    : mergeEvent(known, registration, now)
  const { authorization_details } = registration
  return authorization_details === undefined || known.authorization_details !== undefined
    ? merged
    : { ...merged, authorization_details }
}

export const isSameLimits = Schema.toEquivalence(AuthorizationDetails)

/** Whether a registration names other limits than those of the known grant. */
export const hasOtherLimits = (
  { authorization_details: known }: Pick<Grant, "authorization_details">,
  { authorization_details: given }: GrantRegistration
): boolean => known !== undefined && given !== undefined && !isSameLimits(known, given)

/** After an event no token changes the grant, because a token may be older than the event. */
const mergeToken = <G extends Registered>(known: G, { expires_at, scopes }: GrantRegistration): G => {
  const added = scopes.filter((scope) => !known.scopes.includes(scope))
  const isLater = DateTime.isGreaterThan(expires_at, DateTime.addDuration(known.expires_at, leastExtension))
  return known.registered_by_event_at !== undefined || (added.length === 0 && !isLater)
    ? known
    : { ...known, scopes: [...known.scopes, ...added], expires_at: DateTime.max(known.expires_at, expires_at) }
}

const mergeEvent = <G extends Registered>(
  known: G,
  { expires_at, scopes }: GrantRegistration,
  now: DateTime.Utc
): G => {
  const isKnown = known.registered_by_event_at !== undefined && DateTime.Equivalence(known.expires_at, expires_at)
    && known.scopes.join(" ") === scopes.join(" ")
  return isKnown
    ? known
    : { ...known, scopes, expires_at, registered_by_event_at: known.registered_by_event_at ?? now }
}

/** Whether the scopes of the grant are within the limits after a registration. `known` is undefined for a new grant. */
export const fitsScopes = (
  known: Registered | undefined,
  registration: GrantRegistration,
  now: DateTime.Utc
): boolean =>
  areScopesBounded((known === undefined ? registration : mergeRegistration(known, registration, now)).scopes)

/** Whether a registration has the identity of the known grant, and an event its limits, too. Neither ever changes. */
export const isSameGrant = (known: Grant, registration: GrantRegistration): boolean => {
  const { learned_from, provider, resource_owner, subject } = registration
  return known.resource_owner === resource_owner && known.subject === subject && known.provider === provider
    && (learned_from === "token" || !hasOtherLimits(known, registration))
}

/** A revocation of one grant, or of all grants of a subject, of a client at an issuer, or of a client. */
export interface RevocationNames {
  readonly client_id: ClientId
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly subject: PairwiseSubject | null
}

/** The revocations of `Grants` by the names of the grants. */
export const revocationsBy = <E>(revokeAll: (names: RevocationNames) => Effect.Effect<number, E>) => ({
  revokeExternal: Effect.fn("Grants.revokeExternal")(({ client_id, grant, issuer }: ExternalGrant) =>
    revokeAll({ client_id, issuer, external_id: grant, subject: null })
  ),
  revokeSubject: Effect.fn("Grants.revokeSubject")(({ client_id, issuer, subject }: ExternalSubject) =>
    revokeAll({ client_id, issuer, external_id: null, subject })
  ),
  revokeClient: Effect.fn("Grants.revokeClient")(({ client_id, issuer = null }: ClientGrants) =>
    revokeAll({ client_id, issuer, external_id: null, subject: null })
  )
})
