/**
 * A durable operation: one piece of asynchronous financial work, and its state machine.
 *
 * The room `domain`: the words of the field as schemas, and rules without I/O. Read this file first.
 *
 * Members have the same name in SQL and on the wire, so they are in snake_case.
 */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { isByOperator, isOperatorEvidence } from "./OperatorEvidence.ts"
import { isStorable } from "./PayloadText.ts"
import { makeInstant, Timestamp } from "./Timestamp.ts"

/** The form of an `OperationId`. @internal */
export const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u

/** Most UTF-16 units of a type and of a failure code. */
const maxNameLength = 64

/** Most UTF-16 units of a failure message. @internal */
export const maxMessageLength = 1024

/** A UUIDv7 (RFC 9562 §5.7) in its canonical lower-case form. */
export const OperationId = Schema.String.check(
  Schema.isPattern(idPattern, { expected: "a lower-case UUIDv7" })
).pipe(Schema.brand("OperationId")).annotate({
  identifier: "OperationId",
  description: "Identifier of the operation, a UUIDv7.",
  format: "uuid",
  examples: ["019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f" as never]
})
export type OperationId = typeof OperationId.Type
/**
 * The instant at which the gateway accepted the operation, from its id: by the clock of the process that accepted it. The provider's
 * clock may differ, so a search of the provider's list begins earlier, such as a day.
 */
export const acceptedAt = ({ id }: { readonly id: OperationId }): DateTime.Utc =>
  makeInstant(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16))

/** Whether a value is an `OperationId`. @internal */
export const isOperationId = Schema.is(OperationId)

/** What kind of work an operation stands for, such as `payment` or `payment.refund`. */
export const OperationType = Schema.String.check(
  Schema.isPattern(/^[a-z][a-z0-9_.]*$/u, { expected: "a lower-case name such as payment" }),
  Schema.isMaxLength(maxNameLength)
).annotate({ description: "Kind of work the operation stands for, such as `payment`." })
export type OperationType = typeof OperationType.Type

/** The seven states (specification, "States and transitions"), in the order in which an operation may visit them. @internal */
export const operationStates = [
  "accepted",
  "submitting",
  "submitted",
  "indeterminate",
  "succeeded",
  "failed",
  "cancelled"
] as const

/** One of the seven states. */
export const OperationState = Schema.Literals(operationStates).annotate({
  identifier: "OperationState",
  message: `Expected one of ${operationStates.join(", ")}`,
  description: "`succeeded`, `failed` and `cancelled` are final. `indeterminate` means that the network failed after a "
    + "mutation may have been sent: keep reading, never repeat the mutation."
})
export type OperationState = typeof OperationState.Type

/**
 * The transition table of the specification: every transition that is allowed, and no other.
 *
 * Tests compare the trigger in `migrations/` and the documentation with this table.
 *
 * @internal
 */
export const transitions: Readonly<Record<OperationState, ReadonlyArray<OperationState>>> = {
  accepted: ["submitting", "failed", "cancelled"],
  submitting: ["submitted", "succeeded", "failed", "indeterminate"],
  submitted: ["succeeded", "failed", "indeterminate"],
  indeterminate: ["submitted", "succeeded", "failed"],
  succeeded: [],
  failed: [],
  cancelled: []
}

/** Tells whether the specification permits an operation to move from one state to another. @internal */
export const canTransition = (from: OperationState, to: OperationState): boolean => transitions[from].includes(to)

/** A list: states come from the database as new strings, which a `Set` would hash. */
const terminalStates = operationStates.filter((state) => transitions[state].length === 0)

/** A terminal state has no way out: no mutation can still be sent. */
export const isTerminal = (state: OperationState): boolean => terminalStates.includes(state)

/**
 * An upstream write may have landed, and nothing proves whether it did: the work must not be submitted again. In `submitting` a
 * worker may have sent it before it stopped. In `submitted` the provider has confirmed the receipt; only the result is open.
 *
 * @internal
 */
export const submissionUncertain = (state: OperationState): boolean =>
  state === "submitting" || state === "indeterminate"

/** A transition out of `indeterminate` requires evidence, which is recorded. @internal */
export const requiresEvidence = (from: OperationState): boolean => from === "indeterminate"

