/**
 * The room `domain/operators`: what only operators see, in the command line, the console and the metrics. Read this file first: an operation with
 * the members that its public form omits, its schedule, and the next planned action. It has no payload and no token.
 */
import type * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { ApprovalStatus } from "../Approval.ts"
import {
  ClientId,
  GrantId,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderName,
  ResourceOwner,
  Scope
} from "../Grant.ts"
import { IdempotencyKey } from "../Idempotency.ts"
import {
  type AlreadySettled,
  HistoryEntry,
  type IllegalTransition,
  Operation,
  type OperationNotFound,
  type OperationState,
  type Outcome,
  type StaleOperation
} from "../Operation.ts"
import { ProviderReference, type StillHeld } from "../Submission.ts"
import { ShownTerms } from "../Terms.ts"
import { Timestamp } from "../Timestamp.ts"

/** Lists of operations that need attention. An operation may be in several. */
export const queueNames = [
  "indeterminate",
  "under_review",
  "held",
  "waiting",
  "reversed",
  "failed",
  "approval"
] as const

/**
 * One of the queues. `waiting`: accepted operations that a worker found due but not ready, claims that a worker returned without
 * sending, and operations whose status reads nothing allows. `held`: without those that only their decision releases, which are in
 * `approval`; one that an operator holds, too, is in both. `reversed`: the latest 500 final operations whose provider proved another outcome
 * in the last 7 days. `failed`: in the last 24 hours.
 * `approval`: operations that wait for the decision of a person, the first to end first.
 */
export const QueueName = Schema.Literals(queueNames)
export type QueueName = typeof QueueName.Type

/** Who acts next, what that is, when, and why. `action` and `reason` are sentences for people. */
export const NextAction = Schema.Struct({
  by: Schema.Literals(["worker", "rescuer", "reconciler", "operator", "none"]),
  action: Schema.String,
  /** Null: as soon as the component has time, or when the reason has ended. */
  at: Schema.NullOr(Timestamp),
  reason: Schema.String,
  /** Why its provider is paused, if that delays the action. It is part of `reason`. */
  pause: Schema.optionalKey(Schema.String)
})
export type NextAction = typeof NextAction.Type

/** Why an accepted operation is held. */
export const Hold = Schema.Struct({
  /**
   * `placed`: by an operator, a move of the ledger, a late report or the witness. `failover`: the timeline of the database changed, and an
   * operator may hold it, too. `approval`: it waits for the decision of a person, and was never sent.
   */
  kind: Schema.Literals(["placed", "failover", "approval"]),
  /** Whether the reconciler examined it on this timeline. Before that it can be released only if it is `unsent`. */
  examined: Schema.Boolean,
  /** When it can be released at the earliest if it is not `unsent`. Null: not examined yet, or its provider confirmed that it received it. */
  releasable_from: Schema.NullOr(Timestamp),
  /** An operator or a late report holds it, so only a release of this operation ends the hold: no approval, and no proof. */
  by_operator: Schema.optionalKey(Schema.Literal(true))
})
export type Hold = typeof Hold.Type

/** When the next component acts, and what the last one did. */
export const OperationSchedule = Schema.Struct({
  due_at: Schema.NullOr(Timestamp),
  waiting: Schema.Boolean,
  send_before: Schema.NullOr(Timestamp),
  claimed_by: Schema.NullOr(Schema.String),
  return_reason: Schema.NullOr(Schema.String),
  /** Status reads so far. */
  reads: Schema.Int,
  reviewed_at: Schema.NullOr(Timestamp),
  /** When a fence of the operation began. It is repeated until it is certain. */
  fence_started_at: Schema.NullOr(Timestamp),
  /** When its last fence has ended, at the latest. A person records no outcome before, and `failed` only by a later answer. */
  fencing_until: Schema.NullOr(Timestamp),
  hold: Schema.NullOr(Hold),
  /** It was provably never sent, and no worker may send it without another claim. So a cancellation is accepted. */
  unsent: Schema.Boolean
})
export type OperationSchedule = typeof OperationSchedule.Type

/** What allows the operation to be sent and its status to be read, now. */
export const OperationStanding = Schema.Struct({
  client_active: Schema.Boolean,
  provider_connected: Schema.Boolean,
  /** Of the accepting grant. */
  grant: Schema.Literals(["live", "expired", "revoked"]),
  /** A live grant of the same owner, subject, client and provider connection has the scopes of the accepting grant, and no other limits. */
  may_send: Schema.Boolean,
  /** Such a grant exists, with any scopes. */
  may_read: Schema.Boolean
})
export type OperationStanding = typeof OperationStanding.Type

/** An operation in a list of operators. */
export const OperatorSummary = Schema.Struct({
  operation: Operation,
  client_id: ClientId,
  resource_owner: ResourceOwner,
  provider: ProviderName,
  idempotency_key: IdempotencyKey,
  reference: Schema.NullOr(ProviderReference),
  /** Masked. Null: the type of the operation declares none, or its end has erased them. */
  terms: Schema.NullOr(ShownTerms),
  schedule: OperationSchedule,
  next: NextAction
})
export type OperatorSummary = typeof OperatorSummary.Type

