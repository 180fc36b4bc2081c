/**
 * The implementations of the contract's middleware: see `api/Middleware` for what each promises.
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
import { Admission, Conformance, StrictRequest } from "../api/Middleware.ts"
import type { Problem } from "../api/Problems.ts"
import { bringsSurplus, failingFields } from "./Fields.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { isProblem, problemResponse, Problems } from "./ProblemResponses.ts"
import { refuseTokenInQuery } from "./Refusals.ts"
import { CurrentRequest, withRequestContext } from "./RequestContext.ts"

/** JSON is in UTF-8 always (RFC 8259 §8.1), and some clients ask for it by name. */
const offered = ["application/json", "application/json;charset=utf-8"]

/** Whether a response in JSON meets the request's `Accept` (RFC 9110 §12.5.1). */
const acceptsJson = (request: HttpServerRequest): boolean => {
  const accept = request.headers["accept"]
  return accept === undefined || accept === "*/*" || accept === "application/json"
    // The negotiator's cost grows with the square of the length.
    || accept.length <= 1024 && new Negotiator({ headers: { accept } }).mediaType(offered) !== undefined
}

/** See `Conformance`. Gives requests their context where no server did so before. */
export const ConformanceLayer: Layer.Layer<Conformance, never, Problems | SecureRandom.SecureRandom> = Layer.effect(
  Conformance,
  Effect.gen(function*() {
    const problems = yield* Problems
    const withContext = withRequestContext(yield* SecureRandom.SecureRandom)

    /** What went wrong, as a problem. What we cannot explain is logged, and told to nobody. */
    const toProblem = (
      cause: Cause.Cause<unknown>,
      endpoint: HttpApiEndpoint.Top
    ): Effect.Effect<never, Problem, HttpServerRequest | ParsedSearchParams | RouteContext> => {
      const error = Cause.squash(cause)
      if (isProblem(error)) return Effect.fail(error)
      if (!HttpApiSchemaError.is(error)) {
        return Effect.andThen(
          Effect.logError("A request failed with a defect", cause),
          problems.fail("internal_error")
        )
      }
      if (error.kind === "Body" || error.kind === "ResponseHeaders") {
        return Effect.andThen(
          Effect.logError("A response broke the contract and was withheld", Cause.fail(error.cause)),
          problems.fail("response_contract_failed")
        )
      }
      return Effect.flatMap(failingFields(endpoint, error), (fields) => problems.fail("invalid_request", { fields }))
    }

    const respond = <R>(failed: Effect.Effect<never, Problem, R>) =>
      Effect.catch(failed, (problem) => problemResponse(problem))

    return Conformance.of((httpEffect, { endpoint }) => {
      const answered = Effect.catchCause(httpEffect, (cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.failCause(cause as Cause.Cause<never>)
          : respond(toProblem(cause, endpoint)))
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

/** See `Admission`; the limits are those of `Lifecycle`. */
export const AdmissionLayer: Layer.Layer<Admission, never, Lifecycle | Problems> = Layer.effect(
  Admission,
  Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    const problems = yield* Problems
    return Admission.of((httpEffect) =>
      lifecycle.admit(
        Effect.timeoutOrElse(httpEffect, {
          duration: lifecycle.options.deadline,
          orElse: () => problems.fail("service_unavailable", { detail: "The store did not answer in time." })
        }),
        problems.fail("service_unavailable", {
          detail: "The gateway takes no more requests for the moment."
        })
      )
    )
  })
)

/** See `StrictRequest`. */
export const StrictRequestLayer: Layer.Layer<StrictRequest, never, Problems> = Layer.effect(
  StrictRequest,
  Effect.map(Problems, (problems) =>
    StrictRequest.of((httpEffect, { endpoint }) => {
      const refuse = Effect.flatMap(failingFields(endpoint), (fields) => problems.fail("invalid_request", { fields }))
      return Effect.contextWith((context: Context.Context<HttpServerRequest | ParsedSearchParams>) => {
        const surplus = bringsSurplus(
          endpoint,
          Context.get(context, HttpServerRequest),
          Context.get(context, ParsedSearchParams)
        )
        return Effect.andThen(surplus ? refuse : Effect.void, httpEffect)
      })
    }))
)