/**
 * Evidence is a JSON object with at least one member. That of a person (`by` is `operator`) states what the person asked the
 * provider, and the answer.
 *
 * @internal
 */
export const isEvidence = (evidence: Schema.Json): boolean =>
  typeof evidence === "object" && evidence !== null && Object.keys(evidence).length > 0
  && !Array.isArray(evidence) && (!isByOperator(evidence) || isOperatorEvidence(evidence))

/** Why an operation failed. The code is stable; the message is for people. Neither holds provider-specific data. */
export const OperationFailure = Schema.Struct({
  code: Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9_]*$/u), Schema.isMaxLength(maxNameLength)).annotate({
    description: "Stable machine-readable failure code."
  }),
  message: Schema.String.check(
    Schema.isMinLength(1),
    Schema.isMaxLength(maxMessageLength),
    isStorable
  ).annotate({ description: "Human-readable explanation of the failure." })
}).annotate({ identifier: "OperationFailure" })
export type OperationFailure = typeof OperationFailure.Type
/** Whether a value is an `OperationFailure`, which may become public. @internal */
export const isOperationFailure = Schema.is(OperationFailure)

/**
 * The public form of an operation. A reader sees no more: no owner, subject, client, provider connection, payload, provider,
 * reference or evidence.
 *
 * Everything but `under_review` is a function of the revision.
 */
export const Operation = Schema.Struct({
  id: OperationId,
  type: OperationType,
  state: OperationState,
  terminal: Schema.Boolean.annotate({ description: "Whether the state is final." }),
  submission_uncertain: Schema.Boolean.annotate({
    description: "Whether an upstream write may have landed and must not be resubmitted. True in `submitting` and "
      + "`indeterminate`. False in `submitted`: the provider confirmed the receipt, and only the result is open."
  }),
  under_review: Schema.Boolean.annotate({
    description: "Whether people look into the operation. It may stay so without ever reaching a final state."
  }),
  revision: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
    description: "1 when accepted, one more at each transition."
  }),
  created_at: Timestamp,
  updated_at: Timestamp,
  completed_at: Schema.NullOr(Timestamp),
  failure: Schema.NullOr(OperationFailure)
}).check(
  Schema.makeFilter((operation) =>
    operation.terminal === isTerminal(operation.state)
    && operation.submission_uncertain === submissionUncertain(operation.state)
    && (operation.completed_at !== null) === operation.terminal
    && (operation.failure !== null) === (operation.state === "failed"), {
    expected: "terminal, submission_uncertain, completed_at and failure that agree with the state"
  })
).annotate({
  identifier: "Operation",
  description: "Public form of a durable operation."
})
export type Operation = typeof Operation.Type

/** The operation of a request that is accepted now. @internal */
export const acceptedOperation = (id: OperationId, type: OperationType, at: DateTime.Utc): Operation => ({
  id,
  type,
  state: "accepted",
  terminal: false,
  submission_uncertain: false,
  under_review: false,
  revision: 1,
  created_at: at,
  updated_at: at,
  completed_at: null,
  failure: null
})

/** The target of a transition. Only `failed` has a reason. */
export type Outcome =
  | { readonly state: "failed"; readonly failure: OperationFailure }
  | { readonly state: Exclude<OperationState, "failed"> }

/** One row of the append-only history: the acceptance (`from` is null) or a transition, with its evidence. */
export const HistoryEntry = Schema.Struct({
  revision: Schema.Int,
  from: Schema.NullOr(OperationState),
  to: OperationState,
  at: Timestamp,
  evidence: Schema.Unknown
})
export type HistoryEntry = typeof HistoryEntry.Type

/**
 * Seconds that a reader should wait before it reads again (RFC 9110 §10.2.3). Null for a final state. They grow with the age of
 * the state, from 1 second to 5 minutes: a new submission usually settles within seconds, and an old one within hours.
 *
 * @internal
 */
export const pollAfterSeconds = (
  operation: Pick<Operation, "terminal" | "updated_at">,
  now: DateTime.Utc
): number | null =>
  operation.terminal
    ? null
    : Math.min(300, Math.max(1, Math.ceil((now.epochMilliseconds - operation.updated_at.epochMilliseconds) / 10_000)))