/** What operators did to an operation, or to all of them, and what came of it. */
export const OperatorActionRecord = Schema.Struct({
  at: Timestamp,
  /** The name of the operator, or the resource owner. */
  operator: Schema.String,
  /** Where the operator acted. `owner`: a resource owner decided, at the page of an application. */
  via: Schema.Literals(["console", "command", "owner"]),
  action: Schema.String,
  reason: Schema.NullOr(Schema.String),
  /** `done`, why there was nothing to do, or why the ledger refused: see `outcomeOf`. */
  result: Schema.String,
  /** At the end of a review: what a person was to ask the provider, as it was open then. Null: nothing. */
  question: Schema.NullOr(Schema.String)
})
export type OperatorActionRecord = typeof OperatorActionRecord.Type

/** Everything that operators see of one operation. */
export const OperatorDetail = Schema.Struct({
  ...OperatorSummary.fields,
  subject: PairwiseSubject,
  grant_id: GrantId,
  provider_connection_id: ProviderConnectionId,
  scopes: Schema.Array(Scope),
  /** The provider once confirmed that it received the operation. */
  acknowledged: Schema.Boolean,
  /** The last status read that was answered, and proved nothing new. Answers that prove something are evidence in the history. */
  last_read: Schema.NullOr(
    Schema.Struct({
      read: Schema.Int,
      at: Timestamp,
      answer: Schema.String,
      /** What a person asks the provider, because reads may not settle the operation. */
      question: Schema.NullOr(Schema.String)
    })
  ),
  standing: OperationStanding,
  /** The decision that it waits for, or got. Null: it needed none. */
  approval: Schema.NullOr(ApprovalStatus),
  /**
   * What proved another outcome of the final operation: the reversal of a success, such as a return by the receiving bank, or a payment
   * after a failure. It changes no state. Null: nothing.
   */
  reversal: Schema.NullOr(Schema.Struct({ at: Timestamp, evidence: Schema.Json })),
  /** The latest 200 entries, oldest first. */
  history: Schema.Array(HistoryEntry),
  /** The latest 200, oldest first. */
  actions: Schema.Array(OperatorActionRecord)
})
export type OperatorDetail = typeof OperatorDetail.Type

/** Which operations to list. All given members must match. */
export interface OperationFilter {
  /** Empty: any state. */
  readonly states?: ReadonlyArray<OperationState>
  readonly queue?: QueueName
  readonly provider?: ProviderName
  readonly client_id?: ClientId
  readonly resource_owner?: ResourceOwner
  readonly idempotency_key?: string
  readonly reference?: string
  readonly failure_code?: string
  /** The id of the worker that claimed it last. */
  readonly claimed_by?: string
  /** The whole payee of its terms. Case and white space do not count. */
  readonly payee?: string
  /** In its state for this time, or longer, by the clock of the database. */
  readonly unchanged_for?: Duration.Duration
}

export interface OperationListQuery extends OperationFilter {
  /**
   * Queues, unsettled states and lists by reference or payee: by the time of the last transition. All other lists, and those of a resource
   * owner: by the last change of the public form, which may be a review. Lists by idempotency key: by client and subject, because
   * a key is meant for one operation of each.
   */
  readonly order: "oldest" | "newest"
  /** 1 to 1,000. */
  readonly limit: number
  /** `next` of the page before. The list must have the same filter and order. */
  readonly after?: string
}

export interface OperatorPage {
  readonly operations: ReadonlyArray<OperatorSummary>
  /** Null: this is the last page. A page may be short, or empty, although more follow: a page looks at a bounded number of rows. */
  readonly next: string | null
}

/** `after` is not the `next` of a page of this list. Read the list from its start. */
export class UnknownPage extends Schema.TaggedError<UnknownPage>()("UnknownPage", {}) {
  override get message() {
    return "the page is unknown, or of another list: start the list again"
  }
}

/** An action on one operation. */
export type OperatorAction = "review" | "end_review" | "hold" | "release" | "cancel" | "read"

/** Who acts, where, and why. */
export interface ActingOperator {
  /** 1 to 255 characters. */
  readonly name: string
  readonly via: "console" | "command"
  /** Up to 1,024 characters. Null or empty: none given. */
  readonly reason: string | null
}

/** An operator who must give a reason. */
export interface AccountableOperator extends ActingOperator {
  /** 1 to 1,024 characters. */
  readonly reason: string
}

/** What an operator knows of an operation from another source. */
export interface Advance {
  readonly to: Outcome
  /** The answer of the provider, as `OperatorEvidence`. Null: none, which ends no operation that may have been sent. */
  readonly evidence: Schema.Json
}

/** Why the ledger refused to record an advance. */
export type AdvanceRefusal = OperationNotFound | StaleOperation | IllegalTransition

/** Why the ledger refused an action. */
export type ActionRefusal = OperationNotFound | AlreadySettled | IllegalTransition | StillHeld | StaleOperation
