/**
 * Where an authorization server is asked about tokens.
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { ServerFailure } from "../http/JsonExchange.ts"
import { discover } from "./Discovery.ts"
import { makeKept, monotonicMillis } from "./KeptDocument.ts"

export interface IntrospectionEndpoint {
  /** The endpoint that the metadata of the last hour names. */
  readonly locate: Effect.Effect<string, ServerFailure>
  /** Has the metadata read again, because the endpoint may have moved. Nothing waits for it. */
  readonly lookAgain: Effect.Effect<void>
  /**
   * Asks the server for its metadata: a question without a token. Null where the endpoint is configured, because the
   * server need not have metadata then, or not where the gateway reaches it.
   */
  readonly probe: Effect.Effect<unknown, ServerFailure> | null
}

const findEndpoint = Effect.fnUntraced(function*(issuer: string) {
  const { introspection_endpoint: found } = yield* discover(issuer)
  if (found !== null) return found
  return yield* new ServerFailure({ reason: "its metadata names no introspection endpoint", status: 200 })
})

/**
 * Finds the endpoint by metadata, unless it is configured. Metadata is read again after ten minutes, beside the questions
 * of the time; metadata that cannot be read, is of another issuer or names no endpoint does not replace what was found.
 */
export const makeEndpoint = (
  { endpoint, issuer }: { readonly endpoint: string | null; readonly issuer: string },
  client: HttpClient.HttpClient
): IntrospectionEndpoint => {
  if (endpoint !== null) return { locate: Effect.succeed(endpoint), lookAgain: Effect.void, probe: null }
  const find = Effect.provideService(findEndpoint(issuer), HttpClient.HttpClient, client)
  const kept = makeKept({
    issuer,
    what: "metadata",
    fetch: find,
    retriesAtOnce: 2
  })
  return {
    locate: Effect.gen(function*() {
      const now = yield* monotonicMillis
      const known = kept.usable(now)
      if (known !== null) return yield* Effect.as(kept.isFresh(now) ? Effect.void : kept.begin(now), known)
      yield* kept.refresh(now)
      return kept.usable(yield* monotonicMillis) ?? (yield* kept.failure())
    }),
    lookAgain: Effect.flatMap(monotonicMillis, kept.begin),
    probe: find
  }
}
