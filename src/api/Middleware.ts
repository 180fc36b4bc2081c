/**
 * The middleware of the contract. An endpoint has one gate, which every request and response passes: `Gate` if it needs a
 * grant, else `OpenGate`. `server/gate/Gate` implements both.
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import type { OpenAPISecurityScheme } from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import type { GrantIdentity } from "../domain/Grant.ts"
import { RequestId } from "../domain/RequestId.ts"
import { problems, quotaHeaders } from "./Problems.ts"

/** The problems that every endpoint may answer with. */
const anywhere = [
  "malformed_request",
  "payload_too_large",
  "uri_too_long",
  "invalid_request",
  "internal_error",
  "response_contract_failed"
] as const

/** What a gate adds to the contract of its endpoints. */
export interface GateContract {
  readonly requestHeaders: Schema.Struct.Fields
  /** The headers of every response. */
  readonly responseHeaders: Schema.Struct.Fields
  /** How a client presents its credential. */
  readonly securitySchemes: Readonly<Record<string, OpenAPISecurityScheme>>
}

const open: GateContract = {
  requestHeaders: {
    "X-Request-Id": Schema.optionalKey(RequestId.annotate({
      description: "Id to correlate the request with. Unsafe values are replaced by a generated UUID."
    }))
  },
  responseHeaders: {
    "X-Request-Id": RequestId.annotate({ description: "Correlates the response with the server's logs." })
  },
  securitySchemes: {}
}

/**
 * The gate of an endpoint that needs no grant. Each response gets the request id, and each failure becomes a complete
 * problem: invalid input, output that breaks the contract, and defects. Unless the endpoint declares a body, it refuses
 * one; without query parameters of its own, it refuses every query. Such a request was meant for another endpoint.
 *
 * An endpoint behind it checks `Accept` only if it declares `not_acceptable`. One that reads a body, or whose handler waits, declares
 * `request_timeout` and `service_unavailable` itself, and one that reads a body also `unsupported_media_type`: the gate refuses any other
 * media type than those of its payloads.
 */
export class OpenGate extends HttpApiMiddleware.Service<OpenGate>()("financial-agents-gateway/api/OpenGate", {
  error: problems(...anywhere)
}) {
  static readonly contract = open
}

/** The identity of the grant that the credential of the request names. */
export class CurrentGrant extends Context.Service<CurrentGrant, GrantIdentity>()(
  "financial-agents-gateway/api/CurrentGrant"
) {}

/**
 * The gate of an endpoint that needs a grant. It does what `OpenGate` does. It refuses requests while the gateway is saturated
 * or shutting down, and those that the store does not answer in time. It verifies the credential before the parameters of
 * the request are validated. It does not check the standing of the grant, its client and its provider connection: that may
 * change until the read, so the read itself checks it.
 *
 * It reads the credential itself and is no security middleware of `HttpApiMiddleware`: those see only wrapped failures of the
 * handler, and run once for each scheme.
 */
export class Gate extends HttpApiMiddleware.Service<Gate, { provides: CurrentGrant }>()(
  "financial-agents-gateway/api/Gate",
  {
    requiredForClient: true,
    error: problems(
      ...anywhere,
      "not_acceptable",
      "missing_credentials",
      "invalid_token",
      "invalid_dpop_proof",
      "use_dpop_nonce",
      "rate_limited",
      "service_unavailable",
      "authorization_unavailable"
    )
  }
) {
  static readonly contract: GateContract = {
    requestHeaders: open.requestHeaders,
    responseHeaders: {
      ...open.responseHeaders,
      // Only with quotas.
      RateLimit: Schema.optionalKey(quotaHeaders.RateLimit),
      "RateLimit-Policy": Schema.optionalKey(quotaHeaders["RateLimit-Policy"])
    },
    securitySchemes: {
      bearer: {
        type: "http",
        scheme: "bearer",
        description: "An access token (RFC 6750), where it is bound to no sender."
      },
      dpop: {
        type: "http",
        scheme: "DPoP",
        description:
          "An access token that is bound to a key, with a proof of that key for this request in the DPoP header (RFC 9449)."
      }
    }
  }
}
