/**
 * Makes problems (RFC 9457) and the responses that carry them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"
import {
  type Problem,
  problemClasses,
  type ProblemField,
  problemMediaType,
  type ProblemOf
} from "../../api/Problems.ts"
import type { Scope } from "../../domain/Grant.ts"
import { AcceptedCredentials } from "../../services/verification/AcceptedCredentials.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { makeChallenge } from "./Challenges.ts"
import { CurrentRequest, type RequestInfo } from "./RequestContext.ts"
import { maskTokens } from "./TokenMask.ts"

export type { RequestInfo }

/** The details of one occurrence of a problem. */
export interface ProblemOptions {
  /** What happened this time; by default the meaning of the kind. */
  readonly detail?: string
  readonly fields?: ReadonlyArray<ProblemField>
  /** The scope that the grant lacks, for the challenge of `insufficient_scope` (RFC 6750 §3). */
  readonly scope?: Scope
  /** The nonce that DPoP proofs need (RFC 9449 §9). */
  readonly nonce?: string
  /** Seconds until the quota holds enough for a request, with `rate_limited`. */
  readonly retryAfter?: number
}

/** Headers of a problem that are not members of its body. */
const ownHeaders = new WeakMap<object, Readonly<Record<string, string>>>()

/** Makes the body of a problem for a request. */
export const makeProblem = <Code extends ProblemCode>(
  baseUrl: string,
  request: RequestInfo,
  code: Code,
  options: ProblemOptions = {}
): ProblemOf<Code> => {
  const kind: ProblemKind = problemKinds[code]
  // The code determines the class, but TypeScript cannot infer that.
  const Class = problemClasses[code] as unknown as new(fields: object) => ProblemOf<Code>
  return new Class({
    type: `${baseUrl}/problems/${code}`,
    title: kind.title,
    status: kind.status,
    detail: options.detail ?? kind.meaning,
    instance: request.path,
    code,
    fields: options.fields ?? null,
    request_id: request.id,
    retryable: kind.retryable,
    // No request sends anything upstream: workers do. The operation tells whether its submission is uncertain.
    submission_uncertain: false
  })
}

/** Fails with a problem of the current request. */
export class Problems extends Context.Service<Problems, {
  readonly fail: <Code extends ProblemCode>(
    code: Code,
    options?: ProblemOptions
  ) => Effect.Effect<never, ProblemOf<Code>>
}>()("financial-agents-gateway/server/gate/Problems") {
  static readonly layer: Layer.Layer<Problems, never, BaseUrl> = Layer.effect(
    Problems,
    Effect.gen(function*() {
      const baseUrl = yield* BaseUrl
      const challenge = makeChallenge(yield* AcceptedCredentials, baseUrl)
      return Problems.of({
        fail: (code, options) =>
          Effect.flatMap(CurrentRequest, (request) => {
            if (request === null) return Effect.die(new Error("a problem was raised outside of withRequestContext"))
            const problem = makeProblem(baseUrl, request, code, options)
            if (problem.status === 401 || problem.status === 403) {
              ownHeaders.set(problem, {
                "www-authenticate": challenge({
                  code,
                  path: request.path,
                  scheme: request.scheme,
                  scope: options?.scope
                }),
                ...options?.nonce === undefined ? {} : { "dpop-nonce": options.nonce }
              })
            }
            if (options?.retryAfter !== undefined) ownHeaders.set(problem, { "retry-after": `${options.retryAfter}` })
            return Effect.fail(problem)
          })
      })
    })
  )
}

/** Whether an error is a problem, which clients may see as it is. */
export const isProblem = (error: unknown): error is Problem => classes.some((Class) => error instanceof Class)

const classes = [...new Set(Object.values(problemClasses))]

/** The headers that a problem needs (RFC 9110 §10.2.3, §11.6.1). */
const headersOf = (problem: Problem): Readonly<Record<string, string>> => {
  switch (problem.code) {
    case "not_ready":
    case "service_unavailable":
      return { "retry-after": "1" }
    case "rate_limited":
      return { "retry-after": "1", ...ownHeaders.get(problem) }
    case "authorization_unavailable":
      return { "retry-after": "5" }
    case "request_timeout":
      // The rest of the request may still arrive (RFC 9110 §15.5.9).
      return { connection: "close" }
    default:
      return ownHeaders.get(problem) ?? {}
  }
}

/**
 * Returns the response that carries a problem, and logs a line with its request id. Caches must not store problems.
 */
export const problemResponse = (
  problem: Problem,
  headers: Readonly<Record<string, string>> = {}
): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.map(Effect.andThen(logProblem(problem), CurrentRequest), (request) => {
    if (request !== null) request.problem = problem.code
    return HttpServerResponse.text(problemJson(problem), {
      status: problem.status,
      contentType: problemMediaType,
      headers: { "cache-control": "no-store", ...headersOf(problem), ...headers }
    })
  })

/**
 * Logs a problem: errors of the client as information, errors of the gateway as warnings. Causes have lines of their
 * own.
 */
export const logProblem = ({ code, instance, request_id, status }: Problem): Effect.Effect<void> =>
  Effect.annotateLogs(status < 500 ? Effect.logInfo("Request refused") : Effect.logWarning("Request failed"), {
    code,
    status,
    path: maskTokens(instance),
    request_id
  })

/** The body as JSON: the members in the order of the specification, without those of an `Error`. */
export const problemJson = (problem: Problem): string =>
  JSON.stringify({
    type: problem.type,
    title: problem.title,
    status: problem.status,
    detail: problem.detail,
    instance: problem.instance,
    code: problem.code,
    fields: problem.fields,
    request_id: problem.request_id,
    retryable: problem.retryable,
    submission_uncertain: problem.submission_uncertain
  })
