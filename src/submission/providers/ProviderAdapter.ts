/**
 * The port to an upstream provider: a bank, a broker, a payment provider. A team implements it once for each of its
 * providers. `HttpProvider` is a base for HTTP providers with JSON answers. The room `submission/providers` has the port, and what limits the
 * requests to a provider. Read this file first.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { DeclaredFailures } from "../../domain/GatewayFailures.ts"
import { acceptedAt } from "../../domain/Operation.ts"
import type { PayloadSchemas } from "../../domain/PayloadSchemas.ts"
import type { ProviderLimit } from "../../domain/ProviderLimit.ts"
import { type ProviderOperation, ProviderReference } from "../../domain/Submission.ts"
import type { ProviderPromises } from "./ProviderPromises.ts"

export { acceptedAt, type ProviderLimit, type ProviderOperation, type ProviderPromises, ProviderReference }

/**
 * Names of the operation that an answer is about. Copy both members from the answer, never from the request: an answer
 * that names another operation proves nothing about the requested one.
 */
export interface AnswerNames {
  /** The provider's reference. Null when the answer has none. */
  readonly reference: ProviderReference | null
  /** The operation's id in the form in which it was sent, if the provider echoes it, for example as idempotency key. */
  readonly operation_id: string | null
}

/**
 * For an answer that names no operation. It is valid only as the answer to a request for exactly this operation: its
 * submission, or a status read by its id or reference. An entry of a list or a search must name its operation.
 */
export const namesNothing: AnswerNames = { reference: null, operation_id: null }

/**
 * The provider's answer to a submission. `evidence` is the answer as JSON; the history keeps it. An answer that names
 * another operation counts as `Uncertain`.
 */
export type SubmissionAnswer = Data.TaggedEnum<{
  /** The provider has received the operation and has not decided yet. */
  Acknowledged: {
    readonly names: AnswerNames & { readonly reference: ProviderReference }
    readonly evidence: Schema.Json
  }
  Succeeded: { readonly names: AnswerNames; readonly evidence: Schema.Json }
  /**
   * The provider refused the operation and will never carry it out. Clients read the failure that the adapter declares for
   * the code (`failures`). The provider's own words belong in `evidence`.
   */
  Rejected: {
    /**
     * A code of `failures`, or a common one (`domain/GatewayFailures`). Clients read any other code as `provider_rejected`, and it is logged once: the adapter has a
     * defect. The operation fails all the same. An adapter may give `provider_rejected` itself.
     */
    readonly code: string
    readonly names: AnswerNames
    readonly evidence: Schema.Json
  }
}>
export const SubmissionAnswer = Data.taggedEnum<SubmissionAnswer>()

/**
 * Evidence that the provider did nothing for this request, so that a worker may send the operation later. When in doubt,
 * fail with `Uncertain`. By default it says: no byte of the request left, because the provider could not be reached.
 *
 * - `isRefused`: the request left, and the provider answered with a refusal of which it documents that it did nothing, for
 *   example 429 or 401.
 * - `isLocal`: the provider did not cause the failure, and an operator can repair it: the credentials are missing or
 *   wrong, or the adapter cannot encode the request. The operation waits. The worker stops claiming for the provider,
 *   and tries one operation at a time until one passes. The circuit of the provider ignores the failure.
 * - `isOfOperation`: with `isLocal`, the cause may be in this operation alone, such as its payload or the credentials of its owner. The
 *   worker goes on with others. It pauses the provider after such failures of five owners without an answer that the adapter declares.
 * - `isPermanent`: this operation can never be sent, by any version of the adapter: it fails with `request_unsendable`.
 *   Better, declare `payloads`: then the request is refused when it is made.
 * - `isForbidden`: with `isPermanent`, the application does not permit the operation to its owner: it fails with `not_permitted`.
 * - `retryAfter`: with `isRefused`, for how long the provider asks to send nothing (`Retry-After`). The provider is paused for
 *   so long, 5 minutes at most. An operation that cannot wait for that is not ended: a worker sends it later.
 *
 * `reason` is logged, and must contain no credential and no part of the payload.
 */
