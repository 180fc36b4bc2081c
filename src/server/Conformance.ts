/**
 * The outermost middleware of the contract: every failure of an endpoint becomes a complete problem.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import type { RouteContext } from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import Negotiator from "negotiator"
import { Conformance } from "../api/Middleware.ts"
import type { Problem } from "../api/Problems.ts"
import { failingFields } from "./Fields.ts"
import { hasBrokenJson } from "./JsonRequest.ts"
import { isProblem, problemResponse, Problems } from "./ProblemResponses.ts"
import { refuseTokenInQuery, withhold } from "./Refusals.ts"
import { CurrentRequest, withRequestContext } from "./RequestContext.ts"

/** JSON is always in UTF-8 (RFC 8259 §8.1), and some clients name the charset in `Accept`. */
const offered = ["application/json", "application/json;charset=utf-8"]

/** Whether a response in JSON meets the request's `Accept` (RFC 9110 §12.5.1). */
const acceptsJson = (request: HttpServerRequest): boolean => {
  const accept = request.headers["accept"]
  return accept === undefined || accept === "*/*" || accept === "application/json"
    // The negotiator's cost grows with the square of the length.
    || accept.length <= 1024 && new Negotiator({ headers: { accept } }).mediaType(offered) !== undefined
}

/** The problem of a failed endpoint. Failures without a problem of their own are logged and not shown to the client. */
const toProblem = (
  problems: Problems["Service"],
  cause: Cause.Cause<unknown>,
  endpoint: HttpApiEndpoint.Top
): Effect.Effect<never, Problem, HttpServerRequest | ParsedSearchParams | RouteContext> => {
  const error = Cause.squash(cause)
  if (isProblem(error)) return Effect.fail(error)
  if (!HttpApiSchemaError.is(error)) {
    return Effect.andThen(
      Effect.logError("Request failed with a defect", cause),
      problems.fail("internal_error")
    )
  }
  if (error.kind === "Body" || error.kind === "ResponseHeaders") return withhold(problems, error.cause)
  return Effect.gen(function*() {
    const fields = yield* failingFields(endpoint, error)
    const isBroken = error.kind === "Payload" && (yield* hasBrokenJson(yield* HttpServerRequest))
    return yield* problems.fail("invalid_request", {
      fields,
      ...isBroken ? { detail: "The body is not valid JSON." } : {}
    })
  })
}

const respond = <R>(failed: Effect.Effect<never, Problem, R>) =>
  Effect.catch(failed, (problem) => problemResponse(problem))

/**
 * Implements `Conformance`. Applications that mount the routes on a server of their own have no `edge`: then this layer
 * creates the request context.
 */
export const ConformanceLayer: Layer.Layer<Conformance, never, Problems | SecureRandom.SecureRandom> = Layer.effect(
  Conformance,
  Effect.gen(function*() {
    const problems = yield* Problems
    const withContext = withRequestContext(yield* SecureRandom.SecureRandom)

    return Conformance.of((httpEffect, { endpoint }) => {
      const answered = Effect.catchCause(httpEffect, (cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.failCause(cause as Cause.Cause<never>)
          : respond(toProblem(problems, cause, endpoint)))
      const conforming = Effect.contextWith((context: Context.Context<HttpServerRequest | ParsedSearchParams>) => {
        if ("access_token" in Context.get(context, ParsedSearchParams)) return respond(refuseTokenInQuery(problems))
        return acceptsJson(Context.get(context, HttpServerRequest))
          ? answered
          : respond(problems.fail("not_acceptable"))
      })
      return Effect.flatMap(CurrentRequest, (request) => request === null ? withContext(conforming) : conforming)
    })
  })
)
