/** Caches verified tokens for a short time: signatures and introspection responses, never the standing of a grant. */
import * as Clock from "effect/Clock"
import * as Digest from "effect/crypto/Digest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
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

/** A token for one resource is never found for another. */
const nameOf = (digest: string, resource: string | null) => resource === null ? digest : `${digest} ${resource}`

/** A verified token, and until when it is used, in milliseconds since the epoch. */
interface Result {
  readonly token: VerifiedToken
  readonly until: number
}

/**
 * Caches the results of `verify` for `timeToLive`, at most 60 seconds and never beyond the expiry of the token. Each use
 * checks the expiry. Failures are not cached. If `timeToLive` is zero, each request calls `verify`.
 *
 * Simultaneous requests with one token share no running verification: what `verify` waits for limits them, each as one request.
 */
export const makeTokenCache = Effect.fnUntraced(function*(
  verify: VerifyToken,
  settings: { readonly timeToLive: Duration.Input; readonly clockTolerance: number }
): Effect.fn.Return<VerifyToken, never, Digest.Digest> {
  const longest = Duration.toMillis(Duration.min(Duration.fromInputUnsafe(settings.timeToLive), longestTimeToLive))
  if (longest <= 0) return verify
  const digests = yield* Digest.Digest
  /** The least recently used one is the first. */
  const results = new Map<string, Result>()

  const keep = (name: string, result: Result) => {
    results.delete(name)
    results.set(name, result)
    if (results.size > capacity) results.delete(results.keys().next().value!)
  }

  return Effect.fnUntraced(function*(redacted, resource) {
    const digest = yield* digests.digestHex(Digest.sha256, encoder.encode(Redacted.value(redacted)))
    const name = nameOf(digest, resource)
    const before = yield* Clock.currentTimeMillis
    const kept = results.get(name)
    const isKept = kept !== undefined && before < kept.until
    const token = isKept ? kept.token : yield* verify(redacted, resource)
    keep(name, isKept ? kept : { token, until: Math.min(before + longest, token.expires_at * 1000) })
    const now = yield* Clock.currentTimeMillis
    return isTimely(token, settings, now / 1000) ? token : yield* new InvalidCredential()
  })
})
