/**
 * Requests to an OpenID provider by `oauth4webapi`: its metadata, and what its failures mean. The sign-in to the console and CIBA use it.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as oauth from "oauth4webapi"
import { cappedFetch } from "../http/exchangeLimits.ts"
import { loopbackHosts } from "../http/OutgoingRequest.ts"

/** Milliseconds for which the metadata of the provider are used before they are read again. */
const metadataAge = 3_600_000

/** Milliseconds for one request to the provider. */
const defaultTimeout = 5000

const maxBody = 1_048_576

/** The provider did not answer, or not as OpenID Connect demands. `reason` is for the log, and holds nothing secret. */
export class IssuerUnavailable extends Data.TaggedError("IssuerUnavailable")<{ readonly reason: string }> {}

/** The provider refused the request, or its answer does not belong to it. */
export class IssuerRefused extends Data.TaggedError("IssuerRefused")<{
  readonly reason: string
  /** The error code of its answer (RFC 6749 §5.2). Null: the answer itself is not valid. */
  readonly error: string | null
}> {}

/** Codes of answers that are complete, and refuse or do not fit. */
const refusals = new Set<string>([
  oauth.AUTHORIZATION_RESPONSE_ERROR,
  oauth.RESPONSE_BODY_ERROR,
  oauth.INVALID_RESPONSE,
  oauth.JWT_TIMESTAMP_CHECK,
  oauth.JWT_CLAIM_COMPARISON,
  oauth.KEY_SELECTION,
  oauth.UNSUPPORTED_OPERATION
])

/** The failure without what the provider sent: messages of `oauth4webapi` are its own texts. */
const toFailure = (cause: unknown): IssuerUnavailable | IssuerRefused => {
  const code = cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : null
  if (code === null || !code.startsWith("OAUTH_")) {
    return new IssuerUnavailable({ reason: cause instanceof Error ? cause.name : "an unknown failure" })
  }
  if (cause instanceof oauth.ResponseBodyError && cause.status >= 500) {
    return new IssuerUnavailable({ reason: `status ${cause.status}` })
  }
  const error = cause instanceof oauth.ResponseBodyError && /^[\w.-]{1,64}$/.test(cause.error) ? cause.error : null
  const reason = error ?? (cause instanceof oauth.OperationProcessingError ? cause.message : code)
  return refusals.has(code) ? new IssuerRefused({ reason, error }) : new IssuerUnavailable({ reason })
}

/** Secrets go by https. A provider on this machine, such as one for tests, needs none. */
const isInsecure = (issuer: string): boolean =>
  issuer.startsWith("http://") && loopbackHosts.has(new URL(issuer).hostname)

/** The options of one request, with the time for it and the size of its answer. */
type RequestOptions = ReturnType<typeof optionsOf>

const optionsOf = (issuer: string, timeout: number, interruption: AbortSignal) => {
  const fetchCapped = cappedFetch(maxBody)
  return {
    [oauth.allowInsecureRequests]: isInsecure(issuer),
    [oauth.customFetch]: (url: string, init: object) => fetchCapped(url, { ...init, redirect: "manual" }),
    signal: () => AbortSignal.any([interruption, AbortSignal.timeout(timeout)])
  }
}

/** The provider, whose metadata are read when they are needed. */
export const makeOpenIdProvider = Effect.fnUntraced(function*(issuer: string) {
  const clock = yield* Clock.Clock
  let known: { readonly server: oauth.AuthorizationServer; readonly until: number } | null = null

  /** `timeout` in milliseconds, for each request of the exchange. */
  const exchange = <A>(run: (options: RequestOptions) => Promise<A>, timeout = defaultTimeout) =>
    Effect.tryPromise({ try: (signal) => run(optionsOf(issuer, timeout, signal)), catch: toFailure })

  const metadata = Effect.gen(function*() {
    if (known !== null && clock.currentTimeMillisUnsafe() < known.until) return known.server
    const url = new URL(issuer)
    const server = yield* exchange(async (options) =>
      oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, { ...options, algorithm: "oidc" }))
    ).pipe(Effect.mapError(({ reason }) => new IssuerUnavailable({ reason })))
    known = { server, until: clock.currentTimeMillisUnsafe() + metadataAge }
    return server
  })

  return { exchange, metadata }
})
