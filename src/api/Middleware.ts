/**
 * The middleware of the contract. An endpoint has one gate, which every request and response passes: `Gate` if it needs a
 * grant, else `OpenGate`. `server/gate/Gate` implements both.
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import type { GrantIdentity } from "../domain/Grant.ts"
import { responses } from "./Problems.ts"

/** The problems that every endpoint may answer with. */
const anywhere = [
  responses.badRequest,
  responses.notAcceptable,
  responses.requestTimeout,
  responses.payloadTooLarge,
  responses.uriTooLong,
  responses.unprocessableContent,
  responses.headersTooLarge,
  responses.internalError,
  responses.serviceUnavailable
] as const

/**
 * The gate of an endpoint that needs no grant. Each response gets the request id, and each failure becomes a complete
 * problem: invalid input, output that breaks the contract, and defects. Unless the endpoint declares a body, it refuses
 * one; without query parameters of its own, it refuses every query. Such a request was meant for another endpoint.
 */
export class OpenGate extends HttpApiMiddleware.Service<OpenGate>()("financial-agents-gateway/api/OpenGate", {
  error: anywhere
}) {}

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
 * handler, and run once for each scheme. `completeDocument` adds the schemes to the OpenAPI document.
 */
export class Gate extends HttpApiMiddleware.Service<Gate, { provides: CurrentGrant }>()(
  "financial-agents-gateway/api/Gate",
  {
    requiredForClient: true,
    error: [...anywhere, responses.unauthorized, responses.tooManyRequests]
  }
) {}
