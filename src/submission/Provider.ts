/**
 * The port to an upstream provider: a bank, a broker, a payment provider. A team implements it once for each of its
 * own (`HttpProvider` is a base for those that speak JSON over HTTP).
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ProviderOperation, ProviderReference } from "../domain/Submission.ts"

/** What the provider answered to a submission. Evidence is what it said, as JSON: it is kept in the history. */
export type SubmissionAnswer = Data.TaggedEnum<{
  /** The provider has it, and has not decided. */
  Acknowledged: { readonly reference: ProviderReference; readonly evidence: Schema.Json }
  Succeeded: { readonly evidence: Schema.Json }
  /** The provider refused, and will never carry it out. Code and message become the public failure. */
  Rejected: { readonly code: string; readonly message: string; readonly evidence: Schema.Json }
}>
export const SubmissionAnswer = Data.taggedEnum<SubmissionAnswer>()

/**
 * Proof that no byte of the request left: it may be tried again. When in doubt, it is `Uncertain`. `isLocal` says that the
 * provider has no part in it, such as credentials that are missing, so that nobody thinks worse of the provider.
 */
export class NotSent extends Schema.TaggedError<NotSent>()("NotSent", {
  reason: Schema.String,
  isLocal: Schema.optionalKey(Schema.Boolean)
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
  | { readonly state: "submitted"; readonly reference: ProviderReference | null }
  | { readonly state: "succeeded" }
  | { readonly state: "failed"; readonly code: string; readonly message: string }

/** The result is proven; evidence is what the provider said, as JSON. */
export type Proven = ProvenResult & { readonly _tag: "Proven"; readonly evidence: Schema.Json }

/**
 * Proof that the provider never received the operation and never will. Only a provider that documents when "not found"
 * is final, and that refuses requests after `send_before`, can be believed so.
 */
export interface NeverReceived {
  readonly _tag: "NeverReceived"
  readonly evidence: Schema.Json
}

/**
 * Nothing was proven. `unreachable` is a failure of the network (the provider did not answer, or a gateway answered in
 * its place), `not_found` says that the provider does not know the operation, `unclear` is all else.
 */
export interface NotProven {
  readonly _tag: "NotProven"
  readonly reason: "unreachable" | "not_found" | "unclear"
  readonly detail: string
}

/** What an exact status read showed. */
export type StatusAnswer = Proven | NeverReceived | NotProven
export const StatusAnswer = {
  Proven: (proven: ProvenResult & { readonly evidence: Schema.Json }): Proven => ({ _tag: "Proven", ...proven }),
  NeverReceived: (never: Omit<NeverReceived, "_tag">): NeverReceived => ({ _tag: "NeverReceived", ...never }),
  NotProven: (not: Omit<NotProven, "_tag">): NotProven => ({ _tag: "NotProven", ...not })
}

/**
 * One upstream provider. Reasons and details are logged and kept as evidence: no credential may be in them.
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
  /** Reads what became of the operation; never changes anything. `reference` is null when the provider gave none. */
  readonly readStatus: (
    operation: ProviderOperation,
    reference: ProviderReference | null
  ) => Effect.Effect<StatusAnswer>
}>()("financial-agents-gateway/submission/Provider") {}
