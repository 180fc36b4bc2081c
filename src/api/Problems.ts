/**
 * The error bodies of the service (RFC 9457). The gateway's own endpoints have one schema class for each HTTP status, and
 * mutation endpoints one for each code. Endpoints declare them by their codes, through `problems`.
 */
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type { AnyService } from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Struct from "effect/Struct"
import { namedFields, problemText } from "../client/problemText.ts"
import { uncertainRecord } from "../client/ReadRules.ts"
import { RequestId } from "../domain/RequestId.ts"
import {
  type AnyProblemCode,
  kindOf,
  type operatorProblemKinds,
  type ProblemCode,
  type problemKinds
} from "./ProblemKinds.ts"

export type { AnyProblemCode }

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

/** The body of every error (specification, "ProblemDetails"; RFC 9457). Each problem is this, with the codes of its class. */
export const ProblemDetails = Schema.Struct({
  type: Schema.String.annotate({ format: "uri", description: "Stable URL that identifies the problem class." }),
  title: Schema.String.check(Schema.isMinLength(1)).annotate({ description: "Short human-readable title." }),
  status: Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 })).annotate({
    description: "HTTP status of this occurrence."
  }),
  detail: Schema.String.check(Schema.isMinLength(1)).annotate({ description: "What happened this time." }),
  instance: Schema.String.check(Schema.isPattern(/^\/.*/u)).annotate({ description: "Path of the request." }),
  code: Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9_]*$/u)).annotate({
    description: "Stable machine-readable error code."
  }),
  fields: Schema.NullOr(Schema.Array(ProblemField)).annotate({
    description: "What failed field by field; null when the problem is not about fields."
  }),
  request_id: RequestId,
  retryable: Schema.Boolean.annotate({ description: "Whether repeating the identical request can safely succeed." }),
  submission_uncertain: Schema.Boolean.annotate({
    description: "Whether an upstream write may have landed and must not be resubmitted. Never true for a read."
  })
}).annotate({ identifier: "ProblemDetails", description: "The body of every error (RFC 9457)." })

const text = (description: string) => Schema.String.annotate({ description })

// Headers of problems, by their names.

const headersOfAll = { "Cache-Control": text("Problems are never stored.") }

const challenge = {
  "WWW-Authenticate": text("Challenges, with the URL of the resource's metadata (RFC 9110, RFC 9728).")
}

const retryAfter = {
  "Retry-After": Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
    description: "Seconds to wait before the request is repeated."
  })
}

/** The headers of a response under quotas (draft-ietf-httpapi-ratelimit-headers). @internal */
export const quotaHeaders = {
  RateLimit: text(
    "What is left of the quota, and the seconds until it is whole again (draft-ietf-httpapi-ratelimit-headers)."
  ),
  "RateLimit-Policy": text("The quota: requests, the seconds for which they are, and how many may come at once.")
}

type Kinds = typeof problemKinds & typeof operatorProblemKinds

type CodesOf<Status extends number> = {
  [Code in AnyProblemCode]: Kinds[Code]["status"] extends Status ? Code : never
}[AnyProblemCode]

/**
 * Gives the class its tag, and errors of it a message for logs and terminals. The prototype holds both, so no body of a problem
 * has a member `_tag` or `message`.
 */
const withTag = <Class>(name: string, Class: Class): Class => {
  Object.defineProperties((Class as { readonly prototype: object }).prototype, {
    _tag: { value: name },
    message: {
      get(this: typeof ProblemDetails.Type) {
        return problemText(this as Problem)
      }
    }
  })
  return Class
}

/**
 * The error class of some codes of one status, and the headers of its responses. An endpoint may declare several classes of a status:
 * `code` tells them apart. Programs tell classes apart by `_tag`, which is the name of the class: `Effect.catchTag("NotFound", …)`.
 */
