/**
 * The middleware of the contract, in the reverse of the order in which a request passes it: conformance, admission,
 * authorization, strict request. `src/server` implements each in the file of its name.
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import type { GrantIdentity } from "../domain/Grant.ts"
import { responses } from "./Problems.ts"

/**
 * Refuses a body, because no endpoint takes one, and query parameters on endpoints that have none. Such a request was
 * meant for another endpoint.
 */
export class StrictRequest extends HttpApiMiddleware.Service<StrictRequest>()(
  "financial-agents-gateway/api/StrictRequest",
  { error: responses.unprocessableContent }
) {}

/** The identity of the grant that the credential of the request names. */
export class CurrentGrant extends Context.Service<CurrentGrant, GrantIdentity>()(
  "financial-agents-gateway/api/CurrentGrant"
) {}

/**
 * Verifies the credential before the parameters of the request are validated. It does not check the standing of the
 * grant, its client and its provider connection: that may change until the read, so the read itself checks it.
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

/**
 * Refuses requests while the gateway is saturated or shutting down, and those that the store does not answer in time.
 */
export class Admission extends HttpApiMiddleware.Service<Admission>()("financial-agents-gateway/api/Admission", {
  error: responses.serviceUnavailable
}) {}

/**
 * Adds the request id to each response, and makes each failure a complete problem: invalid input, output that breaks
 * the contract, and defects.
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
