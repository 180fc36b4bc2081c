/**
 * Makes problems (RFC 9457) and the responses that carry them, with the challenges of a 401 or 403: how to authenticate (RFC 9110 §11.6.1).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { type AnyProblemCode, kindOf } from "../../api/ProblemKinds.ts"
import {
  type AnyProblem,
  encodeProblem,
  makeProblem,
  problemClasses,
  problemMediaType,
  type ProblemOccurrence,
  type ProblemOf
} from "../../api/Problems.ts"
import { operationsRead, type Scope } from "../../domain/Grant.ts"
import { mcpPath, mcpResource } from "../../domain/McpResource.ts"
import { PoolMetrics } from "../../metrics/PoolMetrics.ts"
import { AcceptedCredentials, type AcceptedCredentialsShape } from "../../services/verification/OAuthVerifier.ts"
import { BaseUrl } from "./BaseUrl.ts"
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
  /** Why the gateway failed, for the log alone. It holds no secret. */
  readonly cause?: string
}

/** Headers of a problem that are not members of its body. */
const ownHeaders = new WeakMap<object, Readonly<Record<string, string>>>()

const causes = new WeakMap<object, string>()

/** Fails with a problem of the current request. */
export class Problems extends Context.Service<Problems, {
  readonly fail: <Code extends AnyProblemCode>(
    code: Code,
    options?: ProblemOptions
  ) => Effect.Effect<never, ProblemOf<Code>>
  /** Fails because the request reached its deadline. */
  readonly failOverdue: Effect.Effect<never, ProblemOf<"service_unavailable">>
  /** Fails because the shutdown interrupted the request. */
  readonly failShutDown: Effect.Effect<never, ProblemOf<"service_unavailable">>
}>()("financial-agents-gateway/server/gate/Problems") {
  static readonly layer: Layer.Layer<Problems, never, BaseUrl> = Layer.effect(
    Problems,
    Effect.gen(function*() {
      const baseUrl = yield* BaseUrl
      const challenge = makeChallenge(yield* AcceptedCredentials, baseUrl)
      const pools = yield* PoolMetrics
      const fail: Problems["Service"]["fail"] = (code, options) =>
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
          if (options?.cause !== undefined) causes.set(problem, options.cause)
          return Effect.fail(problem)
        })
      const failInterrupted = (detail: string, cause: string) =>
        Effect.flatMap(
          CurrentRequest,
          (request) => fail("service_unavailable", { detail: request?.interrupted ?? detail, cause })
        )
      return Problems.of({
        fail,
        failShutDown: failInterrupted(
          "The gateway is shutting down.",
          "the request did not end within the drain timeout of the shutdown"
        ),
        failOverdue: Effect.suspend(() => {
          const exhausted = pools?.exhausted() ?? []
          return failInterrupted(
            "The store did not answer in time.",
            exhausted.length === 0
              ? "the deadline passed before the database, or the verifier, answered"
              : `the deadline passed: no connection to the database was free in the pool ${exhausted.join(", ")}`
          )
        })
      })
    })
  )
}

/** The URL of a resource's metadata (RFC 9728 §3.1). The well-known part stands between host and path. */
const resourceMetadataUrl = (resource: string): string => {
  const { origin, pathname } = new URL(resource)
  return `${origin}${resourceMetadataPath}${pathname === "/" ? "" : pathname}`
}

const resourceMetadataPath = "/.well-known/oauth-protected-resource"

/** The `error` of a challenge (RFC 6750 §3.1, RFC 9449 §7.1), where a code has one. */
const errorOf: Partial<Record<AnyProblemCode, string>> = {
  invalid_token: "invalid_token",
  grant_revoked: "invalid_token",
  client_inactive: "invalid_token",
  invalid_dpop_proof: "invalid_dpop_proof",
  use_dpop_nonce: "use_dpop_nonce",
  insufficient_scope: "insufficient_scope",
  provider_disconnected: "provider_disconnected",
  limit_exceeded: "limit_exceeded",
  payee_not_allowed: "payee_not_allowed",
  operation_not_covered: "operation_not_covered",
  terms_required: "terms_required"
}

/** The problem that the challenge explains, and the scheme of the request's credential. */
interface Occasion {
  readonly code: AnyProblemCode
  readonly scheme: "Bearer" | "DPoP"
  readonly scope: Scope | undefined
  /** The path of the request: its resource has metadata of its own (`McpResource`). */
  readonly path: string
}

/**
 * Makes the value of `WWW-Authenticate`: one challenge for each accepted scheme. The challenge of the scheme that the
 * client used carries the error. On the path of the MCP resource they name its metadata. A 401 names the scope there as well,
 * because MCP clients take the scope to request from the challenge.
 */
const makeChallenge = (accepted: AcceptedCredentialsShape, baseUrl: string) => {
  const { certificates, dpopAlgorithms, senderConstrained } = accepted
  const takesBearer = senderConstrained === "optional" || certificates !== null || dpopAlgorithms === null
  const schemes = {
    ...takesBearer ? { Bearer: "" } : {},
    ...dpopAlgorithms === null ? {} : { DPoP: `, algs="${dpopAlgorithms.join(" ")}"` }
  }
  const [gatewayMetadata, mcpMetadata] = [baseUrl, mcpResource(baseUrl)].map(resourceMetadataUrl)
  return ({ code, path, scheme, scope }: Occasion): string => {
    const isMcp = path === mcpPath
    const needed = isMcp && kindOf(code).status === 401 ? `, scope="${operationsRead}"` : ""
    const error = errorOf[code]
    const wrong = error === undefined
      ? ""
      : `, error="${error}", error_description="${kindOf(code).meaning}"`
    const concerned = scheme in schemes ? scheme : Object.keys(schemes)[0]
    const metadata = `resource_metadata="${isMcp ? mcpMetadata : gatewayMetadata}"`
    const named = scope === undefined ? "" : `, scope="${scope}"`
    return Object.entries(schemes)
      .map(([name, own]) =>
        `${name} realm="financial-agents-gateway"${name === concerned ? wrong + named : ""}${needed}${own}, ${metadata}`
      )
      .join(", ")
  }
}

/** The headers that a problem needs (RFC 9110 §10.2.3, §11.6.1). Its class declares them. */
const headersOf = (problem: AnyProblem): Readonly<Record<string, string>> => {
  const { retryAfter } = kindOf(problem.code)
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
  problem: AnyProblem,
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
 * Logs a problem: errors of the client as information, errors of the gateway as warnings with their cause. A defect has a line of its
 * own as well, with its stack.
 *
 * @internal
 */
export const logProblem = (problem: AnyProblem): Effect.Effect<void> => {
  const { code, instance, request_id, status } = problem
  const cause = causes.get(problem)
  return Effect.annotateLogs(status < 500 ? Effect.logInfo("Request refused") : Effect.logWarning("Request failed"), {
    code,
    status,
    path: maskTokens(instance),
    request_id,
    ...cause === undefined ? {} : { cause }
  })
}

/** Logs the problem of an agent's call that the gateway failed to answer: its response is a 200. @internal */
export const logFailedCall = (problem: AnyProblem): Effect.Effect<void> =>
  problem.status < 500 ? Effect.void : logProblem(problem)

/** The body as JSON. @internal */
export const problemJson = (problem: AnyProblem): string => JSON.stringify(encodeProblem(problem))
