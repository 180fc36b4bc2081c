/**
 * Finds the current keys of an authorization server (RFC 7517 §5). `CachedDocument` decides when they are fetched.
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import type { ServerFailure } from "../http/JsonExchange.ts"
import { makeCachedDocument, monotonicMillis } from "./CachedDocument.ts"
import type { IssuerSettings } from "./Issuer.ts"
import { makeKeySource } from "./KeySource.ts"

/** Finds keys by the header of a signature. */
export interface KeySet {
  /**
   * Finds the keys for a header: one, or up to four that share its `kid`. The signature tells which of them was meant. Fails with
   * `InvalidCredential` if there is no such key, or if the header has no `kid` and several keys fit. Fails with
   * `AuthorizationUnavailable` if the keys could not be fetched within a second.
   */
  readonly find: (header: {
    readonly algorithm: string
    readonly kid: string | undefined
  }) => Effect.Effect<ReadonlyArray<CryptoKey>, InvalidCredential | AuthorizationUnavailable>
}

/**
 * Most keys that share a `kid` and are tried. A `kid` is a hint, and keys of a set only SHOULD have distinct ones (RFC 7515 §4.1.4,
 * RFC 7517 §4.5). Appendix D of RFC 7515 tries each key, up to a limit: without one, a forged token could cost 100 verifications.
 */
const mostTried = 4

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

  const candidates = (now: number, algorithm: string, kid: string | undefined): ReadonlyArray<CryptoKey> => {
    const keys = (document.usable(now) ?? []).filter((key) =>
      key.algorithm === algorithm && (kid === undefined || key.kid === kid)
    )
    return kid === undefined && keys.length > 1 ? [] : keys.slice(0, mostTried).map(({ key }) => key)
  }

  const unavailable = (cause: ServerFailure) => Effect.fail(new AuthorizationUnavailable({ cause }))

  return {
    find: Effect.fnUntraced(function*({ algorithm, kid }) {
      const now = yield* monotonicMillis
      const known = candidates(now, algorithm, kid)
      if (known.length > 0 && document.isFresh(now)) return known
      yield* document.refresh(now)
      const later = yield* monotonicMillis
      if (document.usable(later) === null) return yield* unavailable(document.failure())
      const found = candidates(later, algorithm, kid)
      if (found.length > 0) return found
      // While the newest key set is unknown, the key may be in it: the token must not be called invalid.
      return yield* document.isBehind() ? unavailable(document.failure()) : Effect.fail(new InvalidCredential())
    })
  }
})