export class NotSent extends Schema.TaggedError<NotSent>()("NotSent", {
  reason: Schema.String,
  isRefused: Schema.optionalKey(Schema.Boolean),
  isLocal: Schema.optionalKey(Schema.Boolean),
  isOfOperation: Schema.optionalKey(Schema.Boolean),
  isPermanent: Schema.optionalKey(Schema.Boolean),
  isForbidden: Schema.optionalKey(Schema.Boolean),
  retryAfter: Schema.optionalKey(Schema.Duration)
}) {
  override get message() {
    return this.isRefused === true
      ? `the provider refused the request and did nothing: ${this.reason}`
      : `nothing was sent: ${this.reason}`
  }
}

/**
 * The request may have reached the provider, and the outcome is not known.
 *
 * - `isUndeclared`: the provider answered, and the adapter does not declare the answer. After five in a row the worker claims nothing for
 *   the provider, and tries one operation at a time: likely the adapter or its settings have a mistake.
 * - `isUnauthorized`: with `isUndeclared`, the provider refused the credentials, as by 401. The first such answer pauses the provider.
 * - `isAnswer`: the provider answered as the adapter declares, so it works, and its circuit stays closed.
 * - `retryAfter`: for how long the provider, or a gateway in its place, asks to send nothing.
 *
 * `reason` is logged, and must contain no credential, no part of the payload and no text of the provider.
 */
export class Uncertain extends Schema.TaggedError<Uncertain>()("Uncertain", {
  reason: Schema.String,
  isUndeclared: Schema.optionalKey(Schema.Boolean),
  isUnauthorized: Schema.optionalKey(Schema.Boolean),
  isAnswer: Schema.optionalKey(Schema.Boolean),
  retryAfter: Schema.optionalKey(Schema.Duration)
}) {
  override get message() {
    return `the outcome is not known: ${this.reason}`
  }
}

/** The result that the provider gave. The code of a failure is one of `failures`, as with `Rejected`. */
export type ProvenResult =
  | { readonly state: "submitted" | "succeeded" }
  | { readonly state: "failed"; readonly code: string }

/** An answer that justifies a transition: `evidence` is the provider's answer as JSON. */
export interface EvidentAnswer {
  readonly names: AnswerNames
  readonly evidence: Schema.Json
}

/** The result is proven, unless the answer names another operation. */
export type Proven = ProvenResult & EvidentAnswer & { readonly _tag: "Proven" }

/** The answer to a submission with the result that the provider gave: `submitted` is an acknowledgement, and `failed` a refusal for ever. @internal */
export const submissionAnswerOf = (
  { evidence, names, ...result }: ProvenResult & EvidentAnswer & Pick<Known, "names">
): SubmissionAnswer => {
  switch (result.state) {
    case "submitted":
      return SubmissionAnswer.Acknowledged({ names, evidence })
    case "succeeded":
      return SubmissionAnswer.Succeeded({ names, evidence })
    case "failed":
      return SubmissionAnswer.Rejected({ code: result.code, names, evidence })
  }
}

/** The provider does not know the operation. The promises of the adapter decide whether that proves something. */
export interface NotKnown {
  readonly names: AnswerNames
  /** The answer as JSON. Null if a proxy may have answered in the provider's place: then it never proves anything. */
  readonly evidence: Schema.Json | null
  /** From when on the provider refuses a request for the operation, as this answer states it: see `lateRequests`. */
  readonly refusedFrom?: DateTime.Utc
}

/** The answer that the provider does not know the operation. */
export interface NotFound extends NotKnown {
  readonly _tag: "NotFound"
}

