/**
 * Every way in which the gateway says no: the catalogue, and the error bodies (RFC 9457) that are made from it.
 */
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { RequestId } from "../domain/RequestId.ts"

/** What all occurrences of a problem have in common. */
export interface ProblemKind {
  readonly status: number
  /** Whether repeating the identical request can safely succeed. */
  readonly retryable: boolean
  /** Whether an upstream write may have landed. What is uncertain is never retryable. */
  readonly submission_uncertain?: boolean
  readonly title: string
  /** What it means, for people. */
  readonly meaning: string
  /** What a client should do about it. */
  readonly action: string
}

/** A catalogue, with its codes in its type. */
export const kinds = <const Kinds extends Readonly<Record<string, ProblemKind>>>(kinds: Kinds): Kinds => kinds

/** The service error codes. A code, once published, keeps its meaning; `type` is `{base_url}/problems/{code}`. */
export const problemKinds = kinds({
  malformed_request: {
    status: 400,
    retryable: false,
    title: "Malformed request",
    meaning: "The request is not valid HTTP, or carries an access token in its query string.",
    action:
      "Correct the request. Send tokens in the Authorization header alone, and treat one that was in a URL as leaked."
  },
  missing_credentials: {
    status: 401,
    retryable: false,
    title: "Missing credentials",
    meaning: "The request carries no access token of a scheme that the gateway accepts.",
    action: "Send an access token in the Authorization header, with one of the schemes that the challenges name."
  },
  invalid_token: {
    status: 401,
    retryable: false,
    title: "Invalid token",
    meaning:
      "The access token is unknown, malformed or expired, was issued for another service, or is bound to another "
      + "sender.",
    action: "Obtain a new access token. One that is bound to a key or certificate is good with that alone."
  },
  invalid_dpop_proof: {
    status: 401,
    retryable: false,
    title: "Invalid DPoP proof",
    meaning: "The DPoP proof is missing, was used before, or does not prove that the token is the sender's for this "
      + "request (RFC 9449).",
    action: "Make a new proof for each request, with the key that the token is bound to, and check the clock."
  },
  use_dpop_nonce: {
    status: 401,
    retryable: false,
    title: "Use DPoP nonce",
    meaning: "The DPoP proof lacks the nonce that the gateway demands, or carries one that is too old.",
    action: "Make a new proof with the nonce that the DPoP-Nonce header names, and repeat the request."
  },
  grant_revoked: {
    status: 401,
    retryable: false,
    title: "Grant revoked",
    meaning: "The grant was revoked or has expired. Its operations are kept; this grant can no longer read them.",
    action: "Stop polling with this grant. Complete the authorization flow again and read through the new grant."
  },
  client_inactive: {
    status: 401,
    retryable: false,
    title: "Client inactive",
    meaning: "The client was deactivated.",
    action: "Stop polling. Ask the operator of the gateway to activate the client."
  },
  insufficient_scope: {
    status: 403,
    retryable: false,
    title: "Insufficient scope",
    meaning: "The grant does not include the scope that the request needs.",
    action: "Ask the resource owner for a grant with the scope that the challenge names."
  },
  provider_disconnected: {
    status: 403,
    retryable: false,
    title: "Provider disconnected",
    meaning: "The provider connection of the grant is disconnected. Its operations are kept.",
    action: "Stop polling. Have the resource owner connect the provider again, then read on."
  },
  operation_not_found: {
    status: 404,
    retryable: false,
    title: "Operation not found",
    meaning: "There is no such operation among those of the grant's resource owner, subject and client.",
    action: "Check the id, and that the grant is the right one."
  },
  route_not_found: {
    status: 404,
    retryable: false,
    title: "Route not found",
    meaning: "The gateway has no such path.",
    action: "Check the path against the API description."
  },
  method_not_allowed: {
    status: 405,
    retryable: false,
    title: "Method not allowed",
    meaning: "The path exists, but not with this method.",
    action: "Use one of the methods that the Allow header lists."
  },
  not_acceptable: {
    status: 406,
    retryable: false,
    title: "Not acceptable",
    meaning: "The Accept header excludes every media type in which the response exists.",
    action: "Accept `application/json`, or leave the header out."
  },
  request_timeout: {
    status: 408,
    retryable: true,
    title: "Request timeout",
    meaning: "The request did not arrive in full within the time that the gateway waits for it.",
    action: "Repeat the request on a new connection."
  },
  payload_too_large: {
    status: 413,
    retryable: false,
    title: "Payload too large",
    meaning: "The request announces a body that is larger than the gateway reads.",
    action: "Send less. The gateway's own endpoints take no body at all."
  },
  uri_too_long: {
    status: 414,
    retryable: false,
    title: "URI too long",
    meaning: "The request target is longer than the gateway reads.",
    action: "Shorten the query."
  },
  invalid_request: {
    status: 422,
    retryable: false,
    title: "Invalid request",
    meaning: "The request is well-formed, but parts of it do not have the shape that the API description demands.",
    action: "Correct what `fields` names."
  },
  invalid_page_token: {
    status: 422,
    retryable: false,
    title: "Invalid page token",
    meaning: "The page token was not issued by this endpoint, or the filters differ from those it was issued for.",
    action: "Start again without a page token, or repeat the filters of the first page."
  },
  rate_limited: {
    status: 429,
    retryable: true,
    title: "Rate limited",
    meaning:
      "The client and subject of the grant have used up their quota of requests, or the address has used up that of "
      + "refused credentials.",
    action: "Repeat the request after the time that Retry-After names. RateLimit and RateLimit-Policy tell the quota."
  },
  headers_too_large: {
    status: 431,
    retryable: false,
    title: "Headers too large",
    meaning: "The header section is larger than the gateway reads.",
    action: "Send fewer or shorter headers."
  },
  internal_error: {
    status: 500,
    retryable: false,
    title: "Internal error",
    meaning: "The gateway failed in a way that it did not foresee.",
    action: "Report the request id to the operator of the gateway."
  },
  response_contract_failed: {
    status: 500,
    retryable: false,
    title: "Response contract failed",
    meaning: "The gateway was about to send a response that breaks its own API description, and withheld it.",
    action: "Report the request id to the operator of the gateway."
  },
  not_ready: {
    status: 503,
    retryable: true,
    title: "Not ready",
    meaning:
      "The gateway cannot take traffic: its database does not answer or lacks migrations, or it is shutting down.",
    action: "Send traffic elsewhere, and probe again."
  },
  service_unavailable: {
    status: 503,
    retryable: true,
    title: "Service unavailable",
    meaning: "The gateway could not answer in time: its store is away, it is saturated, or it is shutting down.",
    action: "Repeat the request after the time that Retry-After names."
  },
  authorization_unavailable: {
    status: 503,
    retryable: true,
    title: "Authorization unavailable",
    meaning: "The access token could not be verified, because keys or the authorization server are out of reach.",
    action: "Repeat the request after the time that Retry-After names."
  }
})

