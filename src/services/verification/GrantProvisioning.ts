/**
 * Grants that the gateway learns of by the tokens that name them.
 */
import * as Cache from "effect/Cache"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Hash from "effect/Hash"
import * as Schema from "effect/Schema"
import { InvalidCredential } from "../../domain/Credential.ts"
import {
  ExternalId,
  type GrantId,
  type GrantIdentity,
  isGrantLifetime,
  Issuer,
  Provider,
  ResourceOwner,
  scopeBounds
} from "../../domain/Grant.ts"
import type { IssuerSettings } from "../../oauth/Issuer.ts"
import type { VerifiedToken } from "../../oauth/VerifiedToken.ts"
import { type GrantRegistration, Grants } from "../Grants.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** What a token must say for its grant to be registered, and for how long the grant is good. */
export interface GrantProvisioning {
  /** The claim that names the resource owner. Default: `resource_owner`. */
  readonly ownerClaim?: string
  /** The claim that names the provider. Default: `provider`. */
  readonly providerClaim?: string
  /**
   * How long a grant stays good after a token last showed it, or up to an hour less. A day at least; default: 90 days.
   * Tokens expire by themselves; this is for the work that goes on between them. Events of the authorization server have
   * the last word on the end of a grant (`GrantRegistration.learned_from`).
   */
  readonly grantLifetime?: Duration.Input
}

/** What is wrong with the settings, as a sentence; or null. */
export const validateGrantProvisioning = ({ grantLifetime = defaultLifetime }: GrantProvisioning): string | null => {
  const lifetime = Duration.fromInputUnsafe(grantLifetime)
  return Duration.isGreaterThanOrEqualTo(lifetime, Duration.days(1)) && isGrantLifetime(lifetime)
    ? null
    : "Grants that tokens register must live for a day at least, and for a hundred years at most."
}

const defaultLifetime = Duration.days(90)

/** How many sightings are remembered, and for how long. */
const capacity = 10_000
const rememberedFor = Duration.minutes(10)

const isOwner = Schema.is(ResourceOwner)
const isProvider = Schema.is(Provider)

/**
 * What a token shows of a grant: tokens of one sighting say the same of it, so that one of them speaks for all. Owner and
 * provider are part of it, lest a token that contradicts what is known be taken for one that was seen.
 */
class RegistrationKey implements Equal.Equal {
  readonly name: string
  /** Forgotten once it is used. */
  registration: GrantRegistration | null

  constructor(id: GrantId, registration: GrantRegistration) {
    const { provider, resource_owner, scopes } = registration
    // No name has a blank within.
    this.name = [id, resource_owner, provider, ...scopes.toSorted()].join(" ")
    this.registration = registration
  }

  [Equal.symbol](that: unknown): boolean {
    return that instanceof RegistrationKey && that.name === this.name
  }

  [Hash.symbol](): number {
    return Hash.string(this.name)
  }
}

/**
 * When a token shows its grant to have been given, at the latest: its `iat` is of a clock that may be ahead of the one by
 * which revocations are dated, and so may be the clock here.
 */
const grantedAt = ({ issued_at }: VerifiedToken, now: DateTime.Utc, clockTolerance: number): DateTime.Utc | null =>
  issued_at === null
    ? null
    : DateTime.subtract(DateTime.min(DateTime.makeUnsafe(issued_at * 1000), now), { seconds: clockTolerance })

/**
 * Makes what registers the grant of a verified token, unless that was done lately. Tokens that show the same at the same
 * time share one registration. A revoked grant stays revoked.
 */
export const makeGrantProvisioning = Effect.fnUntraced(function*(
  options: GrantProvisioning,
  { clockTolerance }: Pick<IssuerSettings, "clockTolerance">
) {
  const grants = yield* Grants
  const { grantLifetime = defaultLifetime, ownerClaim = "resource_owner", providerClaim = "provider" } = options

  const register = (registration: GrantRegistration) => {
    const refuse = (warning: string) => ({ id }: { readonly id: GrantId }) =>
      Effect.andThen(
        Effect.annotateLogs(Effect.logWarning(warning), { issuer: registration.issuer, grant_id: id }),
        Effect.fail(new InvalidCredential())
      )
    return grants.register(registration).pipe(
      Effect.catchTags({
        GrantConflict: refuse("A token contradicts what is known of its grant"),
        ScopesExceeded: refuse(`A token is refused for its scopes: ${scopeBounds}`)
      })
    )
  }
  const sightings = yield* Cache.makeWith(
    (sighting: RegistrationKey) => {
      const registration = sighting.registration!
      sighting.registration = null
      return Effect.asVoid(register(registration))
    },
    { capacity, timeToLive: (exit) => Exit.isSuccess(exit) ? rememberedFor : 0 }
  )

  return Effect.fnUntraced(function*(
    token: VerifiedToken,
    { client_id, grant_id, subject }: GrantIdentity
  ): Effect.fn.Return<void, InvalidCredential | StoreUnavailable> {
    const now = yield* DateTime.now
    const [resource_owner, provider] = [token.claims[ownerClaim], token.claims[providerClaim]]
    if (!isOwner(resource_owner) || !isProvider(provider)) {
      yield* Effect.annotateLogs(Effect.logWarning("A token names no resource owner or no provider"), {
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
      granted_at: grantedAt(token, now, clockTolerance),
      learned_from: "token"
    }
    yield* Cache.get(sightings, new RegistrationKey(grant_id, registration))
  })
})
