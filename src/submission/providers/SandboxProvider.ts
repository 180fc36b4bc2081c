/**
 * The adapter for the sandbox provider, and the shortest example of an adapter.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
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
import {
  byStatus,
  type Decode,
  evidenceOf,
  firstOf,
  onBody,
  refusedForNow,
  wrongCredentials
} from "../http/HttpDecoding.ts"
import * as HttpProvider from "../http/HttpProvider.ts"
import type { HttpProviderOptions } from "../http/HttpProviderOptions.ts"
import {
  type AnswerNames,
  type NotSent,
  ProviderAdapter,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "./ProviderAdapter.ts"

/** Options of the adapter. See `HttpProviderOptions`. */
export interface SandboxProviderOptions
  extends Pick<HttpProviderOptions, "baseUrl" | "credentials" | "deadlines" | "failures" | "limit">
{
  /**
   * As in `ProviderPromises`: the sandbox refuses late requests. None by default.
   */
  readonly notFoundIsFinalAfter?: Duration.Input
  /** The sandbox behind the address. Default: the address. Give it if workers reach one sandbox by several addresses. */
  readonly account?: string
}

// The schemas of the protocol, narrowed to the meaning of each status.
const answerOf = <S extends string>(status: S) =>
  Schema.Struct({ ...SandboxAnswer.fields, reference: ProviderReference, status: Schema.Literal(status) })
const succeeded = answerOf("succeeded")
const pending = answerOf("pending")
const failed = Schema.Struct({ ...answerOf("failed").fields, ...SandboxFailure.fields })
const problem = <C extends string>(code: C) => Schema.Struct({ ...SandboxProblem.fields, code: Schema.Literal(code) })

const namesOf = <R extends ProviderReference>(body: { readonly reference: R; readonly idempotency_key: string }) => ({
  reference: body.reference,
  operation_id: body.idempotency_key
})

/** Problems have no reference, and some have no key. */
const namesOfProblem = ({ idempotency_key }: typeof SandboxProblem.Type): AnswerNames => ({
  reference: null,
  operation_id: idempotency_key ?? null
})

const refusal = <A extends typeof SandboxProblem.Type>(schema: Schema.Codec<A, unknown>) =>
  onBody(
    schema,
    (body, answer) =>
      SubmissionAnswer.Rejected({
        code: body.code,
        names: namesOfProblem(body),
        evidence: evidenceOf(answer)
      })
  )

/** The protocol documents that nothing was carried out. Without this body, a proxy may have answered. */
const turnedAway = onBody(problem("too_many_requests"), (_, answer) => refusedForNow(answer))

const decodeSubmission: Decode<SubmissionAnswer, NotSent | Uncertain> = byStatus({
  200: onBody(
    succeeded,
    (body, answer) => SubmissionAnswer.Succeeded({ names: namesOf(body), evidence: evidenceOf(answer) })
  ),
  202: onBody(
    pending,
    (body, answer) => SubmissionAnswer.Acknowledged({ names: namesOf(body), evidence: evidenceOf(answer) })
  ),
  // The protocol documents that these are final and that nothing was carried out.
  400: refusal(SandboxProblem),
  422: refusal(SandboxProblem),
  401: onBody(problem("unauthorized"), (_, answer) => wrongCredentials(answer)),
  429: turnedAway,
  409: firstOf(
    // The protocol documents that this is final and that nothing was carried out. The worker does not try again,
    // although its own clock may still allow it: the clocks may differ.
    refusal(problem("too_late")),
    // The key was sent before. The outcome of that submission is not in this answer.
    onBody(problem("duplicate_key"), () => Effect.fail(new Uncertain({ reason: "the provider knows the key already" })))
  )
})

const decodeStatus: Decode<StatusAnswer, NotSent> = byStatus({
  429: turnedAway,
  200: firstOf(
    onBody(
      pending,
      (body, answer) => StatusAnswer.Proven({ state: "submitted", names: namesOf(body), evidence: evidenceOf(answer) })
    ),
    onBody(
      succeeded,
      (body, answer) => StatusAnswer.Proven({ state: "succeeded", names: namesOf(body), evidence: evidenceOf(answer) })
    ),
    onBody(failed, (body, answer) =>
      StatusAnswer.Proven({
        state: "failed",
        code: body.code,
        names: namesOf(body),
        evidence: evidenceOf(answer)
      }))
  ),
  404: onBody(
    problem("not_found"),
    (body, answer) => StatusAnswer.NotFound({ names: namesOfProblem(body), evidence: evidenceOf(answer) })
  )
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
