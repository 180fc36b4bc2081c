/**
 * Makes problems (RFC 9457) and the responses that carry them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import {
  allProblemKinds,
  type AnyProblem,
  type AnyProblemCode,
  type AnyProblemOf,
  mutationProblemClasses
} from "../api/MutationProblems.ts"
import { problemClasses, type ProblemField, type ProblemKind, problemMediaType } from "../api/Problems.ts"
import type { Scope } from "../domain/Grant.ts"
import { AcceptedCredentials } from "../services/verification/AcceptedCredentials.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { makeChallenge } from "./Challenges.ts"
import { CurrentRequest, type RequestInfo } from "./RequestContext.ts"

export type { RequestInfo }
import { maskTokens } from "./TokenMask.ts"

/** What makes one occurrence of a problem differ from the next. */
export interface ProblemOptions {
  /** What happened this time; the kind's meaning unless told. */
  readonly detail?: string
  readonly fields?: ReadonlyArray<ProblemField>
  /** The scope that the grant lacks, for the challenge of `insufficient_scope` (RFC 6750 §3). */
  readonly scope?: Scope
  /** The nonce that DPoP proofs need (RFC 9449 §9). */
  readonly nonce?: string
  /** Seconds until the quota holds enough for a request, with `rate_limited`. */
  readonly retryAfter?: number
}

/** Headers that belong to a problem and are no members of its body. */
const ownHeaders = new WeakMap<object, Readonly<Record<string, string>>>()

/** Each status has its class, unless the code has one of its own. */
const classOf = (code: AnyProblemCode) =>
  code in mutationProblemClasses
    ? mutationProblemClasses[code as keyof typeof mutationProblemClasses]
    : problemClasses[allProblemKinds[code].status as keyof typeof problemClasses]

/** The body of a problem, for a request that is known. */
export const makeProblem = <Code extends AnyProblemCode>(
  baseUrl: string,
  request: RequestInfo,
  code: Code,
  options: ProblemOptions = {}
): AnyProblemOf<Code> => {
  const kind: ProblemKind = allProblemKinds[code]
  // The code decides the class: TypeScript cannot follow.
  const Class = classOf(code) as unknown as new(fields: object) => AnyProblemOf<Code>
  const problem = new Class({
    type: `${baseUrl}/problems/${code}`,
    title: kind.title,
    status: kind.status,
    detail: options.detail ?? kind.meaning,
    instance: request.path,
    code,
    fields: options.fields ?? null,
    request_id: request.id,
    retryable: kind.retryable,
    submission_uncertain: kind.submission_uncertain ?? false
  })
  return problem
}

/** Fails with a problem of the request at hand. */
export class Problems extends Context.Service<Problems, {
  readonly fail: <Code extends AnyProblemCode>(
    code: Code,
    options?: ProblemOptions
  ) => Effect.Effect<never, AnyProblemOf<Code>>
}>()("financial-agents-gateway/server/Problems") {
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
                "www-authenticate": challenge({ code, scheme: request.scheme, scope: options?.scope }),
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

/** Whether a failure is one that clients may see as it is. */
export const isProblem = (error: unknown): error is AnyProblem => classes.some((Class) => error instanceof Class)

const classes = [...Object.values(problemClasses), ...Object.values(mutationProblemClasses)]

/** What a problem demands besides a body (RFC 9110 §10.2.3, §11.6.1). */
const headersOf = (problem: AnyProblem): Readonly<Record<string, string>> => {
  switch (problem.code) {
    case "not_ready":
    case "service_unavailable":
      return { "retry-after": "1" }
    case "rate_limited":
      return { "retry-after": "1", ...ownHeaders.get(problem) }
    case "authorization_unavailable":
      return { "retry-after": "5" }
    default:
      return ownHeaders.get(problem) ?? {}
  }
}

/**
 * The response that carries a problem, and a log line that its request id leads to. Problems are never stored by
 * caches.
 */
export const problemResponse = (
  problem: AnyProblem,
  headers: Readonly<Record<string, string>> = {}
): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.as(
    logProblem(problem),
    HttpServerResponse.text(problemJson(problem), {
      status: problem.status,
      contentType: problemMediaType,
      headers: { "cache-control": "no-store", ...headersOf(problem), ...headers }
    })
  )

/** What the client was told. Its own mistakes are information, ours are warnings; their causes are logged apart. */
export const logProblem = ({ code, instance, request_id, status }: AnyProblem): Effect.Effect<void> =>
  Effect.annotateLogs(status < 500 ? Effect.logInfo("Refused a request") : Effect.logWarning("Failed a request"), {
    code,
    status,
    path: maskTokens(instance),
    request_id
  })

/** The members in the order of the specification, and nothing that an Error has besides. */
export const problemJson = (problem: AnyProblem): string =>
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
