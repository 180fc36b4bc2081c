/**
 * A typed client of any API behind the gateway's middleware: the gateway's own, or that of an application.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import { checkAccessToken } from "../client/ReadRules.ts"
import { Gate } from "./Middleware.ts"
import { noteRetryAfter, repeated } from "./RepeatedCalls.ts"

/** The address of the service, and the access token. */
export interface ClientOptions {
  /** Base URL of the service, such as `https://gateway.example`. */
  readonly baseUrl: string
  /**
   * The access token. An effect runs for each request, so that it can renew an expired token. A token that no header can carry
   * is a defect.
   */
  readonly accessToken: Redacted.Redacted<string> | Effect.Effect<Redacted.Redacted<string>>
}

const bearer = (accessToken: ClientOptions["accessToken"]) =>
  HttpApiMiddleware.layerClient(
    Gate,
    ({ next, request }) =>
      Effect.flatMap(
        Effect.isEffect(accessToken) ? accessToken : Effect.succeed(accessToken),
        (token) => {
          checkAccessToken(Redacted.value(token))
          return next(HttpClientRequest.bearerToken(request, token))
        }
      )
  )

/**
 * Makes typed calls from a contract: `client.payments.pay({ headers, payload })`. Each call carries the access token.
 * A problem fails the call as its class, so `Effect.catchTag("IdempotencyKeyReused", …)` handles one. Provide an
 * `HttpClient`, such as `FetchHttpClient.layer`.
 */
export const makeClient = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  { accessToken, baseUrl }: ClientOptions
): Effect.Effect<
  HttpApiClient.Client<Groups>,
  never,
  | HttpClient.HttpClient
  | Exclude<HttpApiGroup.MiddlewareClient<Groups>, HttpApiMiddleware.ForClient<Gate>>
> =>
  HttpApiClient.make(api, {
    transformClient: (client) => noteRetryAfter(HttpClient.mapRequest(client, HttpClientRequest.prependUrl(baseUrl)))
  }).pipe(Effect.provide(bearer(accessToken)))

/**
 * Submits a financial request: repeats the call after a retryable problem, and after a lost connection, when `Retry-After` and a random
 * time have passed. Each repetition is the same request with the same `Idempotency-Key`, so the work is accepted once:
 *
 *     submit(client.payments.pay({ headers: { "idempotency-key": key }, payload }))
 *
 * Choose the key before the first attempt, and store it: a later process repeats the request with it. The last attempt
 * begins when `within` has passed, by default one minute, and its error fails the call. Whether the request was recorded is unknown
 * after `ServiceUnavailable` and after a lost connection: repeat it later with the same key.
 */
export const submit = <A, E, R>(
  call: Effect.Effect<A, E, R>,
  options: { readonly within?: Duration.Input } = {}
): Effect.Effect<A, E, R> =>
  repeated(() => call, {
    // A request may take longer than a read.
    answerTime: Infinity,
    within: Duration.toSeconds(options.within ?? "1 minute")
  })
