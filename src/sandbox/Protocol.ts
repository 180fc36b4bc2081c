/**
 * The protocol of the sandbox provider: JSON over HTTP, snake_case.
 *
 *     POST /mutations          Idempotency-Key (required), Send-Before (optional), a `SandboxRequest`
 *       200, 202               `SandboxAnswer`: carried out, or accepted and not yet decided
 *       422                    `SandboxProblem`: refused for good, nothing was carried out
 *       409 too_late           `Send-Before` had passed; nothing was carried out
 *       409 duplicate_key      the key was received before, and the fault `duplicate_key_rejected` is on
 *       400                    the request is invalid; nothing was carried out
 *       401 unauthorized       with the fault of this name; nothing was carried out
 *       429 too_many_requests  with the fault of this name; `Retry-After` says when to ask again; nothing was carried out
 *     GET /mutations/{key}
 *       200                    `SandboxStatus`
 *       404 not_found          the submission is not known now, and may be known later
 *       401, 429               as above
 *
 * If the sandbox has the URL of a receiver, it sends a `SandboxWebhook` when it accepts a submission and when the outcome is
 * final, signed as the Standard Webhooks specification says.
 *
 * A repeated key gets its first answer again. After a 5xx the outcome is uncertain. An answer about a submission
 * contains its key. With the fault `foreign_answer` it is the answer about another submission, and contains that key.
 */
import * as Schema from "effect/Schema"

/** Path for new submissions. The status of a submission is at `/mutations/{key}`. */
export const submissionsPath = "/mutations"

/** Header with the key of the submission: the operation's id. */
export const idempotencyKeyHeader = "idempotency-key"

/** Header with the instant, in RFC 3339, after which the sandbox does not carry out the submission. */
export const sendBeforeHeader = "send-before"

/** Names a submission: 1 to 255 visible ASCII characters. */
export const SubmissionKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" })
)
export type SubmissionKey = typeof SubmissionKey.Type

/** A submission. The member `sandbox` of the payload instructs the sandbox: see `Instruction`. */
export const SandboxRequest = Schema.Struct({
  type: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64)),
  payload: Schema.Json
})
export type SandboxRequest = typeof SandboxRequest.Type

/** Body of 200 for a submission that succeeded at once, and of 202 for a pending one. */
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

/** The failures that the sandbox chooses from, if it is not told one. */
export const sandboxFailures: ReadonlyArray<SandboxFailure> = [
  { code: "insufficient_funds", message: "The account does not hold the amount." },
  { code: "account_closed", message: "The account is closed." },
  { code: "limit_exceeded", message: "The amount exceeds the limit of the account." }
]

/** Body of every answer that is neither 200 nor 202, unless a fault strikes. It has the key if the request had one. */
export const SandboxProblem = Schema.Struct({
  ...SandboxFailure.fields,
  idempotency_key: Schema.optionalKey(SubmissionKey)
})
export type SandboxProblem = typeof SandboxProblem.Type

/** The status of a submission. `succeeded` and `failed` are final. The status of a refused submission is `failed`. */
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

/** Body of a webhook: the status at `timestamp`, in RFC 3339. A refused submission has none. */
export const SandboxWebhook = Schema.Struct({
  type: Schema.Literals(["mutation.accepted", "mutation.settled"]),
  timestamp: Schema.String,
  data: SandboxStatus
})
export type SandboxWebhook = typeof SandboxWebhook.Type
