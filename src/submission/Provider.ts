/**
 * The port to an upstream provider: a bank, a broker, a payment provider. A team implements it once for each of its
 * own (`HttpProvider` is a base for those that speak JSON over HTTP).
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ProviderOperation, ProviderReference } from "../domain/Submission.ts"

export { type ProviderOperation, ProviderReference }

/**
 * Which operation an answer is about, in the words of the answer itself. Copy both members from the answer, never from
 * the request: an answer that names another operation proves nothing about the one that was asked for.
 */
export interface AnswerNames {
  /** The provider's reference. Null when the answer has none. */
  readonly reference: ProviderReference | null
  /** The operation's id, where the provider echoes it (as idempotency key, say), in the form in which it was sent. */
  readonly operation_id: string | null
}

/**
 * For an answer that names no operation. It counts only as the answer to a request for exactly this operation: to its
 * submission, or to a status read by its id or by its reference. An entry of a list or of a search has to name its
 * operation.
 */
export const namesNothing: AnswerNames = { reference: null, operation_id: null }

/**
 * What the provider answered to a submission. Evidence is what it said, as JSON: it is kept in the history. An answer that
 * names another operation is `Uncertain`.
 */
export type SubmissionAnswer = Data.TaggedEnum<{
  /** The provider has it, and has not decided. */
  Acknowledged: {
    readonly names: AnswerNames & { readonly reference: ProviderReference }
    readonly evidence: Schema.Json
  }
  Succeeded: { readonly names: AnswerNames; readonly evidence: Schema.Json }
  /** The provider refused, and will never carry it out. Code and message become the public failure. */
  Rejected: {
    readonly code: string
    readonly message: string
    readonly names: AnswerNames
    readonly evidence: Schema.Json
  }
}>
export const SubmissionAnswer = Data.taggedEnum<SubmissionAnswer>()

/**
 * Proof that no byte of the request left: it may be tried again. When in doubt, it is `Uncertain`. `isLocal` says that the
 * provider has no part in it, such as credentials that are missing, so that nobody thinks worse of the provider.
 * `isPermanent` says that each further attempt would fail like this one, such as for a payload that cannot be encoded: it is
 * not tried again.
 */
export class NotSent extends Schema.TaggedError<NotSent>()("NotSent", {
  reason: Schema.String,
  isLocal: Schema.optionalKey(Schema.Boolean),
  isPermanent: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    return `nothing was sent: ${this.reason}`
  }
}

/** The request may have reached the provider, and its answer is not known. */
export class Uncertain extends Schema.TaggedError<Uncertain>()("Uncertain", { reason: Schema.String }) {
  override get message() {
    return `the outcome is not known: ${this.reason}`
  }
}

/** What the provider said became of the operation. A failure has a code and a message, which become public. */
export type ProvenResult =
  | { readonly state: "submitted" | "succeeded" }
  | { readonly state: "failed"; readonly code: string; readonly message: string }

/** What makes a result count: evidence is what the provider said, as JSON. */
export interface Proof {
  readonly names: AnswerNames
  readonly evidence: Schema.Json
}

/** The result is proven, unless the answer names another operation. */
export type Proven = ProvenResult & Proof & { readonly _tag: "Proven" }

/**
 * Proof that the provider never received the operation and never will. Only a provider that documents when "not found"
 * is final, and that refuses requests after `send_before`, can be believed so.
 */
export interface NeverReceived extends Proof {
  readonly _tag: "NeverReceived"
}

/**
 * Why nothing was proven. `unreachable` is a failure of the network (the provider did not answer, or a gateway answered in
 * its place), `not_found` says that the provider does not know the operation that it names, `unclear` is all else.
 */
export type NoEvidence =
  | { readonly reason: "unreachable" | "unclear"; readonly detail: string }
  | { readonly reason: "not_found"; readonly detail: string; readonly names: AnswerNames }

/** Nothing was proven. */
export type NotProven = NoEvidence & { readonly _tag: "NotProven" }

/** What an exact status read showed. */
export type StatusAnswer = Proven | NeverReceived | NotProven
export const StatusAnswer = {
  Proven: (proven: ProvenResult & Proof): Proven => ({ _tag: "Proven", ...proven }),
  NeverReceived: (never: Proof): NeverReceived => ({ _tag: "NeverReceived", ...never }),
  NotProven: (not: NoEvidence): NotProven => ({ _tag: "NotProven", ...not })
}

/**
 * One upstream provider. Reasons and details are logged and kept as evidence, and so is what an answer names when it
 * contradicts the operation: no credential may be in them.
 */
export class Provider extends Context.Service<Provider, {
  /**
   * Sends the mutation: one attempt, without redirects. Is called at most once for an operation, except after `NotSent`.
   * A defect, a timeout or an interruption counts as `Uncertain`.
   */
  readonly submit: (
    operation: ProviderOperation,
    payload: Schema.Json
  ) => Effect.Effect<SubmissionAnswer, NotSent | Uncertain>
  /**
   * Reads what became of the operation; never changes anything. Ask by the operation's id or by `reference`, which is
   * null when the provider gave none: an answer that names another of either proves nothing.
   */
  readonly readStatus: (
    operation: ProviderOperation,
    reference: ProviderReference | null
  ) => Effect.Effect<StatusAnswer>
}>()("financial-agents-gateway/submission/Provider") {}