/** Why a status read proved nothing. */
export interface NoEvidence {
  /**
   * `unreachable`: a network failure (the provider did not answer, or a gateway answered in its place). `ordered`: the provider has
   * ordered something for the operation, and tells neither its result nor a reference. `unclear`: every other reason.
   */
  readonly reason: "unreachable" | "ordered" | "unclear"
  readonly detail: string
  /**
   * What a person asks the provider, in place of the question of the promises. An operation whose answer has a question, or is
   * `ordered`, comes under review. Operators read the question.
   */
  readonly question?: string
  /** For how long the provider asks to send nothing (`Retry-After`). */
  readonly retryAfter?: Duration.Duration
}

/** The read proved nothing. */
export type NotProven = NoEvidence & { readonly _tag: "NotProven" }

/** The result of an exact status read. */
export type StatusAnswer = Proven | NotFound | NotProven
export const StatusAnswer = {
  Proven: (proven: ProvenResult & EvidentAnswer): Proven => ({ _tag: "Proven", ...proven }),
  NotFound: (not: NotKnown): NotFound => ({ _tag: "NotFound", ...not }),
  NotProven: (not: NoEvidence): NotProven => ({ _tag: "NotProven", ...not })
}

/** The first order of the operation has its key: the provider names it. The next status read shows its state. */
export interface Known {
  readonly _tag: "Known"
  readonly names: AnswerNames & { readonly reference: ProviderReference }
}

/** The order of the fence has the key and is cancelled, so the provider takes no other order of the operation: it has failed. */
export type Occupied = EvidentAnswer & { readonly _tag: "Occupied" }

/** The result of a fence. `NotProven`: the outcome is uncertain, and the fence is repeated. */
export type FenceAnswer = Known | Occupied | NotProven
export const FenceAnswer = {
  Known: (names: Known["names"]): Known => ({ _tag: "Known", names }),
  Occupied: (occupied: EvidentAnswer): Occupied => ({ _tag: "Occupied", ...occupied }),
  NotProven: StatusAnswer.NotProven
}

/**
 * One upstream provider. Reasons, details and contradicting names of an answer are logged and kept as evidence: they
 * must not contain credentials. Reasons and details must not quote the text of the provider, which may repeat the payload.
 */
