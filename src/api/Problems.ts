/**
 * The error bodies of the service (RFC 9457). The gateway's own endpoints have one schema class for each HTTP status, and
 * mutation endpoints one for each code. Endpoints declare them through `responses`.
 */
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { RequestId } from "../domain/RequestId.ts"
import { type ProblemCode, problemKinds } from "./ProblemKinds.ts"

/** One field that failed validation (specification, "ProblemField"). */
export const ProblemField = Schema.Struct({
  message: Schema.String.check(Schema.isMinLength(1)).annotate({
    description: "Human-readable validation failure."
  }),
  path: Schema.String.check(Schema.isMinLength(1)).annotate({
    description: "Dot-delimited path to the invalid field."
  })
}).annotate({ identifier: "ProblemField" })
export type ProblemField = typeof ProblemField.Type

const fieldsFor = <Status extends number, Code extends string>(status: Status, codes: ReadonlyArray<Code>) => ({
  type: Schema.String.annotate({ format: "uri", description: "Stable URL that identifies the problem class." }),
  title: Schema.String.check(Schema.isMinLength(1)),
  status: Schema.Literal(status),
  detail: Schema.String.check(Schema.isMinLength(1)).annotate({ description: "What happened this time." }),
  instance: Schema.String.check(Schema.isPattern(/^\/.*/u)).annotate({ description: "Path of the request." }),
  code: Schema.Literals(codes).annotate({ description: "Stable machine-readable error code." }),
  fields: Schema.NullOr(Schema.Array(ProblemField)).annotate({
    description: "What failed field by field; null when the problem is not about fields."
  }),
  request_id: RequestId,
  retryable: Schema.Boolean.annotate({ description: "Whether repeating the identical request can safely succeed." }),
  submission_uncertain: Schema.Boolean.annotate({
    description: "Whether an upstream write may have landed and must not be resubmitted. Never true for a read."
  })
})

type CodesOf<Status extends number> = {
  [Code in ProblemCode]: (typeof problemKinds)[Code]["status"] extends Status ? Code : never
}[ProblemCode]

/** The members of a problem that its message shows. */
interface Described {
  readonly title: string
  readonly detail: string
  readonly code: string
  readonly request_id: string
}

/**
 * Gives the class its tag, and errors of it a message for logs and terminals. The prototype holds both, so no body of a problem
 * has a member `_tag` or `message`.
 */
const withTag = <Class>(name: string, Class: Class): Class => {
  Object.defineProperties((Class as { readonly prototype: object }).prototype, {
    _tag: { value: name },
    message: {
      get(this: Described) {
        return `${this.title}: ${this.detail} (${this.code}, request ${this.request_id})`
      }
    }
  })
  return Class
}

/**
 * The error class of some codes of one status. An endpoint may declare several classes of a status: `code` tells them
 * apart. Programs tell classes apart by `_tag`, which is the name of the class: `Effect.catchTag("NotFound", …)`.
 */
const problem =
  <Self>() =>
  <const Name extends string, const Status extends number, const Code extends CodesOf<Status>>(
    name: Name,
    status: Status,
    codes: ReadonlyArray<Code>
  ) =>
    withTag(
      name,
      Schema.Error<Self, { readonly _tag: Name }>(name)(
        Schema.Struct(fieldsFor(status, codes)).annotate({ identifier: `${name}Problem` }),
        { httpApiStatus: status, description: codes.map((code) => problemKinds[code].title).join(", or ") }
      )
    )

/** 400: the request is malformed. */
export class BadRequest extends problem<BadRequest>()("BadRequest", 400, ["malformed_request"]) {}
/** 401, with a challenge (RFC 6750 §3). */
export class Unauthorized extends problem<Unauthorized>()("Unauthorized", 401, [
  "missing_credentials",
  "invalid_token",
  "invalid_dpop_proof",
  "use_dpop_nonce",
  "grant_revoked",
  "client_inactive"
]) {}
/** 403, with a challenge (RFC 6750 §3). */
export class Forbidden extends problem<Forbidden>()("Forbidden", 403, [
  "insufficient_scope",
  "provider_disconnected"
]) {}
/** 403: a page of a foreign origin sent the request. Only `/mcp` answers with it. */
export class OriginNotAllowed extends problem<OriginNotAllowed>()("OriginNotAllowed", 403, ["origin_not_allowed"]) {}
/** 404: there is no such operation for this grant, or no such route. */
export class NotFound extends problem<NotFound>()("NotFound", 404, ["operation_not_found", "route_not_found"]) {}
/** 405, with `Allow`. */
export class MethodNotAllowed extends problem<MethodNotAllowed>()("MethodNotAllowed", 405, ["method_not_allowed"]) {}
/** 406: the client accepts no JSON. */
export class NotAcceptable extends problem<NotAcceptable>()("NotAcceptable", 406, ["not_acceptable"]) {}
/** 408: the request did not arrive in time. */
export class RequestTimeout extends problem<RequestTimeout>()("RequestTimeout", 408, ["request_timeout"]) {}
/** 410: the change token belongs to another history of the ledger. */
export class Gone extends problem<Gone>()("Gone", 410, ["change_token_expired"]) {}
/** 413: the body is too long. */
export class PayloadTooLarge extends problem<PayloadTooLarge>()("PayloadTooLarge", 413, ["payload_too_large"]) {}
/** 414: the request target is too long. */
export class UriTooLong extends problem<UriTooLong>()("UriTooLong", 414, ["uri_too_long"]) {}
/** 422, with `fields`. */
export class UnprocessableContent extends problem<UnprocessableContent>()("UnprocessableContent", 422, [
  "invalid_request",
  "invalid_page_token"
]) {}
/** 429, with `Retry-After`, `RateLimit` and `RateLimit-Policy`. */
export class TooManyRequests extends problem<TooManyRequests>()("TooManyRequests", 429, ["rate_limited"]) {}
/** 431: the headers are too long. */
export class HeadersTooLarge extends problem<HeadersTooLarge>()("HeadersTooLarge", 431, ["headers_too_large"]) {}
/** 500: the gateway failed. */
export class InternalError extends problem<InternalError>()("InternalError", 500, [
  "internal_error",
  "response_contract_failed"
]) {}
/** 503, with `Retry-After`. */
export class ServiceUnavailable extends problem<ServiceUnavailable>()("ServiceUnavailable", 503, [
  "not_ready",
  "service_unavailable",
  "authorization_unavailable"
]) {}

