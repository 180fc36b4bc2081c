/**
 * Finds the introspection endpoint of an authorization server.
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { ServerFailure } from "../http/JsonExchange.ts"
import { makeCachedDocument, monotonicMillis } from "./CachedDocument.ts"
import { discover } from "./Discovery.ts"

/** The introspection endpoint of one issuer. */
export interface IntrospectionEndpoint {
  /** Yields the configured endpoint, or that of metadata which was fetched in the last hour. */
  readonly locate: Effect.Effect<string, ServerFailure>
  /** Starts to fetch the metadata again in the background, because the endpoint may have moved. */
  readonly rediscover: Effect.Effect<void>
  /**
   * Fetches the metadata: a probe without a token. Null if the endpoint is configured, because the server may then have no
   * metadata that the gateway can reach.
   */
  readonly probe: Effect.Effect<unknown, ServerFailure> | null
}

const findEndpoint = Effect.fnUntraced(function*(issuer: string) {
  const { introspection_endpoint: found } = yield* discover(issuer)
  if (found !== null) return found
  return yield* new ServerFailure({ reason: "its metadata names no introspection endpoint", status: 200 })
})

/**
 * Finds the endpoint in the metadata, unless it is configured. Metadata is fetched again after ten minutes, and requests do
 * not wait for it. Metadata that cannot be read, is of another issuer or names no endpoint does not replace the last one.
 */
export const makeIntrospectionEndpoint = (
  { endpoint, issuer }: { readonly endpoint: string | null; readonly issuer: string },
  client: HttpClient.HttpClient
): IntrospectionEndpoint => {
  if (endpoint !== null) return { locate: Effect.succeed(endpoint), rediscover: Effect.void, probe: null }
  const find = Effect.provideService(findEndpoint(issuer), HttpClient.HttpClient, client)
  const endpointInUse = makeCachedDocument({
    issuer,
    what: "metadata",
    fetch: find,
    retriesAtOnce: 2
  })
  return {
    locate: Effect.gen(function*() {
      const now = yield* monotonicMillis
      const known = endpointInUse.usable(now)
      if (known !== null) {
        return yield* Effect.as(endpointInUse.isFresh(now) ? Effect.void : endpointInUse.startFetch(now), known)
      }
      yield* endpointInUse.refresh(now)
      return endpointInUse.usable(yield* monotonicMillis) ?? (yield* endpointInUse.failure())
    }),
    rediscover: Effect.flatMap(monotonicMillis, endpointInUse.startFetch),
    probe: find
  }
}
