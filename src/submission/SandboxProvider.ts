/**
 * The adapter for the sandbox provider, and the shortest example of what an adapter has to say.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ProviderReference } from "../domain/Submission.ts"
import {
  idempotencyKeyHeader,
  MutationAnswer,
  MutationProblem,
  mutationsPath,
  sendBeforeHeader
} from "../sandbox/Protocol.ts"
import { byStatus, type Decode, evidenceOf, firstOf, onBody } from "./HttpDecoding.ts"
import * as HttpProvider from "./HttpProvider.ts"
import { type NotSent, Provider, StatusAnswer, SubmissionAnswer, Uncertain } from "./Provider.ts"

/** Where the sandbox is, and how it is spoken to. See `HttpProviderOptions`. */
export interface SandboxProviderOptions
  extends Pick<HttpProvider.HttpProviderOptions, "baseUrl" | "credentials" | "deadlines">
{
  /** The sandbox refuses late requests, so that a window can be declared; by default none is. */
  readonly notFoundIsFinalAfter?: Duration.Input
}

// The wire's schemas, narrowed to what each status means.
const succeeded = Schema.Struct({ ...MutationAnswer.fields, status: Schema.Literal("succeeded") })
const pending = Schema.Struct({ reference: ProviderReference, status: Schema.Literal("pending") })
const failed = Schema.Struct({
  ...MutationAnswer.fields,
  status: Schema.Literal("failed"),
  ...MutationProblem.fields
})
const problem = <C extends string>(code: C) => Schema.Struct({ ...MutationProblem.fields, code: Schema.Literal(code) })

const refusal = <A extends typeof MutationProblem.Type>(schema: Schema.Codec<A, unknown>) =>
  onBody(
    schema,
    ({ code, message }, answer) => SubmissionAnswer.Rejected({ code, message, evidence: evidenceOf(answer) })
  )

const decodeSubmission: Decode<SubmissionAnswer, NotSent | Uncertain> = byStatus({
  200: onBody(succeeded, (_, answer) => SubmissionAnswer.Succeeded({ evidence: evidenceOf(answer) })),
  202: onBody(
    pending,
    ({ reference }, answer) => SubmissionAnswer.Acknowledged({ reference, evidence: evidenceOf(answer) })
  ),
  // Documented: refused for ever, nothing was carried out.
  400: refusal(MutationProblem),
  422: refusal(MutationProblem),
  409: firstOf(
    // Documented: nothing was carried out, and nothing will be. Not to be tried again: our clocks may differ.
    refusal(problem("too_late")),
    // Somebody has sent this key already: what became of that is not said here.
    onBody(problem("duplicate_key"), () => Effect.fail(new Uncertain({ reason: "the provider knows the key already" })))
  )
})

const decodeStatus: Decode<StatusAnswer> = byStatus({
  200: firstOf(
    onBody(
      pending,
      ({ reference }, answer) => StatusAnswer.Proven({ state: "submitted", reference, evidence: evidenceOf(answer) })
    ),
    onBody(
      succeeded,
      (_, answer) => StatusAnswer.Proven({ state: "succeeded", evidence: evidenceOf(answer) })
    ),
    onBody(
      failed,
      ({ code, message }, answer) =>
        StatusAnswer.Proven({ state: "failed", code, message, evidence: evidenceOf(answer) })
    )
  ),
  404: onBody(
    problem("not_found"),
    () => StatusAnswer.NotProven({ reason: "not_found", detail: "the provider does not know the operation" })
  )
})

/** The adapter. */
export const make = (
  options: SandboxProviderOptions
): Effect.Effect<Provider["Service"], never, HttpClient.HttpClient> =>
  HttpProvider.make({
    ...options,
    submit: {
      request: ({ type }, payload) => ({ path: mutationsPath, body: { type, payload } }),
      decode: decodeSubmission
    },
    status: {
      request: ({ id }) => ({ path: `${mutationsPath}/${id}` }),
      decode: decodeStatus
    },
    idempotencyKeyHeader,
    sendBeforeHeader
  })

/** The adapter as the `Provider` of an application. */
export const layer = (options: SandboxProviderOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(options))
