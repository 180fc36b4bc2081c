/**
 * Grants that the gateway learns of by the tokens that name them.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { InvalidCredential } from "../domain/Credential.ts"
import { ExternalId, type GrantIdentity, isGrantLifetime, Issuer, Provider, ResourceOwner } from "../domain/Grant.ts"
import type { VerifiedToken } from "../oauth/VerifiedToken.ts"
import { Grants } from "./Grants.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** What a token must say for its grant to be registered, and for how long the grant is good. */
export interface FirstSight {
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
export const firstSightFault = ({ grantLifetime = defaultLifetime }: FirstSight): string | null => {
  const lifetime = Duration.fromInputUnsafe(grantLifetime)
  return Duration.isGreaterThanOrEqualTo(lifetime, Duration.days(1)) && isGrantLifetime(lifetime)
    ? null
    : "Grants that tokens register must live for a day at least, and for a hundred years at most."
}

const defaultLifetime = Duration.days(90)

/** How many grants are remembered as registered, and for how long. */
const capacity = 10_000
const rememberedFor = Duration.toMillis("10 minutes")

const isOwner = Schema.is(ResourceOwner)
const isProvider = Schema.is(Provider)

/** Makes what registers the grant of a verified token, unless that was done lately. A revoked grant stays revoked. */
export const makeFirstSight = Effect.fnUntraced(function*(options: FirstSight) {
  const grants = yield* Grants
  const { grantLifetime = defaultLifetime, ownerClaim = "resource_owner", providerClaim = "provider" } = options
  const known = new Map<string, number>()

  const remember = (key: string, now: number) => {
    known.delete(key)
    known.set(key, now + rememberedFor)
    const [oldest] = known.keys()
    if (known.size > capacity) known.delete(oldest!)
  }

  return Effect.fnUntraced(function*(
    token: VerifiedToken,
    { client_id, grant_id, subject }: GrantIdentity
  ): Effect.fn.Return<void, InvalidCredential | StoreUnavailable> {
    const now = yield* DateTime.now
    const key = [grant_id, ...token.scopes.toSorted()].join(" ")
    if ((known.get(key) ?? 0) > now.epochMilliseconds) return
    const [resource_owner, provider] = [token.claims[ownerClaim], token.claims[providerClaim]]
    if (!isOwner(resource_owner) || !isProvider(provider)) {
      yield* Effect.annotateLogs(Effect.logWarning("A token names no resource owner or no provider"), {
        issuer: token.issuer,
        claims: [ownerClaim, providerClaim]
      })
      return yield* new InvalidCredential()
    }
    yield* grants.register({
      issuer: Issuer.make(token.issuer),
      grant: ExternalId.make(token.grant),
      client_id,
      subject,
      resource_owner,
      provider,
      scopes: token.scopes,
      expires_at: DateTime.addDuration(now, grantLifetime),
      granted_at: token.issued_at === null ? null : DateTime.makeUnsafe(token.issued_at * 1000),
      learned_from: "token"
    }).pipe(
      Effect.catchTag("GrantConflict", (conflict) =>
        Effect.andThen(
          Effect.annotateLogs(Effect.logWarning("A token contradicts what is known of its grant"), {
            issuer: token.issuer,
            grant_id: conflict.id
          }),
          Effect.fail(new InvalidCredential())
        ))
    )
    remember(key, now.epochMilliseconds)
  })
})
