/**
 * What goes over the wire between the sandbox provider and those who submit to it: JSON over HTTP, snake_case.
 *
 *     POST /mutations          Idempotency-Key (required), Send-Before (optional), a `MutationRequest`
 *       200, 202               `MutationAnswer`: carried out, or taken and not yet decided
 *       422                    `MutationProblem`: refused for ever, nothing was carried out
 *       409 too_late           `Send-Before` had passed; nothing was carried out
 *       409 duplicate_key      the key was received before, and the fault `duplicate_key_rejected` is on
 *       400                    the request cannot be understood; nothing was carried out
 *     GET /mutations/{key}
 *       200                    `MutationStatus`
 *       404 not_found          no such mutation is known now: it may be later
 *
 * A key that was received before gets its first answer again. Any 5xx is uncertain. An answer about a mutation names it by
 * its key, unless the fault `foreign_answer` is on: then it names another one, and is about that one.
 */
import * as Schema from "effect/Schema"

/** Where mutations are submitted; the status of one is read at `/mutations/{key}`. */
export const mutationsPath = "/mutations"

/** Header that names a mutation: the operation's id. */
export const idempotencyKeyHeader = "idempotency-key"

/** Header with the instant, in RFC 3339, after which the mutation must not be carried out any more. */
export const sendBeforeHeader = "send-before"

/** The name of a mutation: visible ASCII, up to 255 characters. */
export const MutationKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" })
)
export type MutationKey = typeof MutationKey.Type

/** What is asked for. A member `sandbox` of the payload tells the sandbox what to do with it: see `Instruction`. */
export const MutationRequest = Schema.Struct({
  type: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64)),
  payload: Schema.Json
})
export type MutationRequest = typeof MutationRequest.Type

/** 200 when it succeeded at once, 202 when it is pending. */
export const MutationAnswer = Schema.Struct({
  reference: Schema.String,
  idempotency_key: MutationKey,
  status: Schema.Literals(["pending", "succeeded"])
})
export type MutationAnswer = typeof MutationAnswer.Type

/** Why a mutation failed, was refused or is not known. */
export const MutationFailure = Schema.Struct({
  code: Schema.String,
  message: Schema.String
})
export type MutationFailure = typeof MutationFailure.Type

/** Every answer that is neither 200 nor 202, unless a fault is at work. It has the key where the request had one. */
export const MutationProblem = Schema.Struct({
  ...MutationFailure.fields,
  idempotency_key: Schema.optionalKey(MutationKey)
})
export type MutationProblem = typeof MutationProblem.Type

/** What became of a mutation. `succeeded` and `failed` are final; a refused mutation reads as `failed`. */
export const MutationStatus = Schema.Union([
  MutationAnswer,
  Schema.Struct({
    reference: Schema.String,
    idempotency_key: MutationKey,
    status: Schema.Literal("failed"),
    ...MutationFailure.fields
  })
])
export type MutationStatus = typeof MutationStatus.Type