const problem =
  <Self>() =>
  <const Name extends string, const Status extends number, const Code extends CodesOf<Status>>(
    name: Name,
    status: Status,
    codes: ReadonlyArray<Code>,
    headers: Schema.Struct.Fields = {}
  ) =>
    Object.assign(
      withTag(
        name,
        Schema.Error<Self, { readonly _tag: Name }>(name)(
          ProblemDetails.mapFields(Struct.assign({ status: Schema.Literal(status), code: Schema.Literals(codes) })),
          { httpApiStatus: status }
        )
      ),
      { status, codes, headers: { ...headersOfAll, ...headers } }
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
], {
  ...challenge,
  "DPoP-Nonce": Schema.optionalKey(text("The nonce that proofs need, with use_dpop_nonce."))
}) {}
/** 403, with a challenge (RFC 6750 §3). */
export class Forbidden extends problem<Forbidden>()("Forbidden", 403, [
  "insufficient_scope",
  "provider_disconnected"
], challenge) {}
/** 403: a page of a foreign origin sent the request. Only `/mcp` answers with it. */
export class OriginNotAllowed
  extends problem<OriginNotAllowed>()("OriginNotAllowed", 403, ["origin_not_allowed"], challenge)
{}
/** 404: there is no such operation for this grant, or no such route. */
export class NotFound extends problem<NotFound>()("NotFound", 404, ["operation_not_found", "route_not_found"]) {}
/** 405, with `Allow`. */
export class MethodNotAllowed extends problem<MethodNotAllowed>()("MethodNotAllowed", 405, ["method_not_allowed"], {
  Allow: text("The methods of the path.")
}) {}
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
export class TooManyRequests extends problem<TooManyRequests>()("TooManyRequests", 429, ["rate_limited"], {
  ...retryAfter,
  ...quotaHeaders
}) {}
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
], retryAfter) {}

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
/** 403: the amount is above a limit of the grant. `fields` has the limit, what remains of it, and when it resets. */
export class LimitExceeded extends problem<LimitExceeded>()("LimitExceeded", 403, ["limit_exceeded"], challenge) {}
/** 403: the limits of the grant name other payees. */
export class PayeeNotAllowed
  extends problem<PayeeNotAllowed>()("PayeeNotAllowed", 403, ["payee_not_allowed"], challenge)
{}
/** 403: the limits of the grant do not cover the type of the operation, or its currency. */
export class OperationNotCovered
  extends problem<OperationNotCovered>()("OperationNotCovered", 403, ["operation_not_covered"], challenge)
{}
/** 403: the grant has limits, and the application declares no terms. */
export class TermsRequired extends problem<TermsRequired>()("TermsRequired", 403, ["terms_required"], challenge) {}

// The codes of the admin listener. No endpoint of the gateway declares them.

/** 401: the browser has no session. */
export class NoSession extends problem<NoSession>()("NoSession", 401, ["no_session"]) {}
/** 403: the admin listener does not serve this browser. */
export class NotAnOperator extends problem<NotAnOperator>()("NotAnOperator", 403, [
  "foreign_origin",
  "wrong_csrf_token",
  "foreign_host",
  "sign_in_refused"
]) {}
/** 404: there is no such grant. */
export class GrantMissing extends problem<GrantMissing>()("GrantMissing", 404, ["grant_not_found"]) {}
/** 409: the ledger refuses the action of an operator. */
export class ActionRefused extends problem<ActionRefused>()("ActionRefused", 409, [
  "moved_on",
  "already_settled",
  "illegal_transition",
  "still_held"
]) {}
/** 503: an operator does not learn the result. */
export class ConsoleUnavailable extends problem<ConsoleUnavailable>()("ConsoleUnavailable", 503, [
  "unknown_result",
  "done_but_unread",
  "too_many_streams"
]) {}

const classes = [
  BadRequest,
  Unauthorized,
  Forbidden,
  OriginNotAllowed,
  NotFound,
  MethodNotAllowed,
  NotAcceptable,
  RequestTimeout,
  Gone,
  PayloadTooLarge,
  UriTooLong,
  UnprocessableContent,
  TooManyRequests,
  HeadersTooLarge,
  InternalError,
  ServiceUnavailable,
  IdempotencyKeyRequired,
  UnsupportedMediaType,
  IdempotencyKeyReused,
  LimitExceeded,
  PayeeNotAllowed,
  OperationNotCovered,
  TermsRequired
] as const

const operatorClasses = [NoSession, NotAnOperator, GrantMissing, ActionRefused, ConsoleUnavailable] as const

const allClasses = [...classes, ...operatorClasses] as const

type ProblemClass = (typeof allClasses)[number]

type ClassOf<Code extends AnyProblemCode, Class = ProblemClass> = Class extends ProblemClass
  ? Code extends InstanceType<Class>["code"] ? Class : never
  : never

/** The error class of each code. @internal */
export const problemClasses = Object.fromEntries(
  allClasses.flatMap((Class) => Class.codes.map((code) => [code, Class]))
) as { readonly [Code in AnyProblemCode]: ClassOf<Code> }

/** Any error body of the service. */
export type Problem = InstanceType<(typeof classes)[number]>

/** The same with those of the admin listener. @internal */
export type AnyProblem = InstanceType<ProblemClass>

/** Whether an error is a problem, which clients may see as it is. @internal */
export const isProblem = (error: unknown): error is Problem => classes.some((Class) => error instanceof Class)

/** Whether an error is a problem of any listener. @internal */
export const isAnyProblem = (error: unknown): error is AnyProblem => allClasses.some((Class) => error instanceof Class)

/** The last problem of a submission of which an attempt may be recorded: what is uncertain is not retryable. @internal */
export const markUncertain = (problem: Problem): Problem => {
  const names = Object.keys(ProblemDetails.fields) as ReadonlyArray<keyof typeof ProblemDetails.Type>
  const members = Object.fromEntries(names.map((name) => [name, problem[name]]))
  const Class = problem.constructor as new(members: object) => Problem
  const detail = `${problem.detail} ${uncertainRecord}.`
  return new Class({ ...members, detail, retryable: false, submission_uncertain: true })
}

