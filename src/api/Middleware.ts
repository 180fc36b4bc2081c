/**
 * What every endpoint of the gateway promises beyond its own contract. A request passes these from the last to the
 * first: conformance, admission, authorization, strict request.
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import type { GrantIdentity } from "../domain/Grant.ts"
import { responses } from "./Problems.ts"

/**
 * Refuses what an endpoint does not take: a body, which none takes, and a query where there are no parameters. A request
 * that brings one was meant for something else.
 */
export class StrictRequest extends HttpApiMiddleware.Service<StrictRequest>()(
  "financial-agents-gateway/api/StrictRequest",
  { error: responses.unprocessableContent }
) {}

/** The identity of the grant whose credential came with the request. */
export class CurrentGrant extends Context.Service<CurrentGrant, GrantIdentity>()(
  "financial-agents-gateway/api/CurrentGrant"
) {}

/**
 * Verifies the credential, before the shape of the request is looked at. What it cannot know, because it may change
 * until the read, is checked by the read: whether the grant, its client and its provider connection are still good.
 */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: CurrentGrant }>()(
  "financial-agents-gateway/api/Authorization",
  {
    requiredForClient: true,
    security: {
      bearer: HttpApiSecurity.bearer.pipe(
        HttpApiSecurity.annotate(OpenApi.Description, "An access token (RFC 6750), where it is bound to no sender.")
      ),
      dpop: HttpApiSecurity.http({ scheme: "DPoP" }).pipe(
        HttpApiSecurity.annotate(
          OpenApi.Description,
          "An access token that is bound to a key, with a proof of that key for this request in the DPoP header (RFC 9449)."
        )
      )
    },
    error: [
      responses.badRequest,
      responses.unauthorized,
      responses.tooManyRequests,
      responses.serviceUnavailable
    ]
  }
) {}

/** Turns requests away while the gateway is saturated or shutting down, and answers in time when its store does not. */
export class Admission extends HttpApiMiddleware.Service<Admission>()("financial-agents-gateway/api/Admission", {
  error: responses.serviceUnavailable
}) {}

/**
 * Each response carries the request id, and each failure is a complete problem: input that does not fit the contract,
 * output that does not, and defects.
 */
export class Conformance extends HttpApiMiddleware.Service<Conformance>()("financial-agents-gateway/api/Conformance", {
  error: [
    responses.badRequest,
    responses.notAcceptable,
    responses.requestTimeout,
    responses.payloadTooLarge,
    responses.uriTooLong,
    responses.unprocessableContent,
    responses.headersTooLarge,
    responses.internalError,
    responses.serviceUnavailable
  ]
}) {}
