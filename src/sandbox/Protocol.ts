/**
 * What goes over the wire between the sandbox provider and those who submit to it: JSON over HTTP, snake_case.
 *
 *     POST /mutations          Idempotency-Key (required), Send-Before (optional), a `SandboxRequest`
 *       200, 202               `SandboxAnswer`: carried out, or taken and not yet decided
 *       422                    `SandboxProblem`: refused for ever, nothing was carried out
 *       409 too_late           `Send-Before` had passed; nothing was carried out
 *       409 duplicate_key      the key was received before, and the fault `duplicate_key_rejected` is on
 *       400                    the request cannot be understood; nothing was carried out
 *     GET /mutations/{key}
 *       200                    `SandboxStatus`
 *       404 not_found          no such submission is known now: it may be later
 *
 * A key that was received before gets its first answer again. Any 5xx is uncertain. An answer about a submission names it by
 * its key, unless the fault `foreign_answer` is on: then it names another one, and is about that one.
 */
import * as Schema from "effect/Schema"

/** Where submissions are submitted; the status of one is read at `/mutations/{key}`. */
export const submissionsPath = "/mutations"

/** Header that names a submission: the operation's id. */
export const idempotencyKeyHeader = "idempotency-key"

/** Header with the instant, in RFC 3339, after which the submission must not be carried out any more. */
export const sendBeforeHeader = "send-before"

/** The name of a submission: visible ASCII, up to 255 characters. */
export const SubmissionKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" })
)
export type SubmissionKey = typeof SubmissionKey.Type

/** What is asked for. A member `sandbox` of the payload tells the sandbox what to do with it: see `Instruction`. */
export const SandboxRequest = Schema.Struct({
  type: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64)),
  payload: Schema.Json
})
export type SandboxRequest = typeof SandboxRequest.Type

/** 200 when it succeeded at once, 202 when it is pending. */
export const SandboxAnswer = Schema.Struct({
  reference: Schema.String,
  idempotency_key: SubmissionKey,
  status: Schema.Literals(["pending", "succeeded"])
})
export type SandboxAnswer = typeof SandboxAnswer.Type

/** Why a submission failed, was refused or is not known. */
export const SandboxFailure = Schema.Struct({
  code: Schema.String,
  message: Schema.String
})
export type SandboxFailure = typeof SandboxFailure.Type

/** Every answer that is neither 200 nor 202, unless a fault is at work. It has the key where the request had one. */
export const SandboxProblem = Schema.Struct({
  ...SandboxFailure.fields,
  idempotency_key: Schema.optionalKey(SubmissionKey)
})
export type SandboxProblem = typeof SandboxProblem.Type

/** What became of a submission. `succeeded` and `failed` are final; a refused submission reads as `failed`. */
export const SandboxStatus = Schema.Union([
  SandboxAnswer,
  Schema.Struct({
    reference: Schema.String,
    idempotency_key: SubmissionKey,
    status: Schema.Literal("failed"),
    ...SandboxFailure.fields
  })
])
export type SandboxStatus = typeof SandboxStatus.Type
