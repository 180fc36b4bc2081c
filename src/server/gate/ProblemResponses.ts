/**
 * Makes problems (RFC 9457) and the responses that carry them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"
import {
  encodeProblem,
  makeProblem,
  type Problem,
  problemClasses,
  problemMediaType,
  type ProblemOccurrence,
  type ProblemOf
} from "../../api/Problems.ts"
import type { Scope } from "../../domain/Grant.ts"
import { AcceptedCredentials } from "../../services/verification/OAuthVerifier.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { makeChallenge } from "./Challenges.ts"
import { CurrentRequest } from "./RequestContext.ts"
import { maskTokens } from "./TokenMask.ts"

/** The details of one occurrence of a problem. */
export interface ProblemOptions extends ProblemOccurrence {
  /** The scope that the grant lacks, for the challenge of `insufficient_scope` (RFC 6750 §3). */
  readonly scope?: Scope
  /** The nonce that DPoP proofs need (RFC 9449 §9). */
  readonly nonce?: string
  /** Seconds until the quota holds enough for a request, with `rate_limited`. */
  readonly retryAfter?: number
}

/** Headers of a problem that are not members of its body. */
const ownHeaders = new WeakMap<object, Readonly<Record<string, string>>>()

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
            if ("WWW-Authenticate" in problemClasses[code].headers) {
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

/** The headers that a problem needs (RFC 9110 §10.2.3, §11.6.1). Its class declares them. */
const headersOf = (problem: Problem): Readonly<Record<string, string>> => {
  const { retryAfter }: ProblemKind = problemKinds[problem.code]
  return {
    ...retryAfter === undefined ? {} : { "retry-after": `${retryAfter}` },
    // The rest of the request may still arrive (RFC 9110 §15.5.9).
    ...problem.code === "request_timeout" ? { connection: "close" } : {},
    ...ownHeaders.get(problem)
  }
}

/**
 * Returns the response that carries a problem, and logs a line with its request id. Caches must not store problems.
 *
 * @internal
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
 *
 * @internal
 */
export const logProblem = ({ code, instance, request_id, status }: Problem): Effect.Effect<void> =>
  Effect.annotateLogs(status < 500 ? Effect.logInfo("Request refused") : Effect.logWarning("Request failed"), {
    code,
    status,
    path: maskTokens(instance),
    request_id
  })

/** The body as JSON. @internal */
export const problemJson = (problem: Problem): string => JSON.stringify(encodeProblem(problem))
