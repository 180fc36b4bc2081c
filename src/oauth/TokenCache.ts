/** Caches verified tokens for a short time: signatures and introspection responses, never the standing of a grant. */
import * as Cache from "effect/Cache"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import { type AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { isTimely, type VerifiedToken } from "./TokenClaims.ts"

/**
 * Verifies an access token for a resource of the gateway (`Credential.resource`). The audience must be that of the gateway, or
 * that resource. A result is good for the same resource only.
 */
export type VerifyToken = (
  token: Redacted.Redacted<string>,
  resource: string | null
) => Effect.Effect<VerifiedToken, InvalidCredential | AuthorizationUnavailable>

/** Most cached results. The least recently used one is removed first. */
const capacity = 10_000

/** Longest time that a result may be cached. */
export const longestTimeToLive: Duration.Duration = Duration.seconds(60)

const encoder = new TextEncoder()

/**
 * Makes a cache by names. The cache keeps its keys, so what only the lookup needs comes from the context of the request that has it run.
 * A name is a text, because Effect remembers the hash of each object in a map that outlives the request.
 */
export const makeNamedCache = Effect.fnUntraced(function*<Input, A, E>(
  lookup: (input: Input) => Effect.Effect<A, E>,
  options: { readonly capacity: number; readonly timeToLive: (exit: Exit.Exit<A, E>) => Duration.Input }
) {
  const Asked = Context.Service<{ readonly input: Input }>("financial-agents-gateway/oauth/TokenCache/Asked")
  const cache = yield* Cache.makeWith(
    (_name: string) => Effect.flatMap(Asked, ({ input }) => lookup(input)),
    { ...options, requireServicesAt: "lookup" }
  )
  return (name: string, input: Input): Effect.Effect<A, E> =>
    Effect.provideService(Cache.get(cache, name), Asked, { input })
})

/** A token for one resource is never found for another. */
const nameOf = (digest: string, resource: string | null) => resource === null ? digest : `${digest} ${resource}`

/** A verified token. `verifiedAt` is in milliseconds since the epoch. */
interface Result {
  readonly token: VerifiedToken
  readonly verifiedAt: number
}

const timeToLive = (longest: number, { token, verifiedAt }: Result): number =>
  Math.max(0, Math.min(longest, token.expires_at * 1000 - verifiedAt))

/**
 * Caches the results of `verify` for `timeToLive`, at most 60 seconds and never beyond the expiry of the token. Each use
 * checks the expiry. Failures are not cached. Concurrent requests with the same token for the same resource share one
 * verification.
 *
 * If `timeToLive` is zero, each request calls `verify`. Requests then share no running verification, because its answer may
 * be older than the request.
 */
export const makeTokenCache = Effect.fnUntraced(function*(
  verify: VerifyToken,
  settings: { readonly timeToLive: Duration.Input; readonly clockTolerance: number }
): Effect.fn.Return<VerifyToken, never, Digest.Digest> {
  const longest = Duration.toMillis(Duration.min(Duration.fromInputUnsafe(settings.timeToLive), longestTimeToLive))
  if (longest <= 0) return verify
  const digests = yield* Digest.Digest

  const lookup = (asked: Parameters<VerifyToken>) =>
    Effect.flatMap(
      Clock.currentTimeMillis,
      (verifiedAt) => Effect.map(verify(...asked), (token): Result => ({ token, verifiedAt }))
    )
  const find = yield* makeNamedCache(lookup, {
    capacity,
    timeToLive: (exit) => Exit.isSuccess(exit) ? timeToLive(longest, exit.value) : 0
  })
  const checked = ({ token }: Result) =>
    Effect.flatMap(
      Clock.currentTimeMillis,
      (now) => isTimely(token, settings, now / 1000) ? Effect.succeed(token) : Effect.fail(new InvalidCredential())
    )

  return (token, resource) =>
    digests.digestHex(Digest.sha256, encoder.encode(Redacted.value(token))).pipe(
      Effect.flatMap((digest) => find(nameOf(digest, resource), [token, resource])),
      Effect.flatMap(checked)
    )
})
