/**
 * What every request of the console passes, after `AdminServer` has checked its `Host`:
 *
 * 1. `EveryRequest`: headers of every response, and failures as refusals;
 * 2. `SessionRequired`, for the API alone: the own page as its source, the session, and the anti-forgery token of each request that
 *    changes something.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import type { unhandled } from "effect/Types"
import { answerEndpointFailure, answerFailure } from "../../server/gate/FailureResponses.ts"
import { problemResponse, Problems } from "../../server/gate/ProblemResponses.ts"
import type { RequestHeaders } from "../../server/gate/RequestChecks.ts"
import { headersOfEveryResponse } from "../../server/gate/RequestContext.ts"
import { ConsoleAddress, type ConsoleAddressShape, readCookie } from "./access/ConsoleAddress.ts"
import { isSameSecret, type Session, Sessions } from "./access/Sessions.ts"
import { ConsoleAnswers, csrfHeader, refreshHeader } from "./ConsoleApi.ts"

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

/** Step 1. */
export const EveryRequest = HttpRouter.middleware(
  Effect.map(Problems, (problems) => (handled: Handled): Handled =>
    Effect.map(
      Effect.catchCause(handled, (cause) => answerFailure(problems, cause)),
      (response) => HttpServerResponse.setHeaders(response, { ...headersOfPages, ...response.headers })
    ))
)

/** Implements `ConsoleAnswers`. */
export const ConsoleAnswersLayer = Layer.effect(
  ConsoleAnswers,
  Effect.map(
    Problems,
    (problems) =>
      ConsoleAnswers.of((handled, options) =>
        Effect.catchCause(handled, (cause) => answerEndpointFailure(problems, cause, options))
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

/** Fails if no endpoint reads the body. Browsers name the length of a body. */
const refuseBody = (problems: Problems["Service"], method: string, headers: RequestHeaders) => {
  if (headers["transfer-encoding"] !== undefined) {
    return problems.fail("invalid_request", { fields: [{ path: "body", message: "Expected a Content-Length" }] })
  }
  if (Number(headers["content-length"] ?? 0) > maxBody) return problems.fail("payload_too_large")
  return method === "POST" && !/^application\/json(?:;|$)/i.test(headers["content-type"] ?? "")
    ? problems.fail("unsupported_media_type")
    : Effect.void
}

/** Step 2. */
export const SessionRequired = HttpRouter.middleware<{ provides: CurrentSession }>()(
  Effect.gen(function*() {
    const address = yield* ConsoleAddress
    const findSession = yield* makeFindSession
    const problems = yield* Problems
    const admit = Effect.gen(function*() {
      const request = yield* HttpServerRequest
      const { headers, method } = request
      // Before the session: a page of another origin must not learn whether there is one, nor prolong it.
      if (isForeign(address, method, headers)) return yield* problems.fail("foreign_origin")
      const session = yield* findSession(request)
      if (session === null) return yield* problems.fail("no_session")
      if (!changesNothing(method) && !isSameSecret(headers[csrfHeader] ?? "", session.csrfToken)) {
        return yield* problems.fail("wrong_csrf_token")
      }
      yield* refuseBody(problems, method, headers)
      return session
    })
    return (handled: Handled<CurrentSession>): Handled<HttpServerRequest> =>
      Effect.matchEffect(admit, {
        onFailure: (problem) => problemResponse(problem),
        onSuccess: (session) => Effect.provideService(handled, CurrentSession, session)
      })
  })
)
