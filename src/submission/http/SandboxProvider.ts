/** The adapter for the sandbox provider, and the shortest example of an adapter. */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ProviderReference } from "../../domain/Submission.ts"
import {
  idempotencyKeyHeader,
  SandboxAnswer,
  SandboxFailure,
  SandboxProblem,
  sendBeforeHeader,
  submissionsPath
} from "../../sandbox/Protocol.ts"
import { type AnswerNames, ProviderAdapter } from "../providers/ProviderAdapter.ts"
import * as HttpProvider from "./HttpProvider.ts"
import type { HttpProviderOptions } from "./HttpProviderOptions.ts"

/** Options of the adapter. See `HttpProviderOptions`. */
export interface SandboxProviderOptions
  extends Pick<HttpProviderOptions, "baseUrl" | "credentials" | "deadlines" | "failures" | "limit">
{
  /** As in `ProviderPromises`: the sandbox refuses late requests. None by default. */
  readonly notFoundIsFinalAfter?: Duration.Input
  /** The sandbox behind the address. Default: the address. Give it if workers reach one sandbox by several addresses. */
  readonly account?: string
}

// The schemas of the protocol, narrowed to the meaning of each status.
const answerOf = <S extends string>(status: S) =>
  Schema.Struct({ ...SandboxAnswer.fields, reference: ProviderReference, status: Schema.Literal(status) })
const Pending = answerOf("pending")
const Succeeded = answerOf("succeeded")
const Status = Schema.Union([
  Pending,
  Succeeded,
  Schema.Struct({ ...answerOf("failed").fields, ...SandboxFailure.fields })
])
const problem = <C extends string>(code: C) => Schema.Struct({ ...SandboxProblem.fields, code: Schema.Literal(code) })

const answered = (schema: Schema.ConstraintDecoder<typeof Status.Type>) =>
  HttpProvider.declareOrder({
    schema,
    names: ({ idempotency_key, reference }) => ({ reference, operation_id: idempotency_key }),
    result: (body) => {
      if (body.status === "failed") return { state: "failed", code: body.code }
      return { state: body.status === "pending" ? "submitted" : "succeeded" }
    },
    evidence: HttpProvider.evidenceOf
  })

/** Problems have no reference, and some have no key. */
const namesOf = ({ idempotency_key }: SandboxProblem): AnswerNames => ({
  reference: null,
  operation_id: idempotency_key ?? null
})

const refusal = (schema: Schema.ConstraintDecoder<SandboxProblem>) =>
  HttpProvider.refusal(schema, ({ code }) => code, namesOf)

/** The protocol documents that nothing was carried out. Without this body, a proxy may have answered. */
const turnedAway = HttpProvider.onBody(
  problem("too_many_requests"),
  (_, answer) => HttpProvider.refusedForNow(answer)
)

const decodeSubmission = HttpProvider.byStatus({
  200: answered(Succeeded).submitted,
  202: answered(Pending).submitted,
  // The protocol documents that these are final and that nothing was carried out.
  400: refusal(SandboxProblem),
  422: refusal(SandboxProblem),
  401: HttpProvider.onBody(problem("unauthorized"), (_, answer) => HttpProvider.wrongCredentials(answer)),
  429: turnedAway,
  409: HttpProvider.firstOf(
    // The protocol documents that this is final and that nothing was carried out. The worker does not try again,
    // although its own clock may still allow it: the clocks may differ.
    refusal(problem("too_late")),
    // The key was sent before. The outcome of that submission is not in this answer.
    HttpProvider.uncertain(problem("duplicate_key"), () => "the provider knows the key already")
  )
})

const decodeStatus = HttpProvider.byStatus({
  429: turnedAway,
  200: answered(Status).read,
  404: HttpProvider.notFound(problem("not_found"), namesOf)
})

/** What clients read of a refusal. A sandbox that is told another code needs it in the option `failures`. */
const failures = {
  invalid_key: { message: "The provider does not take the key of the request." },
  invalid_request: { message: "The provider does not take the request." },
  too_late: { message: "The request reached the provider too late, and was not carried out." }
}

/** The adapter. */
export const make = (
  { account, notFoundIsFinalAfter, ...options }: SandboxProviderOptions
): Effect.Effect<ProviderAdapter["Service"], never, HttpClient.HttpClient> =>
  HttpProvider.make({
    ...options,
    promises: {
      keys: "for_ever",
      readByOperationId: "yes",
      lateRequests: { header: sendBeforeHeader },
      ...notFoundIsFinalAfter === undefined ? {} : { notFoundIsFinalAfter }
    },
    // Each sandbox is an account of its own.
    ...notFoundIsFinalAfter === undefined ? {} : { account: account ?? `sandbox ${options.baseUrl}` },
    failures: { ...failures, ...options.failures },
    submit: {
      request: ({ type }, payload) => ({ path: submissionsPath, body: { type, payload } }),
      decode: decodeSubmission
    },
    status: {
      request: ({ id }) => ({ path: `${submissionsPath}/${id}` }),
      decode: decodeStatus
    },
    idempotencyKeyHeader
  })

/** The adapter as the `ProviderAdapter` of an application. */
export const layer = (options: SandboxProviderOptions): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> =>
  Layer.effect(ProviderAdapter, make(options))
