/**
 * What the answer of a provider leaves behind: the evidence in the history, the contradiction of an answer about another operation, and the
 * failure that clients see. Code and message of that are those that the adapter declares, and never text of the provider
 * (specification, "Resources and their fields": the public form omits provider-specific data).
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { declaredFailure, type DeclaredFailures, gatewayFailure } from "../../domain/GatewayFailures.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import { findTooDeep, maxPayloadLevels } from "../../domain/Idempotency.ts"
import type { OperationFailure, OperationId } from "../../domain/Operation.ts"
import type { ProviderReference } from "../../domain/Submission.ts"
import { makeLogOnce } from "../submissionLog.ts"
import type { AnswerNames } from "./ProviderAdapter.ts"

/** The justification of a transition, as the history stores it. */
export interface Evidence {
  readonly [member: string]: Schema.Json
}

/** UTF-16 code units of the JSON text. */
const longest = 65_536

/**
 * Makes evidence of a provider's answer. An answer that is too deep or too long for the ledger must not prevent the
 * record of the outcome. It is left out, and `answer_omitted` gives the reason.
 */
export const answered = (by: "submission" | "status_read" | "fence", answer: Schema.Json): Evidence => {
  // An adapter without type checks may leave it out.
  if (answer === undefined) return { by, answer_omitted: "the adapter gave none" }
  // PostgreSQL and JavaScript fail on very deep values; answers of providers have few levels.
  if (findTooDeep(answer) !== null) return { by, answer_omitted: `nested more than ${maxPayloadLevels} levels deep` }
  const { length } = JSON.stringify(answer)
  return length > longest ? { by, answer_omitted: `${length} characters long` } : { by, answer }
}

/** UTF-16 code units of a name in a log. */
const longestName = 64

/** Removes line breaks and terminal sequences and cuts long text, because providers choose references, ids and codes. */
const loggable = (name: unknown): string =>
  typeof name === "string" ? name.slice(0, longestName).replace(/[^\x20-\x7e]/g, "?") : `(${typeof name})`

/** An answer names another operation than the one that was asked for, by this member. */
export interface Contradiction {
  readonly member: keyof AnswerNames
  /** The ledger's name and the answer's name. For logs: in printable ASCII, and cut to 64 UTF-16 code units. */
  readonly expected: string
  readonly named: string
}

/**
 * Finds the member by which an answer names another operation: its id or its reference. Null when there is none. A
 * member that is null contradicts nothing, and neither does a reference while the ledger has none. `names` is missing
 * only when an adapter is written without types. That counts as a contradiction, because the named operation is not
 * known.
 */
export const findContradiction = (
  names: AnswerNames | null | undefined,
  operation: { readonly id: OperationId; readonly reference: ProviderReference | null }
): Contradiction | null => {
  const differing = (member: keyof AnswerNames, expected: string | null): Contradiction | null => {
    const named = names?.[member]
    if (named === null || (expected === null && typeof named === "string") || named === expected) return null
    return { member, expected: loggable(expected), named: loggable(named) }
  }
  return differing("operation_id", operation.id) ?? differing("reference", operation.reference)
}

/** For the history and for logs. */
export const describeContradiction = ({ expected, member, named }: Contradiction): string =>
  `the answer names another operation: its ${member} is ${named}, not ${expected}`

const rejected = gatewayFailure("provider_rejected")

/** The declared or common failure of a code. The refusal is proven also without one: then the failure is `provider_rejected`. */
export const publicFailure = (failures: DeclaredFailures | undefined, code: string): OperationFailure =>
  declaredFailure(failures, code) ?? rejected

/**
 * Makes a function that logs codes that an adapter does not declare, once for each provider and code. `said` names the kind of
 * answer that had them.
 */
export const makeFailureCheck = (said: "submission" | "status read") => {
  const logOnce = makeLogOnce()
  return (provider: ProviderName, failures: DeclaredFailures | undefined, code: string): Effect.Effect<void> => {
    if (code === rejected.code || declaredFailure(failures, code) !== null) return Effect.void
    const given = loggable(code)
    const log = Effect.annotateLogs(
      Effect.logWarning("An adapter refused with a code that it does not declare: declare the code in `failures`"),
      { provider, said, given, published: rejected.code }
    )
    return logOnce(`${provider} ${given}`, log)
  }
}
