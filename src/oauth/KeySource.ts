/**
 * Fetches the keys of an authorization server.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import { exchangeJson, ServerFailure } from "../http/JsonExchange.ts"
import { discover, documentLimits } from "./Discovery.ts"
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
export const makeKeySource = (
  { algorithms, issuer, jwksUri }: Pick<IssuerSettings, "issuer" | "algorithms" | "jwksUri">
): Effect.Effect<ReadonlyArray<PublicKey>, ServerFailure, HttpClient.HttpClient> => {
  let discovered: { readonly uri: string; readonly at: bigint } | null = null

  const locate = Effect.fnUntraced(function*() {
    if (jwksUri !== null) return jwksUri
    const now = yield* Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos)
    if (discovered !== null && now - discovered.at < metadataFor) return discovered.uri
    const { jwks_uri } = yield* discover(issuer)
    if (jwks_uri === null) return yield* new ServerFailure({ reason: "its metadata names no key set", status: 200 })
    discovered = { uri: jwks_uri, at: now }
    return jwks_uri
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