// The codes of mutation endpoints have classes of their own, so that the gateway's endpoints do not declare them.

/** 400: the request has no idempotency key. */
export class IdempotencyKeyRequired
  extends problem<IdempotencyKeyRequired>()("IdempotencyKeyRequired", 400, ["idempotency_key_required"])
{}
/** 415: the body is declared as something other than JSON. */
export class UnsupportedMediaType
  extends problem<UnsupportedMediaType>()("UnsupportedMediaType", 415, ["unsupported_media_type"])
{}
/** 422: the idempotency key is bound to another request. */
export class IdempotencyKeyReused
  extends problem<IdempotencyKeyReused>()("IdempotencyKeyReused", 422, ["idempotency_key_reused"])
{}
/** The error class of each code. */
export const problemClasses = {
  malformed_request: BadRequest,
  missing_credentials: Unauthorized,
  invalid_token: Unauthorized,
  invalid_dpop_proof: Unauthorized,
  use_dpop_nonce: Unauthorized,
  grant_revoked: Unauthorized,
  client_inactive: Unauthorized,
  insufficient_scope: Forbidden,
  provider_disconnected: Forbidden,
  origin_not_allowed: OriginNotAllowed,
  operation_not_found: NotFound,
  route_not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  not_acceptable: NotAcceptable,
  request_timeout: RequestTimeout,
  change_token_expired: Gone,
  payload_too_large: PayloadTooLarge,
  uri_too_long: UriTooLong,
  invalid_request: UnprocessableContent,
  invalid_page_token: UnprocessableContent,
  rate_limited: TooManyRequests,
  headers_too_large: HeadersTooLarge,
  internal_error: InternalError,
  response_contract_failed: InternalError,
  not_ready: ServiceUnavailable,
  service_unavailable: ServiceUnavailable,
  authorization_unavailable: ServiceUnavailable,
  idempotency_key_required: IdempotencyKeyRequired,
  unsupported_media_type: UnsupportedMediaType,
  idempotency_key_reused: IdempotencyKeyReused
} as const satisfies Readonly<Record<ProblemCode, unknown>>

/** Any error body of the service. */
export type Problem = InstanceType<(typeof problemClasses)[ProblemCode]>

/** The error body that carries a given code. */
export type ProblemOf<Code extends ProblemCode> = InstanceType<(typeof problemClasses)[Code]>

/** The media type of every error body (RFC 9457 §3). */
export const problemMediaType = "application/problem+json"

const declare = HttpApiSchema.asJson({ contentType: problemMediaType })

/**
 * The error responses as endpoints and middleware declare them: one schema each, so that declarations can be merged.
 */
export const responses = {
  badRequest: declare(BadRequest),
  unauthorized: declare(Unauthorized),
  forbidden: declare(Forbidden),
  notFound: declare(NotFound),
  notAcceptable: declare(NotAcceptable),
  requestTimeout: declare(RequestTimeout),
  gone: declare(Gone),
  payloadTooLarge: declare(PayloadTooLarge),
  uriTooLong: declare(UriTooLong),
  unprocessableContent: declare(UnprocessableContent),
  tooManyRequests: declare(TooManyRequests),
  headersTooLarge: declare(HeadersTooLarge),
  internalError: declare(InternalError),
  serviceUnavailable: declare(ServiceUnavailable),
  idempotencyKeyRequired: declare(IdempotencyKeyRequired),
  unsupportedMediaType: declare(UnsupportedMediaType),
  idempotencyKeyReused: declare(IdempotencyKeyReused)
}
