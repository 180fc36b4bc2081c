/**
 * The room `server/gate`: what each request passes before a handler runs. It imports no other room of the server. Read this file first.
 *
 * The gate of the endpoints. A request passes its steps from the outside in:
 *
 * 1. request context, if no `edge` has created it;
 * 2. every failure from here on becomes a complete problem, and a response that breaks the contract is withheld;
 * 3. no token in the query;
 * 4. a slot, and the deadline (`Admission`);
 * 5. from the credential to the grant, and the limits of its client (`Authorization`);
 * 6. an `Accept` that JSON meets, or the page of an endpoint that has pages, unless the endpoint does not declare `not_acceptable`; no
 *    body that the endpoint does not declare, nor one of another media type, and no query where it has none. A declared body is read on
 *    demand, without a slot (`RequestBody`).
 *
 * `OpenGate` leaves out steps 4 and 5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpMethod from "effect/http/HttpMethod"
import { RouteContext } from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import type { unhandled } from "effect/Types"
import { HasPages } from "../../api/HasPages.ts"
import { type CurrentGrant, Gate, OpenGate } from "../../api/Middleware.ts"
import { codesOf, type ProblemOf } from "../../api/Problems.ts"
import { RequestIds } from "../../services/RequestIds.ts"
import type { GrantVerifier } from "../../services/verification/GrantVerifier.ts"
import { makeAdmit } from "./Admission.ts"
import { makeAuthorize } from "./Authorization.ts"
import type { BaseUrl } from "./BaseUrl.ts"
import { answerEndpointFailure, respond } from "./FailureResponses.ts"
import { bringsSurplus, findInvalidFields, type Options, refuseFields } from "./InvalidFields.ts"
import type { Lifecycle } from "./Lifecycle.ts"
import { Problems } from "./ProblemResponses.ts"
import { refuseTokenInQuery } from "./Refusals.ts"
import { makeGuardBody } from "./RequestBody.ts"
import { acceptsJson, mediaTypeOf, preferredForm, type RequestHeaders } from "./RequestChecks.ts"
import { CurrentRequest, hasEmptyParameter, makeBeginRequest, variesByAccept } from "./RequestContext.ts"

type FromRouter = HttpServerRequest | ParsedSearchParams | RouteContext

type Responding<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>

type RefusedShape = ProblemOf<"invalid_request" | "not_acceptable" | "unsupported_media_type">

const declaresBody = ({ payload }: HttpApiEndpoint.Top): boolean => payload.size > 0

const make = Effect.gen(function*() {
  const authorize = yield* makeAuthorize
  const admit = yield* makeAdmit
  const problems = yield* Problems
  const guardBody = yield* makeGuardBody
  const begin = makeBeginRequest(yield* RequestIds)

  /** Steps 1 to 3. */
  const guard = <E, R>(httpEffect: Responding<E, R>, options: Options): Responding<never, R | FromRouter> => {
    const hasPages = Context.get(options.endpoint.annotations, HasPages)
    const answered = Effect.catchCause(httpEffect, (cause) => answerEndpointFailure(problems, cause, options))
    let known: object | null = null
    let names: ReadonlyArray<string> = []
    const check = (context: Context.Context<FromRouter>): Responding<never, R | FromRouter> => {
      const { params, route } = Context.get(context, RouteContext)
      // All requests of a route have the same names.
      if (route !== known) {
        known = route
        names = Object.keys(params)
      }
      if (hasEmptyParameter(params, names)) return respond(problems.fail("route_not_found"))
      if ("access_token" in Context.get(context, ParsedSearchParams)) return respond(refuseTokenInQuery(problems))
      return answered
    }
    const checked = Effect.contextWith(check)
    const guarded = hasPages ? Effect.map(checked, variesByAccept) : checked
    const inContext = Effect.withFiber<HttpServerResponse.HttpServerResponse, never, R | FromRouter>((fiber) =>
      Effect.map(guarded, begin(fiber).finish)
    )
    return Effect.contextWith((context: Context.Context<FromRouter>) =>
      Context.get(context, CurrentRequest) === null ? inContext : hasPages ? guarded : check(context)
    )
  }

  /** Step 6. An endpoint decodes a body that it declares itself. */
  const checkShape = <E, R>(
    httpEffect: Responding<E, R>,
    options: Options
  ): Responding<E | RefusedShape, R | FromRouter> => {
    const { endpoint } = options
    const types = declaresBody(endpoint) ? endpoint.payload : null
    // Middleware that declares this problem checks media type and query in an order of its own. Without a body, the payload is the query.
    const isChecked = codesOf({ error: new Set(), middlewares: endpoint.middlewares }).has("unsupported_media_type")
    const decodesAll = types !== null && (isChecked || !HttpMethod.hasBody(endpoint.method))
    const isAcceptable = !codesOf(endpoint).has("not_acceptable")
      ? () => true
      : Context.get(endpoint.annotations, HasPages)
      ? (headers: RequestHeaders) => preferredForm(headers) !== null
      : acceptsJson
    const unacceptable = problems.fail("not_acceptable")
    const refusedType = problems.fail("unsupported_media_type", {
      detail: `The endpoint reads ${
        [...types?.keys() ?? []].join(", ")
      }. The Content-Type of the request is another one.`
    })
    const refused = Effect.flatMap(findInvalidFields(options), (fields) => refuseFields(problems, fields))
    return Effect.contextWith((
      context: Context.Context<FromRouter>
    ): Responding<E | RefusedShape, R | FromRouter> => {
      const request = Context.get(context, HttpServerRequest)
      if (!isAcceptable(request.headers)) return unacceptable
      if (decodesAll) return httpEffect
      if (types !== null && !types.has(mediaTypeOf(request.headers))) return refusedType
      return bringsSurplus(endpoint, request, Context.get(context, ParsedSearchParams)) ? refused : httpEffect
    })
  }

  const gate = (httpEffect: Responding<unhandled, CurrentGrant>, options: Options) => {
    const strict = checkShape(httpEffect, options)
    const readsBody = declaresBody(options.endpoint)
    const admitted = admit((admitted, context: Context.Context<FromRouter>) => {
      const request = Context.get(context, HttpServerRequest)
      if (readsBody) guardBody(request, admitted.slot)
      return authorize(admitted, request, Context.get(context, CurrentRequest)?.path ?? "/", strict)
    })
    return guard(admitted, options)
  }

  const openGate = <E, R>(httpEffect: Responding<E, R>, options: Options) => {
    const strict = checkShape(httpEffect, options)
    const guarded = Effect.flatMap(HttpServerRequest, (request) => {
      guardBody(request, null)
      return strict
    })
    return guard(declaresBody(options.endpoint) ? guarded : strict, options)
  }

  return Context.make(Gate, Gate.of(gate)).pipe(Context.add(OpenGate, OpenGate.of(openGate)))
})

/** Implements `Gate` and `OpenGate`, for the endpoints of the gateway and of applications. */
export const GateLayer: Layer.Layer<
  Gate | OpenGate,
  never,
  BaseUrl | GrantVerifier | Lifecycle | RequestIds
> = Layer.provide(Layer.effectContext(make), Problems.layer)
