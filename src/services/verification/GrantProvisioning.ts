/** Registers grants from the verified tokens that name them. */
import * as Cache from "effect/Cache"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import { AuthorizationDetails } from "../../domain/AuthorizationDetails.ts"
import { InvalidCredential } from "../../domain/Credential.ts"
import {
  ExternalId,
  type GrantId,
  type GrantIdentity,
  isGrantLifetime,
  isIdPrefix,
  Issuer,
  ProviderName,
  ResourceOwner,
  scopeBounds
} from "../../domain/Grant.ts"
import type { IssuerSettings } from "../../oauth/Issuer.ts"
import type { VerifiedToken } from "../../oauth/TokenClaims.ts"
import { type GrantRegistration, Grants } from "../Grants.ts"
import { hasOtherLimits } from "../rules/grantRules.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** Settings of grant provisioning: the claims that a token needs, and the lifetime of its grant. */
export interface GrantProvisioning {
  /** The claim that names the resource owner. Default: `resource_owner`. */
  readonly ownerClaim?: string
  /**
   * Prefix of the issuer's resource owners in the gateway. If several issuers provision grants, each needs one, so that equal names
   * at two issuers are two people. Issuers with the same prefix share their owners: give one only if equal names are one person.
   * Your events name an owner with its prefix. Default: none; an owner then equals the owner of that name in `Grants.issue`.
   */
  readonly ownerPrefix?: string
  /** The claim that names the provider. Default: `provider`. */
  readonly providerClaim?: string
  /**
   * How long a grant stays valid after its last token, or up to an hour less. At least one day; default: 90 days. Tokens
   * have their own expiry; this lifetime is for operations that continue between tokens. Events of the authorization server
   * override it (`GrantRegistration.learned_from`).
   */
  readonly grantLifetime?: Duration.Input
  /** Limits of each grant that its first token registers; limits of a token hold beside them. A grant that has limits keeps its own. */
  readonly authorizationDetails?: AuthorizationDetails
}

/** Returns what is invalid in the settings, as one sentence for the operator; null if they are valid. */
export const validateGrantProvisioning = (
  { authorizationDetails, grantLifetime = defaultLifetime, ownerPrefix = "" }: GrantProvisioning
): string | null => {
  if (!isIdPrefix(ownerPrefix)) return "An owner prefix must be visible ASCII characters, at most 255."
  if (authorizationDetails !== undefined && !isDetails(authorizationDetails)) {
    return "The limits of grants that tokens register must be valid authorization_details (docs/spending.md)."
  }
  const lifetime = Duration.fromInputUnsafe(grantLifetime)
  return Duration.isGreaterThanOrEqualTo(lifetime, Duration.days(1)) && isGrantLifetime(lifetime)
    ? null
    : "Grants that tokens register must live for a day at least, and for a hundred years at most."
}

const defaultLifetime = Duration.days(90)

/** Most cached registrations, and how long each is cached. */
const capacity = 10_000
const timeToLive = Duration.minutes(10)

const isDetails = Schema.is(AuthorizationDetails)
const isOwner = Schema.is(ResourceOwner)
const isProvider = Schema.is(ProviderName)

/** Equal tokens share one registration. A token that contradicts its grant by owner or provider is not taken for a registered one. */
const nameOf = (id: GrantId, { provider, resource_owner, scopes }: GrantRegistration): string =>
  // None of these contains a blank.
  [id, resource_owner, provider, ...scopes.toSorted()].join(" ")

/**
 * The latest possible grant time: `iat` or now, less the clock tolerance. Both the clock of `iat` and that of the gateway may
 * be ahead of the clock that dates revocations.
 */
const latestGrantTime = (
  { issued_at }: VerifiedToken,
  now: DateTime.Utc,
  clockTolerance: number
): DateTime.Utc | null =>
  issued_at === null
    ? null
    : DateTime.subtract(DateTime.min(DateTime.makeUnsafe(issued_at * 1000), now), { seconds: clockTolerance })

