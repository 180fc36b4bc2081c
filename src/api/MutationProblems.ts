/**
 * The problems of endpoints that take financial requests, besides those of `Problems`. The gateway's own endpoints read
 * and raise none of them; it describes them at `/problems/{code}` for the applications that do.
 *
 * They follow the IETF draft "The Idempotency-Key HTTP Header Field" (draft-ietf-httpapi-idempotency-key-header, §2.7),
 * but for its 409: two requests that compete for a key both get the operation, so there is nothing to refuse.
 */
import {
  declare,
  defineProblem,
  kinds,
  type Problem,
  type ProblemCode,
  problemKinds,
  type ProblemOf
} from "./Problems.ts"

/** The error codes of mutations. */
export const mutationProblemKinds = kinds({
  idempotency_key_required: {
    status: 400,
    retryable: false,
    title: "Idempotency key required",
    meaning: "The request carries no Idempotency-Key header, so nobody could tell its repetition from another request.",
    action: "Choose a key, such as a UUID, before the first attempt, and send it with every repetition of the request."
  },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    title: "Unsupported media type",
    meaning: "The body is of a media type that the endpoint does not read.",
    action: "Send JSON, with `Content-Type: application/json`."
  },
  idempotency_key_reused: {
    status: 422,
    retryable: false,
    title: "Idempotency key reused",
    meaning:
      "The idempotency key was used before, with another request. The earlier one stands; this one was not recorded.",
    action: "Repeat the earlier request as it was, or choose a new key if this is other work."
  },
  // Not 502 or 504, which clients and proxies repeat of their own accord.
  submission_outcome_unknown: {
    status: 500,
    retryable: false,
    submission_uncertain: true,
    title: "Submission outcome unknown",
    meaning: "A mutation may have reached the upstream provider, and the service cannot tell what became of it.",
    action:
      "Send the request again neither with this key nor with another. Read the operation until its result is proven."
  }
})

export type MutationProblemCode = keyof typeof mutationProblemKinds

const single =
  <Self>() => <const Name extends string, const Code extends MutationProblemCode>(name: Name, code: Code) => {
    const kind: (typeof mutationProblemKinds)[Code] = mutationProblemKinds[code]
    return defineProblem<Self>()(name, kind.status as (typeof mutationProblemKinds)[Code]["status"], [code], kind.title)
  }

/** 400 */
export class IdempotencyKeyRequired
  extends single<IdempotencyKeyRequired>()("IdempotencyKeyRequired", "idempotency_key_required")
{}
/** 415 */
export class UnsupportedMediaType
  extends single<UnsupportedMediaType>()("UnsupportedMediaType", "unsupported_media_type")
{}
/** 422 */
export class IdempotencyKeyReused
  extends single<IdempotencyKeyReused>()("IdempotencyKeyReused", "idempotency_key_reused")
{}
/**
 * 500, for endpoints that cannot tell what became of a mutation. One that has an operation answers with that instead: its
 * state is `indeterminate`.
 */
export class SubmissionOutcomeUnknown
  extends single<SubmissionOutcomeUnknown>()("SubmissionOutcomeUnknown", "submission_outcome_unknown")
{}

/** Every error class, by code. */
export const mutationProblemClasses = {
  idempotency_key_required: IdempotencyKeyRequired,
  unsupported_media_type: UnsupportedMediaType,
  idempotency_key_reused: IdempotencyKeyReused,
  submission_outcome_unknown: SubmissionOutcomeUnknown
} as const

/** Any error body that is peculiar to mutations. */
export type MutationProblem = InstanceType<(typeof mutationProblemClasses)[MutationProblemCode]>

/** The error responses as endpoints and middleware declare them. */
export const mutationResponses = {
  idempotencyKeyRequired: declare(IdempotencyKeyRequired),
  unsupportedMediaType: declare(UnsupportedMediaType),
  idempotencyKeyReused: declare(IdempotencyKeyReused),
  submissionOutcomeUnknown: declare(SubmissionOutcomeUnknown)
}

/** Any code of the service: of the gateway's own endpoints, and of mutations. */
export type AnyProblemCode = ProblemCode | MutationProblemCode

/** Any error body of the service. */
export type AnyProblem = Problem | MutationProblem

/** Both catalogues. */
export const allProblemKinds = { ...problemKinds, ...mutationProblemKinds }

/** The error that carries a given code. */
export type AnyProblemOf<Code extends AnyProblemCode> = Code extends ProblemCode ? ProblemOf<Code>
  : Code extends MutationProblemCode ? InstanceType<(typeof mutationProblemClasses)[Code]>
  : never
