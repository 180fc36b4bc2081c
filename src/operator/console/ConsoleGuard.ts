/**
 * What every request of the console passes, after `AdminServer` has checked its `Host`:
 *
 * 1. `EveryRequest`: headers of every response, and failures as refusals;
 * 2. `SessionRequired`, for the API alone: the own page as its source, the session, and the anti-forgery token of each request that
 *    changes something.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { unhandled } from "effect/Types"
import type { RequestHeaders } from "../../server/gate/RequestChecks.ts"
import { headersOfEveryResponse } from "../../server/gate/RequestContext.ts"
import { ConsoleAddress, type ConsoleAddressShape, readCookie } from "./access/ConsoleAddress.ts"
import { isSameSecret } from "./access/secrets.ts"
import { type Session, Sessions } from "./access/Sessions.ts"
import { csrfHeader, refreshHeader } from "./ConsoleApi.ts"
import {
  foreignOrigin,
  internalError,
  invalidRequest,
  noSession,
  notJson,
  tooLarge,
  wrongCsrfToken
} from "./refusals.ts"

type Response = HttpServerResponse.HttpServerResponse

type Handled<R = never> = Effect.Effect<Response, unhandled, R>

/** The session of the request. */
export class CurrentSession extends Context.Service<CurrentSession, Session>()(
  "financial-agents-gateway/operator/console/CurrentSession"
) {}

/** Scripts, styles and requests of the own origin alone, nothing inline, and no frames. */
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
  + "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const headersOfPages = {
  ...headersOfEveryResponse,
  "content-security-policy": contentPolicy,
  "cross-origin-opener-policy": "same-origin"
}

/** The refusal of a failed request. Failures without one of their own are logged. */
const answerFailure = (cause: Cause.Cause<unknown>): Effect.Effect<Response> => {
  // The client has left, or the process ends.
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause as Cause.Cause<never>)
  const error = Cause.squash(cause)
  if (HttpApiSchemaError.is(error) && error.kind !== "Body") return Effect.succeed(invalidRequest)
  return Effect.as(Effect.logError("Request of the console failed", cause), internalError)
}

/** Step 1. */
export const EveryRequest = HttpRouter.middleware(
  Effect.succeed((handled: Handled): Handled =>
    Effect.map(
      Effect.catchCause(handled, answerFailure),
      (response) => HttpServerResponse.setHeaders(response, { ...headersOfPages, ...response.headers })
    )
  )
)

const changesNothing = (method: string): boolean => method === "GET" || method === "HEAD"

/**
 * Whether a page of another origin made the request, as far as the browser tells. A request that changes something must have an
 * `Origin`. Browsers also send the session with requests of pages of other ports.
 */
const isForeign = (address: ConsoleAddressShape, method: string, headers: RequestHeaders): boolean => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined && site !== "same-origin" && !(site === "none" && changesNothing(method))) return true
  const { origin } = headers
  return origin === undefined ? !changesNothing(method) : origin !== address.originFor(headers)
}

/** Whether the page makes the request by itself, such as after an event. An `EventSource` connects again by itself. */
const isAutomatic = (headers: RequestHeaders): boolean =>
  headers[refreshHeader] !== undefined || headers["accept"] === "text/event-stream"

/** The session of a request: that of its cookie. Null: it has none. */
export const makeFindSession = Effect.gen(function*() {
  const address = yield* ConsoleAddress
  const sessions = yield* Sessions
  return ({ headers }: HttpServerRequest): Effect.Effect<Session | null> => {
    const id = readCookie(address, headers, "session")
    return id === null
      ? Effect.succeed(null)
      : sessions.find(id, { prolongs: !isAutomatic(headers) })
  }
})

/** Largest body, in bytes. The reason of an action has 1,024 characters. */
const maxBody = 16_384

/** The refusal of a body that no endpoint reads. Null: the endpoint may read it. Browsers name the length of a body. */
const refuseBody = (method: string, headers: RequestHeaders): Response | null => {
  if (headers["transfer-encoding"] !== undefined) return invalidRequest
  if (Number(headers["content-length"] ?? 0) > maxBody) return tooLarge
  return method === "POST" && !/^application\/json(?:;|$)/i.test(headers["content-type"] ?? "") ? notJson : null
}

/** Step 2. */
export const SessionRequired = HttpRouter.middleware<{ provides: CurrentSession }>()(
  Effect.gen(function*() {
    const address = yield* ConsoleAddress
    const findSession = yield* makeFindSession
    return (handled: Handled<CurrentSession>): Handled<HttpServerRequest> =>
      Effect.gen(function*() {
        const request = yield* HttpServerRequest
        const { headers, method } = request
        // Before the session: a page of another origin must not learn whether there is one, nor prolong it.
        if (isForeign(address, method, headers)) return foreignOrigin
        const session = yield* findSession(request)
        if (session === null) return noSession
        if (!changesNothing(method) && !isSameSecret(headers[csrfHeader] ?? "", session.csrfToken)) {
          return wrongCsrfToken
        }
        return refuseBody(method, headers) ?? (yield* Effect.provideService(handled, CurrentSession, session))
      })
  })
)
