/**
 * The evidence of a person: an exact status read that a person made, by asking the provider.
 */
import * as Schema from "effect/Schema"
import { isInstant } from "./Timestamp.ts"

const Text = Schema.String.check(
  Schema.isPattern(/\S/u, { expected: "text" }),
  Schema.isMaxLength(4096, { expected: "at most 4096 characters" })
)

/**
 * What an operator states of the provider's answer. The trigger `operations_evidence` checks the same members:
 * `migrations/0019_operator_evidence.sql`.
 */
export const OperatorEvidence = Schema.Struct({
  /** What the operator asked about the operation. */
  question: Text,
  /** Whom the operator asked: an office or a person at the provider, or a document of the provider. */
  asked: Text,
  /** When the operator asked. */
  asked_at: Schema.String.check(
    Schema.makeFilter(isInstant, { expected: "an RFC 3339 date-time such as 2026-05-02T09:30:00Z" })
  ),
  /** The provider's reference of the operation; of its answer, such as a case number, if it knows no such operation. */
  reference: Text,
  /** The answer in words. */
  answer: Schema.optionalKey(Text),
  /** SHA-256 of the document that has the answer. */
  document_sha256: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u, { expected: "64 lower-case hexadecimal digits" }))
  ),
  /** Where people find the answer: a case or a document. It proves nothing by itself, so the trigger does not ask for it. */
  link: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^https:\/\/\S{1,2040}$/u, { expected: "a link that begins with https://" }))
  )
}).check(
  Schema.makeFilter(({ answer, document_sha256 }) => answer !== undefined || document_sha256 !== undefined, {
    expected: "an answer, a document_sha256, or both"
  })
)
export type OperatorEvidence = typeof OperatorEvidence.Type

/** Whether a person recorded the transition. */
export const isByOperator = (evidence: Schema.Json): boolean =>
  typeof evidence === "object" && evidence !== null && "by" in evidence && evidence["by"] === "operator"

/** Whether the evidence says when an operator asked. */
export const hasAskedAt = Schema.is(
  Schema.Struct({ by: Schema.Literal("operator"), asked_at: OperatorEvidence.fields.asked_at })
)

/** Whether the evidence has the members of `OperatorEvidence`. It may have more, such as who recorded it. */
export const isOperatorEvidence = Schema.is(OperatorEvidence)
