/** The evidence of a person: an exact status read that a person made, by asking the provider. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { invalidMembers, strict } from "./InvalidMember.ts"
import { isStorable } from "./PayloadText.ts"
import { isInstant } from "./Timestamp.ts"

const Text = Schema.String.check(
  Schema.isPattern(/\S/u, { expected: "text" }),
  Schema.isMaxLength(4096, { expected: "at most 4096 characters" })
)

const Members = Schema.Struct({
  /** What the operator asked about the operation. */
  question: Text,
  /** Whom the operator asked: an office or a person at the provider, or a document of the provider. */
  asked: Text,
  /** When the operator asked. */
  asked_at: Schema.String.check(
    Schema.makeFilter(isInstant, { expected: "an RFC 3339 date-time such as 2026-05-02T09:30:00Z" })
  ),
  /** The provider's reference of the operation, which no other one has. An outcome stores it. `reference_of` says if it is another one. */
  reference: Schema.String.check(
    Schema.isPattern(/^\S(?:.*\S)?$/su, { expected: "text without space at its ends" }),
    Schema.isMaxLength(1024, { expected: "at most 1024 characters" }),
    isStorable
  ),
  /** `answer`: the reference is that of the answer, such as a case number, because no payment is known, or several are meant. */
  reference_of: Schema.optionalKey(Schema.Literals(["payment", "answer"])),
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
})

const hasAnswer = ({ answer, document_sha256 }: { readonly answer?: unknown; readonly document_sha256?: unknown }) =>
  answer !== undefined || document_sha256 !== undefined
const answerExpected = "an answer, a document_sha256, or both"

/**
 * What an operator states of the provider's answer. The trigger `operations_evidence` checks the same members:
 * `migrations/0019_operator_evidence.sql`.
 */
export const OperatorEvidence = Members.check(Schema.makeFilter(hasAnswer, { expected: answerExpected }))
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

const decodeMembers = Schema.decodeUnknownResult(Members, strict)

/** All that is wrong with the form of evidence. A schema that has a missing member does not look for an answer. */
export const evidenceFaults = (evidence: unknown): ReadonlyArray<string> => {
  const members = decodeMembers(evidence)
  const faults = Result.isSuccess(members)
    ? []
    : invalidMembers(members.failure).map(({ message, path }) => [...path, message].join(": "))
  return typeof evidence !== "object" || evidence === null || hasAnswer(evidence)
    ? faults
    : [...faults, `Expected ${answerExpected}`]
}

const isStated = Schema.is(
  Schema.Struct({
    by: Schema.Literal("operator"),
    reference: Members.fields.reference,
    reference_of: Members.fields.reference_of
  })
)

/** The reference by which a person ends an operation. Null: the evidence has none, or is no person's. */
export const statedReference = (evidence: Schema.Json) =>
  isStated(evidence) ? { text: evidence.reference, isOfPayment: evidence.reference_of !== "answer" } : null