export type ProblemCode = keyof typeof problemKinds

type CodesOf<Status extends number> = {
  [Code in ProblemCode]: (typeof problemKinds)[Code]["status"] extends Status ? Code : never
}[ProblemCode]

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

/** The error class of one status and some of its codes. Endpoints that declare several of a status tell them by code. */
export const defineProblem =
  <Self>() =>
  <const Name extends string, const Status extends number, const Code extends string>(
    name: Name,
    status: Status,
    codes: ReadonlyArray<Code>,
    description: string
  ) =>
    Schema.Error<Self>(name)(Schema.Struct(fieldsFor(status, codes)).annotate({ identifier: `${name}Problem` }), {
      httpApiStatus: status,
      description
    })

const problem = <Self>() => <const Name extends string, const Status extends number>(name: Name, status: Status) => {
  const codes = (Object.keys(problemKinds) as Array<ProblemCode>).filter((code) =>
    problemKinds[code].status === status
  ) as Array<CodesOf<Status>>
  return defineProblem<Self>()(name, status, codes, codes.map((code) => problemKinds[code].title).join(", or "))
}

/** The media type of every error body (RFC 9457 §3). */
export const problemMediaType = "application/problem+json"

/** 400 */
export class BadRequest extends problem<BadRequest>()("BadRequest", 400) {}
/** 401, with a challenge (RFC 6750 §3). */
export class Unauthorized extends problem<Unauthorized>()("Unauthorized", 401) {}
/** 403, with a challenge (RFC 6750 §3). */
export class Forbidden extends problem<Forbidden>()("Forbidden", 403) {}
/** 404 */
export class NotFound extends problem<NotFound>()("NotFound", 404) {}
/** 405, with `Allow`. */
export class MethodNotAllowed extends problem<MethodNotAllowed>()("MethodNotAllowed", 405) {}
/** 406 */
export class NotAcceptable extends problem<NotAcceptable>()("NotAcceptable", 406) {}
/** 408 */
export class RequestTimeout extends problem<RequestTimeout>()("RequestTimeout", 408) {}
/** 413 */
export class PayloadTooLarge extends problem<PayloadTooLarge>()("PayloadTooLarge", 413) {}
/** 414 */
export class UriTooLong extends problem<UriTooLong>()("UriTooLong", 414) {}
/** 422, with `fields`. */
export class UnprocessableContent extends problem<UnprocessableContent>()("UnprocessableContent", 422) {}
/** 429, with `Retry-After`, `RateLimit` and `RateLimit-Policy`. */
export class TooManyRequests extends problem<TooManyRequests>()("TooManyRequests", 429) {}
/** 431 */
export class HeadersTooLarge extends problem<HeadersTooLarge>()("HeadersTooLarge", 431) {}
/** 500 */
export class InternalError extends problem<InternalError>()("InternalError", 500) {}
/** 503, with `Retry-After`. */
export class ServiceUnavailable extends problem<ServiceUnavailable>()("ServiceUnavailable", 503) {}

/** Every error class, by status. */
export const problemClasses = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  405: MethodNotAllowed,
  406: NotAcceptable,
  408: RequestTimeout,
  413: PayloadTooLarge,
  414: UriTooLong,
  422: UnprocessableContent,
  429: TooManyRequests,
  431: HeadersTooLarge,
  500: InternalError,
  503: ServiceUnavailable
} as const

/** Any error body of the service. */
export type Problem = InstanceType<(typeof problemClasses)[keyof typeof problemClasses]>

/** An error class as endpoints declare it. */
export const declare = HttpApiSchema.asJson({ contentType: problemMediaType })

/** The error responses as endpoints and middleware declare them: one schema each, so that declarations can be merged. */
export const responses = {
  badRequest: declare(BadRequest),
  unauthorized: declare(Unauthorized),
  forbidden: declare(Forbidden),
  notFound: declare(NotFound),
  notAcceptable: declare(NotAcceptable),
  requestTimeout: declare(RequestTimeout),
  payloadTooLarge: declare(PayloadTooLarge),
  uriTooLong: declare(UriTooLong),
  unprocessableContent: declare(UnprocessableContent),
  tooManyRequests: declare(TooManyRequests),
  headersTooLarge: declare(HeadersTooLarge),
  internalError: declare(InternalError),
  serviceUnavailable: declare(ServiceUnavailable)
}

/** The error that carries a given code. */
export type ProblemOf<Code extends ProblemCode> = InstanceType<
  (typeof problemClasses)[(typeof problemKinds)[Code]["status"]]
>