/** The error body with one of these codes: its class, and the code as a literal. */
export type ProblemOf<Code extends AnyProblemCode> = Code extends AnyProblemCode
  ? InstanceType<ClassOf<Code>> & { readonly code: Code }
  : never

/** What one occurrence of a problem may say of itself. */
export interface ProblemOccurrence {
  /** What happened this time; by default the meaning of the code, and for an invalid request what `fields` names. */
  readonly detail?: string | undefined
  readonly fields?: ReadonlyArray<ProblemField> | undefined
}

/** Makes the body of a problem for a request. @internal */
export const makeProblem = <Code extends AnyProblemCode>(
  baseUrl: string,
  { id, path }: { readonly id: RequestId; readonly path: string },
  code: Code,
  { detail, fields }: ProblemOccurrence = {}
): ProblemOf<Code> => {
  const { meaning, retryable, status, title } = kindOf(code)
  // The code determines the class, but TypeScript cannot infer that.
  const Class = problemClasses[code] as unknown as new(fields: object) => ProblemOf<Code>
  return new Class({
    type: `${baseUrl}/problems/${code}`,
    title,
    status,
    detail: detail ?? (code === "invalid_request" && fields?.length ? namedFields(fields) : meaning),
    instance: path,
    code,
    fields: fields ?? null,
    request_id: id,
    retryable,
    // No request sends anything upstream: workers do. The operation tells whether its submission is uncertain.
    submission_uncertain: false
  })
}

/** The members of the body, without those of an `Error`. @internal */
export const encodeProblem: (problem: AnyProblem) => typeof ProblemDetails.Encoded = Schema.encodeSync(ProblemDetails)

/** The media type of every error body (RFC 9457 §3). @internal */
export const problemMediaType = "application/problem+json"

/** What the schema of a declared response says of its problems. */
interface DeclaredProblems {
  readonly codes: ReadonlyArray<ProblemCode>
  readonly headers: Schema.Struct.Fields
}

const annotation = "financial-agents-gateway/api/Problems"

/** The problems that a schema of an endpoint's errors declares; undefined if `problems` did not make it. @internal */
export const declaredProblems = SchemaAST.resolveAt<DeclaredProblems>(annotation)

/**
 * The responses with these problems, as endpoints and middleware declare them: one schema for each class. Each takes these codes alone:
 * a handler cannot fail with another one, and the OpenAPI document names exactly these.
 *
 *     error: problems("operation_not_found", "insufficient_scope")
 */
export const problems = <const Code extends AnyProblemCode>(
  ...codes: ReadonlyArray<Code>
): ReadonlyArray<Schema.Codec<ProblemOf<Code>, typeof ProblemDetails.Encoded>> =>
  [...new Set(codes.map((code) => problemClasses[code]))].map((Class: ProblemClass) => {
    const own = codes.filter((code) => problemClasses[code] === Class)
    // The contract of the service has none of the others.
    const declared: DeclaredProblems = { codes: own as ReadonlyArray<Code & ProblemCode>, headers: Class.headers }
    const hasDeclaredCode = Schema.makeFilter(
      ({ code }: AnyProblem) =>
        own.some((one) => one === code) || `Expected one of the declared codes: ${own.join(", ")}`
    )
    // The class and the filter narrow the members of `ProblemDetails`; the compiler sees two types.
    const Narrowed = (Class as unknown as Schema.Codec<AnyProblem>).check(hasDeclaredCode) as unknown as Schema.Codec<
      ProblemOf<Code>,
      typeof ProblemDetails.Type
    >
    return ProblemDetails.pipe(
      Schema.decodeTo(Narrowed),
      HttpApiSchema.asJson({ contentType: problemMediaType })
    ).annotate({ httpApiStatus: Class.status, [annotation]: declared })
  })

/** The codes of a read or an acceptance whose grant may not do it. */
export const refusedGrants = [
  "grant_revoked",
  "client_inactive",
  "insufficient_scope",
  "provider_disconnected"
] as const

/** The codes of an acceptance that the limits of its grant refuse. */
export const refusedByLimits = [
  "limit_exceeded",
  "payee_not_allowed",
  "operation_not_covered",
  "terms_required"
] as const

/** The codes that an endpoint and its middleware declare. @internal */
export const codesOf = (
  { error, middlewares }: Pick<HttpApiEndpoint.Top, "error" | "middlewares">
): ReadonlySet<ProblemCode> =>
  new Set(
    // The cast: Effect types the members of the set as keys, and adds only middleware services to it.
    [...error, ...[...middlewares].flatMap((middleware) => [...(middleware as AnyService).error])]
      .flatMap(({ ast }) => declaredProblems(ast)?.codes ?? [])
  )