/** Registers a grant. Logs a conflict and too many scopes, and fails with `InvalidCredential`. */
const registerOrRefuse = (grants: Grants["Service"], registration: GrantRegistration) => {
  const refuse = (warning: string) => ({ id }: { readonly id: GrantId }) =>
    Effect.andThen(
      Effect.annotateLogs(Effect.logWarning(warning), { issuer: registration.issuer, grant_id: id }),
      Effect.fail(new InvalidCredential())
    )
  return grants.register(registration).pipe(
    Effect.tap((grant) =>
      hasOtherLimits(grant, registration)
        ? Effect.annotateLogs(
          Effect.logWarning("The grant keeps its limits, which differ from those of the settings"),
          {
            issuer: registration.issuer,
            grant_id: grant.grant_id
          }
        )
        : Effect.void
    ),
    Effect.catchTags({
      InvalidAuthorizationDetails: ({ message }) => Effect.fail(new InvalidCredential({ reason: message })),
      GrantConflict: refuse("Token refused: it contradicts the registered grant"),
      ScopesExceeded: refuse(`Token refused for its scopes: ${scopeBounds}`)
    }),
    Effect.asVoid
  )
}

/**
 * Makes a cache by names. The cache keeps its keys, so what only the lookup needs comes from the context of the request that has it run.
 * A name is a text, because Effect remembers the hash of each object in a map that outlives the request.
 */
const makeNamedCache = Effect.fnUntraced(function*<Input, A, E>(
  lookup: (input: Input) => Effect.Effect<A, E>,
  options: { readonly capacity: number; readonly timeToLive: (exit: Exit.Exit<A, E>) => Duration.Input }
) {
  const Asked = Context.Service<{ readonly input: Input }>(
    "financial-agents-gateway/services/verification/GrantProvisioning/Asked"
  )
  const cache = yield* Cache.makeWith(
    (_name: string) => Effect.flatMap(Asked, ({ input }) => lookup(input)),
    { ...options, requireServicesAt: "lookup" }
  )
  return (name: string, input: Input): Effect.Effect<A, E> =>
    Effect.provideService(Cache.get(cache, name), Asked, { input })
})

/**
 * Makes the registration of the grant of a verified token. Equal tokens share one registration for ten minutes. A revoked
 * grant stays revoked. Registering fails with `InvalidCredential` if the token names no owner or provider, contradicts its
 * grant, or has too many scopes.
 */
export const makeGrantProvisioning = Effect.fnUntraced(function*(
  options: GrantProvisioning,
  { clockTolerance }: Pick<IssuerSettings, "clockTolerance">
) {
  const grants = yield* Grants
  const {
    authorizationDetails,
    grantLifetime = defaultLifetime,
    ownerClaim = "resource_owner",
    ownerPrefix = "",
    providerClaim = "provider"
  } = options

  const register = yield* makeNamedCache(
    (registration: GrantRegistration) => registerOrRefuse(grants, registration),
    { capacity, timeToLive: (exit) => Exit.isSuccess(exit) ? timeToLive : 0 }
  )

  return Effect.fnUntraced(function*(
    token: VerifiedToken,
    { client_id, grant_id, subject }: GrantIdentity
  ): Effect.fn.Return<void, InvalidCredential | StoreUnavailable> {
    const now = yield* DateTime.now
    const [owner, provider] = [token.claims[ownerClaim], token.claims[providerClaim]]
    const resource_owner = isOwner(owner) ? ownerPrefix + owner : null
    if (!isOwner(resource_owner) || !isProvider(provider)) {
      yield* Effect.annotateLogs(Effect.logWarning("Token refused: it names no resource owner or no provider"), {
        issuer: token.issuer,
        claims: [ownerClaim, providerClaim]
      })
      return yield* new InvalidCredential()
    }
    const registration: GrantRegistration = {
      issuer: Issuer.make(token.issuer),
      grant: ExternalId.make(token.grant),
      client_id,
      subject,
      resource_owner,
      provider,
      scopes: token.scopes,
      expires_at: DateTime.addDuration(now, grantLifetime),
      granted_at: latestGrantTime(token, now, clockTolerance),
      learned_from: "token",
      ...authorizationDetails === undefined ? {} : { authorization_details: authorizationDetails }
    }
    yield* register(nameOf(grant_id, registration), registration)
  })
})