export class ProviderAdapter extends Context.Service<ProviderAdapter, {
  /**
   * The payloads that the adapter can send, by type of operation. The ledger refuses other payloads at the acceptance, if
   * the application provides `Providers.payloads` or `ProviderPayloads`. Default: every payload of every type.
   */
  readonly payloads?: PayloadSchemas
  /**
   * The failures that clients may read, by code: `{ payment_returned: { message: "The payment was returned." } }`. The common codes
   * need no declaration. A code has lower case letters, digits and `_`, a letter first, and 64 characters at most; a message has 1 to 1024. Both are the
   * author's, never text of the provider. The gateway's own codes (`domain/GatewayFailures`) are reserved. Default: none.
   */
  readonly failures?: DeclaredFailures
  /**
   * How many requests the provider takes: each call of `submit` and of `readStatus` is one, and each further request for which it asks `NextRequest`. It holds across all workers of the
   * database, so give every worker the same limit. Default: no limit.
   */
  readonly limit?: ProviderLimit
  /**
   * Names the environment and the account at the provider that the settings reach, without a credential: `bank.example 4711`, or the
   * environment alone. The ledger keeps it with each claim. An operation that was sent to one account is not read and not fenced at another: a
   * person is asked. If one of both is the environment alone, it is read, and what is not found proves nothing. A fence requires it, and so does
   * `notFoundIsFinalAfter`, unless reads are indirect. Default: the settings always reach the same account.
   */
  readonly account?: string | undefined
  /**
   * Where `submit` sends the operation's id as the key, such as an address and the name of the header, in 300 characters at most, without a
   * credential. `HttpProvider` names its base URL and its header. Change it with the place, also if a path moves, after fences have ended: what a
   * version sent with the key elsewhere, or with other promises, this one cannot prove unsent, and cannot fence, so a person is asked. Default: one
   * place for ever.
   */
  readonly keyIn?: string
  /** What the provider documents. Worker and reconciler act by it. Default: the provider promises nothing. */
  readonly promises?: ProviderPromises
  /**
   * Whether each status read gets the payload, such as to compare an amount that the provider echoes. A process that cannot decrypt it reads
   * nothing. Default: only an indirect read gets it.
   */
  readonly readsNeedPayload?: boolean
  /**
   * Whether the provider's answer is a list that has no filter by the key, in which `readStatus` finds the entry with the operation's id.
   * Default: a status read without the reference sends the operation's id.
   */
  readonly readsUnfiltered?: boolean
  /**
   * Submits the operation: one attempt, without redirects. Called at most once for an operation, except after
   * `NotSent`. A defect, a timeout or an interruption counts as `Uncertain`.
   */
  readonly submit: (
    operation: ProviderOperation,
    payload: Schema.Json
  ) => Effect.Effect<SubmissionAnswer, NotSent | Uncertain>
  /**
   * Reads the state of the operation at the provider, and never changes anything. Ask by the operation's id or by
   * `reference`, which is null when the provider gave none. An answer that names another id or reference proves
   * nothing. An indirect read has the payload (see `readByOperationId` of the promises), and every read with `readsNeedPayload`.
   */
  readonly readStatus: (
    operation: ProviderOperation,
    reference: ProviderReference | null,
    payload?: Schema.Json
  ) => Effect.Effect<StatusAnswer>
  /**
   * Occupies the operation's key, so that a lost request can never arrive. It sends an order with this key that cannot pay, and cancels it.
   * Null: there is no such order for this payload. Otherwise it yields the effect that sends, and has sent nothing before.
   *
   * The reconciler runs it after "not found", once the last attempt has ended. It repeats it until the answer is certain, so repetitions must do no harm. The order
   * must differ from every order of `submit`, so that the first order is never taken for that of the fence. At another account the key is
   * free, so it requires `account`.
   *
   * - `Known`: another order has the key. If a person carried out the order of the fence, name that one: its state is the operation's.
   * - `Occupied`: the order of the fence has the key, and the provider says that it is cancelled, or has ended unpaid and keeps the key.
   * - `NotProven`: anything else, also an order of the fence that is not cancelled yet.
   *
   * It requires the promises `keys: "for_ever"` and `readByOperationId: "yes"`, and those of a provider that takes late requests.
   * Default: no fence.
   */
  readonly fence?: (
    operation: ProviderOperation,
    payload: Schema.Json
  ) => Effect.Effect<Effect.Effect<FenceAnswer> | null>
  /**
   * Asks the provider at the start of a worker, by a request that changes nothing, whether the settings fit it. Yields what speaks against
   * them, in words for the log and for operators; null if nothing does. Fails if the provider gives no answer. While something speaks
   * against them, the worker repeats it, and sends no operation. Default: no probe.
   */
  readonly probe?: Effect.Effect<string | null, NotProven>
}>()("financial-agents-gateway/submission/providers/ProviderAdapter") {}

/**
 * The instant from which on this process sends no byte of the submission under way, in milliseconds of its own wall clock. The worker
 * sets it, because `send_before` is by the clock of the database. Null: there is no worker, and `send_before` counts. For the first request of a
 * fence the reconciler sets it: from then on, a person may record that nothing was paid. Null: there is no reconciler.
 */
export const SendDeadline: Context.Reference<number | null> = Context.Reference<number | null>(
  "financial-agents-gateway/submission/providers/ProviderAdapter/SendDeadline",
  { defaultValue: () => null }
)

/**
 * Waits until the provider's limit lets the next request of a running status read or fence begin, after an answer to the one before. The
 * first request needs no such wait. False: no permit is near, so send nothing more, and yield `NotProven`. The reconciler sets it. Default:
 * there is no limit.
 */
export const NextRequest: Context.Reference<Effect.Effect<boolean>> = Context.Reference<Effect.Effect<boolean>>(
  "financial-agents-gateway/submission/providers/ProviderAdapter/NextRequest",
  { defaultValue: () => Effect.succeed(true) }
)