/** The operation does not exist, or belongs to another owner than the grant. The error does not tell which. */
export class OperationNotFound extends Schema.TaggedError<OperationNotFound>()("OperationNotFound", {
  id: OperationId
}) {
  override get message() {
    return `there is no operation ${this.id}`
  }
}

/** A stored operation breaks the contract, so it is never sent. The error names only its id, if that is well-formed. */
export class MalformedOperation extends Schema.TaggedError<MalformedOperation>()("MalformedOperation", {
  id: Schema.NullOr(OperationId)
}) {
  /** The error of an operation with this id, if it is one. */
  static of(id: unknown): MalformedOperation {
    return new MalformedOperation({ id: isOperationId(id) ? id : null })
  }

  override get message() {
    return this.id === null
      ? "an operation without a valid id breaks the contract"
      : `operation ${this.id} breaks the contract`
  }
}

/** The operation has another revision than the caller expected. Read it again before you decide. */
export class StaleOperation extends Schema.TaggedError<StaleOperation>()("StaleOperation", {
  id: OperationId,
  expected: Schema.Int,
  actual: Schema.Int
}) {
  override get message() {
    return `operation ${this.id} is at revision ${this.actual}, not ${this.expected}`
  }
}

interface Refused {
  readonly from: OperationState
  readonly to: OperationState
  readonly detail?: string
}

const whyNotPermitted = ({ from, to }: Refused): string => {
  if (to === "cancelled" && !isTerminal(from)) {
    return ": it may have been sent. Ask its provider, and record the answer with operations advance, as evidence"
  }
  return from === "accepted"
    ? ": no worker has sent it, so it has no outcome. Let a worker send it, or cancel it with operations cancel"
    : ""
}

const illegal = {
  /** The transition table does not permit it. */
  not_permitted: (refused: Refused) => `cannot move from ${refused.from} to ${refused.to}${whyNotPermitted(refused)}`,
  /** The evidence is missing that leaves `indeterminate`, or by which an operator ends an operation that may have been sent. */
  evidence_required: ({ from, to }: Refused) =>
    `moves from ${from} to ${to} only with recorded evidence: give it as a JSON object, with question, asked, asked_at, reference and answer or document_sha256 if it comes from an operator`,
  /**
   * An operator cannot have asked at the instant of the evidence, the answer proves nothing, or another operation has its reference:
   * `detail` has all that is wrong.
   */
  evidence_refused: ({ detail, to }: Refused) => `cannot move to ${to} with this evidence: ${detail}`,
  invalid_failure: () => "cannot fail with this code or message",
  held: () =>
    "is held, and nothing proves that it was never sent, because the ledger may have lost the record: ask its provider. To end it with the answer, advance it to submitting, and then to its outcome. Release it only to send it",
  /** `detail`: from when it can. */
  claimed: ({ detail, from, to }: Refused) =>
    `cannot become ${to} yet: a worker may be sending it, or wait for the answer, so try again once it left ${from}, or its claim was returned${
      detail === undefined ? "" : `: ${detail}`
    }`,
  sendable: () =>
    "cannot fail yet: a request for it may still be sent until its send_before, so ask its provider after that",
  fenced: () =>
    "cannot fail by this evidence: a fence of it began, so only the fence or the provider's answer to a person proves that nothing was paid",
  approval: () => "waits for an approval: only that decision lets a worker send it",
  only_accepted: ({ from }: Refused) => `is ${from}: only accepted operations can be held`,
  /** It is not accepted, so that it is not held either. */
  only_held: ({ from }: Refused) => `is ${from}: only held operations can be released`
} as const

/** The operation cannot be moved, held or released in this way. The message says why. */
export class IllegalTransition extends Schema.TaggedError<IllegalTransition>()("IllegalTransition", {
  id: OperationId,
  from: OperationState,
  to: OperationState,
  reason: Schema.Literals(Object.keys(illegal) as ReadonlyArray<keyof typeof illegal>),
  detail: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return `operation ${this.id} ${illegal[this.reason](this)}`
  }
}

/** The operation is settled, so it cannot be reviewed. */
export class AlreadySettled extends Schema.TaggedError<AlreadySettled>()("AlreadySettled", {
  id: OperationId,
  state: OperationState
}) {
  override get message() {
    return `operation ${this.id} is ${this.state}, which is final`
  }
}
