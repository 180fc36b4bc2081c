/** Finds the current keys of an authorization server (RFC 7517 §5). `CachedDocument` decides when they are fetched. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { exchangeJson, ServerFailure } from "../http/JsonExchange.ts"
import { discover, documentLimits, makeCachedDocument, monotonicMillis } from "./CachedDocument.ts"
import type { IssuerSettings } from "./Issuer.ts"
import { importPublicKey, type PublicKey } from "./PublicKey.ts"

/** How long a discovered `jwks_uri` is used, in nanoseconds: one hour. */
const metadataFor = 3_600_000_000_000n

/** Most keys that are imported. It bounds the cost of a fetch; authorization servers have fewer keys. */
const mostKeys = 100

/** Removes copies: a server may list one key several times, with different other members. */
const withoutCopies = (keys: ReadonlyArray<PublicKey>): ReadonlyArray<PublicKey> => {
  const isCopy = (a: PublicKey, b: PublicKey) =>
    a.kid === b.kid && a.algorithm === b.algorithm && a.material === b.material
  return keys.filter((key, at) => keys.findIndex((other) => isCopy(key, other)) === at)
}

/**
 * Fetches the keys that can verify signatures of these algorithms, and ignores all others. Fails if no key remains, because
 * a server that loses its keys does not thereby revoke its tokens. Metadata is read again after an hour, and after a
 * failed fetch.
 */
const makeKeySource = (
  { algorithms, issuer, jwksUri }: Pick<IssuerSettings, "issuer" | "algorithms" | "jwksUri">
): Effect.Effect<ReadonlyArray<PublicKey>, ServerFailure, HttpClient.HttpClient> => {
  let discovered: { readonly uri: string; readonly at: bigint } | null = null

  const locate = Effect.fnUntraced(function*() {
    if (jwksUri !== null) return jwksUri
    const now = yield* Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos)
    if (discovered !== null && now - discovered.at < metadataFor) return discovered.uri
    const uri = yield* discover(issuer, "jwks_uri")
    discovered = { uri, at: now }
    return uri
  })

  return Effect.gen(function*() {
    const client = yield* HttpClient.HttpClient
    const uri = yield* locate()
    const { keys } = yield* exchangeJson(client, HttpClientRequest.get(uri), documentLimits)
    if (!Array.isArray(keys)) return yield* new ServerFailure({ reason: "its key set has no keys", status: 200 })
    const imports = keys.slice(0, mostKeys).flatMap((jwk) => algorithms.map((one) => importPublicKey(jwk, one)))
    const usable = withoutCopies((yield* Effect.all(imports)).filter((key) => key !== null))
    if (usable.length > 0) return usable
    const reason = `its key set of ${keys.length} keys has no usable key for ${algorithms.join(", ")}`
    return yield* new ServerFailure({ reason, status: 200 })
  }).pipe(Effect.tapError(() =>
    Effect.sync(() => {
      discovered = null
    })
  ))
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
) {
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
    /** Fails with `AuthorizationUnavailable` if there are no keys, and none could be fetched within a second. */
    ready: Effect.gen(function*() {
      const now = yield* monotonicMillis
      if (document.usable(now) !== null) return
      yield* document.refresh(now)
      if (document.usable(yield* monotonicMillis) === null) yield* unavailable(document.failure())
    }),
    /**
     * Finds the keys for a header: one, or up to four that share its `kid`. The signature tells which of them was meant. Fails with
     * `InvalidCredential` if there is no such key, or if the header has no `kid` and several keys fit. Fails with
     * `AuthorizationUnavailable` if the keys could not be fetched within a second.
     */
    find: Effect.fnUntraced(function*(
      { algorithm, kid }: { readonly algorithm: string; readonly kid: string | undefined }
    ) {
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

export type KeySet = Effect.Success<ReturnType<typeof makeKeySet>>
