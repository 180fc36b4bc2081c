/**
 * Finds the current keys of an authorization server (RFC 7517 §5). `CachedDocument` decides when they are fetched.
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { ServerFailure, withIssuer } from "../http/JsonExchange.ts"
import { makeCachedDocument, monotonicMillis } from "./CachedDocument.ts"
import type { IssuerSettings } from "./Issuer.ts"
import { makeKeySource } from "./KeySource.ts"

/** Finds keys by the header of a signature. */
export interface KeySet {
  /**
   * Finds the key for a header. Fails with `InvalidCredential` if there is no such key, or if the header has no `kid` and
   * several keys fit. Fails with `AuthorizationUnavailable` if the keys could not be fetched within a second, or if
   * several keys have that `kid`.
   */
  readonly find: (header: {
    readonly algorithm: string
    readonly kid: string | undefined
  }) => Effect.Effect<CryptoKey, InvalidCredential | AuthorizationUnavailable>
}

/**
 * Makes a key set. Keys are fresh for ten minutes. A search for an unknown key starts a fetch, at most one in 30 seconds. If
 * the fetch fails, yields no usable key, or takes more than a second, the keys of the last hour stay in use.
 */
export const makeKeySet = Effect.fnUntraced(function*(
  settings: Pick<IssuerSettings, "issuer" | "algorithms" | "jwksUri">
): Effect.fn.Return<KeySet, never, HttpClient.HttpClient> {
  const { issuer } = settings
  const client = yield* HttpClient.HttpClient
  const document = makeCachedDocument({
    issuer,
    what: "keys",
    fetch: Effect.provideService(makeKeySource(settings), HttpClient.HttpClient, client)
  })

  const candidates = (now: number, algorithm: string, kid: string | undefined): ReadonlyArray<CryptoKey> =>
    (document.usable(now) ?? []).filter((key) => key.algorithm === algorithm && (kid === undefined || key.kid === kid))
      .map(({ key }) => key)

  const unavailable = (cause: ServerFailure) => Effect.fail(new AuthorizationUnavailable({ cause }))
  const ambiguous = withIssuer(
    issuer,
    new ServerFailure({ reason: "its key set has several keys with the kid of a token", status: 200 })
  )

  return {
    find: Effect.fnUntraced(function*({ algorithm, kid }) {
      const now = yield* monotonicMillis
      const known = candidates(now, algorithm, kid)
      if (known.length === 1 && document.isFresh(now)) return known[0]!
      yield* document.refresh(now)
      const later = yield* monotonicMillis
      if (document.usable(later) === null) return yield* unavailable(document.failure())
      const found = candidates(later, algorithm, kid)
      if (found.length === 1) return found[0]!
      // A `kid` of several keys is an error of the server, so the token may be valid.
      if (found.length > 1 && kid !== undefined) return yield* unavailable(ambiguous)
      // While the newest key set is unknown, the key may be in it: the token must not be called invalid.
      return yield* document.isBehind() ? unavailable(document.failure()) : Effect.fail(new InvalidCredential())
    })
  }
})
