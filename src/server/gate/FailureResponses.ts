/** The responses to failed requests: every failure becomes a complete problem. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import type { RouteContext } from "effect/http/HttpRouter"
import { ClientAbort } from "effect/http/HttpServerError"
import type { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import { type AnyProblem, isAnyProblem, type Problem } from "../../api/Problems.ts"
import type { UnfitValue } from "../../dispatch/CompiledEndpoint.ts"
import { invalidMembers } from "../../domain/InvalidMember.ts"
import { isOperationId, type OperationId } from "../../domain/Operation.ts"
import { findInvalidFields, type Options, refuseFields } from "./InvalidFields.ts"
import { isOverdue } from "./Lifecycle.ts"
import { problemResponse, type Problems } from "./ProblemResponses.ts"
import { withhold } from "./Refusals.ts"

type Responding<R = never> = Effect.Effect<HttpServerResponse.HttpServerResponse, never, R>

/** Answers with the problem. */
export const respond = <R>(
  problem: Effect.Effect<never, AnyProblem, R>,
  headers?: Readonly<Record<string, string>>
): Responding<R> => Effect.catch(problem, (problem) => problemResponse(problem, headers))

/**
 * Answers a request that failed with this cause. Failures without a problem of their own are logged and not shown to the
 * client. A client that has left gets no response.
 */
export const answerFailure = (problems: Problems["Service"], cause: Cause.Cause<unknown>): Responding => {
  if (isOverdue(cause)) return respond(problems.failOverdue)
  if (Cause.hasInterruptsOnly(cause)) {
    // A client that the shutdown cut off may repeat its request.
    return cause.reasons.some((reason) => reason.annotations.has(ClientAbort.key))
      ? Effect.failCause(cause as Cause.Cause<never>)
      : respond(problems.failShutDown)
  }
  const error = Cause.squash(cause)
  if (isAnyProblem(error)) return problemResponse(error)
  return Effect.andThen(
    Effect.logError("Request failed with a defect", cause),
    respond(
      problems.fail("internal_error", { cause: `a defect: ${error instanceof Error ? error.name : typeof error}` })
    )
  )
}

/** The id of the operation in a response that does not fit. Its place in the response would say less. */
const idOf = ({ cause, value }: UnfitValue): OperationId | null => {
  const [{ path } = { path: [] }] = invalidMembers(cause)
  let part = value
  let id: OperationId | null = null
  for (const name of [...path, ""]) {
    const members = part as Readonly<Record<string, unknown>> | null | undefined
    if (isOperationId(members?.["id"])) id = members["id"]
    part = members?.[name]
  }
  return id
}

/** What Effect says of a body that cannot be parsed. */
const messageOfBrokenJson = "Expected a valid JSON body"

/** Names what does not fit the contract: parts of the request, or the response, which is withheld. */
const refuseMismatch = (
  problems: Problems["Service"],
  error: HttpApiSchemaError,
  options: Options
): Effect.Effect<never, Problem, HttpServerRequest | ParsedSearchParams | RouteContext> => {
  if (error.kind === "Body" || error.kind === "ResponseHeaders") {
    return Effect.annotateLogs(withhold(problems, error.cause), { operation: idOf(error) })
  }
  return Effect.gen(function*() {
    const fields = yield* findInvalidFields(options, error)
    const isBroken = fields.some(({ message, path }) => path === "body" && message === messageOfBrokenJson)
    return yield* refuseFields(problems, fields, isBroken ? "The body is not valid JSON." : undefined)
  })
}

/** The same for an endpoint, whose requests and responses have schemas. */
export const answerEndpointFailure = (
  problems: Problems["Service"],
  cause: Cause.Cause<unknown>,
  options: Options
): Responding<HttpServerRequest | ParsedSearchParams | RouteContext> => {
  const error = Cause.squash(cause)
  return HttpApiSchemaError.is(error)
    ? respond(refuseMismatch(problems, error, options))
    : answerFailure(problems, cause)
}
