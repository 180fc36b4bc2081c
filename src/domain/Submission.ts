/**
 * The submission of an operation to its upstream provider, without effects: what a provider receives, and when the next
 * status read is due.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ProviderConnectionId, ProviderName, ResourceOwner } from "./Grant.ts"
import { OperationId, type OperationState, type OperationType, type Outcome } from "./Operation.ts"
import { isStorable } from "./PayloadText.ts"

/** The members of an operation that its provider receives. */
export interface ProviderOperation {
  /** Also the idempotency key at the provider. An operation never has another. */
  readonly id: OperationId
  readonly type: OperationType
  /** Owner and connection. The adapter finds the credentials by these. */
  readonly resource_owner: ResourceOwner
  readonly provider_connection_id: ProviderConnectionId
  /**
   * No byte leaves after this instant, by the clock of the database, unless a process was stopped between its last check of the
   * clock and the network. A provider that refuses late requests closes that gap. Null if no worker has claimed the operation.
   */
  readonly send_before: DateTime.Utc | null
}

/** The provider's id of an operation that it received. */
export const ProviderReference = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(1024),
  isStorable
).pipe(Schema.brand("ProviderReference"))
export type ProviderReference = typeof ProviderReference.Type
export const isProviderReference = Schema.is(ProviderReference)

/** Delays between status reads of an unsettled operation: they grow up to the longest, which then repeats for ever. */
export interface ReadSchedule {
  readonly first: Duration.Duration
  readonly factor: number
  readonly longest: Duration.Duration
  /** The share of the delay by which it may be longer or shorter. It spreads the reads of operations that failed together. */
  readonly jitter: number
}

/** The delay in milliseconds after the n-th status read (0 before the first). `random` is between 0 and 1. */
export const readDelay = (schedule: ReadSchedule, reads: number, random: number): number => {
  const longest = Duration.toMillis(schedule.longest)
  const delay = Math.min(longest, Duration.toMillis(schedule.first) * schedule.factor ** Math.min(reads, 1000))
  return Math.round(delay * (1 + schedule.jitter * (2 * random - 1)))
}

/** The payload cannot be read: this process lacks its key, or it is not the payload of this operation. */
export class PayloadUnreadable extends Schema.TaggedError<PayloadUnreadable>()("PayloadUnreadable", {}) {
  override get message() {
    return "the payload cannot be decrypted with the keys at hand"
  }
}

/** The payload can be read, but its type or content differs from the accepted request: it has another digest. */
export class PayloadAltered extends Schema.TaggedError<PayloadAltered>()("PayloadAltered", {}) {
  override get message() {
    return "the stored payload does not match the digest of the accepted request"
  }
}

/**
 * The authorization of a claimed operation ended before the provider took it. Its grants were revoked, narrowed or have
 * expired, its client was deactivated, or its provider connection was disconnected. No further attempt may send it.
 */
export class AuthorizationRevoked extends Schema.TaggedError<AuthorizationRevoked>()("AuthorizationRevoked", {}) {
  override get message() {
    return "no live grant, active client and connected provider allowed the operation any more"
  }
}

/** The operations that one statement claimed, as one number. */
export interface ClaimBatch {
  /** UUID: what the ledger and the records elsewhere must both have for the operations to be sent. It belongs to one life. */
  readonly epoch: string
  /** UUID of the worker process. */
  readonly worker: string
  /** One life of one server on one timeline. Within it, a commit proves every earlier one. */
  readonly life: string
  /** Empty for the batch of a verification. */
  readonly provider: string
  /** From 1, in the order of the commits of this worker, life and provider. */
  readonly batch: number
}

/**
 * An operation that only the caller of this claim may send, unless it returns the claim. `send_before` identifies the claim:
 * a take-over changes it, and keeps the revision.
 */
export interface Claim {
  readonly operation: ProviderOperation
  /** Record the outcome at this revision. */
  readonly revision: number
  /** The instant of the claim, by the clock of the database. */
  readonly claimed_at: DateTime.Utc
  /** Decrypts and parses the payload, and checks the digest of the accepted request. If it fails, nothing is sent. */
  readonly payload: Effect.Effect<Schema.Json, PayloadUnreadable | PayloadAltered>
  /** What must be recorded elsewhere before the operation is sent. Missing: the ledger requires no records. */
  readonly batch?: ClaimBatch
}

/** An operation whose status this caller reads. No other caller takes it during the lease. */
export interface DueRead {
  readonly operation: ProviderOperation
  readonly created_at: DateTime.Utc
  /** The instant of the take, by the clock of the database. */
  readonly taken_at: DateTime.Utc
  readonly provider: ProviderName
  readonly state: OperationState
  readonly revision: number
  readonly reference: ProviderReference | null
  /** The provider once confirmed that it received the operation: by an acknowledgement, or by a reference. */
  readonly acknowledged: boolean
  /** Status reads so far, this one included. */
  readonly reads: number
  /** When a fence of the operation began; null if none did. From then on a read by the key may find the order of the fence. */
  readonly fence_started_at: DateTime.Utc | null
  /** See `ClaimTerms`. Null: the adapter named none, or the ledger knows no claim. */
  readonly provider_account: string | null
  /** See `ClaimTerms`. Null: no proof rests on it, or the ledger knows no claim that names it. */
  readonly sent_as: string | null
}

/** Whether a fence has begun and is not certain yet. Then the operation is not read by its key. */
export const isFenced = (
  { acknowledged, fence_started_at, state }: Pick<DueRead, "acknowledged" | "fence_started_at" | "state">
): boolean => state === "indeterminate" && fence_started_at !== null && !acknowledged

/**
 * Longest `send_within` of a claim. A rollback of the database may lose a claim. Its holder may then send for so long, without a
 * trace in the ledger.
 */
export const longestSendWithin = Duration.minutes(5)

/** Durations of a claim, by the clock of the database. */
export interface ClaimTerms {
  /** Bytes may leave for so long after the claim: at most `longestSendWithin`. */
  readonly send_within: Duration.Duration
  /** The claim is stale after this time. It is longer than any send may take. */
  readonly rescue_after: Duration.Duration
  /** The shortest delay of an operation that is not ready: its consent is revoked, or its payload cannot be read. */
  readonly idle: Duration.Duration
  /** Age in `accepted` that puts an operation under review. A returned claim counts from its first claim. */
  readonly review_after: Duration.Duration
  /**
   * The id of the worker, 1 to 255 characters, the same after a restart. At most one process has it at a time. Null: the
   * worker has no id, and its claims stay claimed until they are stale.
   */
  readonly worker: string | null
  /** The account at the provider that gets the requests: `account` of the adapter. Absent: it names none. */
  readonly provider_account?: string | undefined
  /** How the adapter sends, as far as a later "not found" or fence rests on it: `sentAs`. Null or absent: none rests on it. */
  readonly sent_as?: string | null
  /**
   * The UUID of the worker process in the records of its claims. Then it claims only if the ledger requires records, and was compared with
   * them in its present life. Without it, it claims only if the ledger requires none.
   */
  readonly recorded_by?: string
}

/** How a worker returns a claim. Durations are by the clock of the database. */
export interface ReturnTerms {
  /** Why the worker could not send, for operators. At most 1,024 characters are stored. */
  readonly reason: string
  /** The shortest delay until a worker may take the operation over. It grows to a tenth of the age, up to five minutes. */
  readonly delay: Duration.Duration
  /** As in `ClaimTerms`. */
  readonly review_after: Duration.Duration
}

/** Durations of a status read, by the clock of the database. */
export interface ReadTerms {
  /** No other caller takes the operation for so long. */
  readonly lease: Duration.Duration
  /** As in `ClaimTerms`: a claim holder whose claim a failover lost may send until the claim is stale. */
  readonly rescue_after: Duration.Duration
  readonly idle: Duration.Duration
  /** Age in the state that puts an operation under review. */
  readonly review_submitted_after: Duration.Duration
  readonly review_indeterminate_after: Duration.Duration
}

/** The operation of a hint: by the provider's id of it, or by its own. Several operations may have one reference. */
export type HintedOperation = { readonly reference: ProviderReference } | { readonly operation_id: OperationId }

/**
 * The effect of a hint. `due`: a status read is due now. `noted`: it is due after the interval, or after the submission or the
 * status read under way. `ignored`: no operation waits for a status read, or one is due by then already.
 */
export type HintEffect = "due" | "noted" | "ignored"

/** Facts that are recorded together with an outcome. */
export interface Recording {
  /** Justifies the outcome, as JSON. */
  readonly evidence: { readonly [member: string]: Schema.Json }
  readonly reference: ProviderReference | null
  /** When the next component acts, unless the outcome is final. */
  readonly due_in: Duration.Duration
  /**
   * `send_before` of the claim or the status read behind this outcome. After a failover that lost the claim, another claim may
   * have the same revision, and this outcome must not overwrite it. Absent or null if no claim is known.
   */
  readonly send_before?: DateTime.Utc | null
  /**
   * `fence_started_at` of the status read behind this outcome. If a fence began meanwhile, the read may have found its order, so the outcome
   * must not be recorded. Absent if no status read is behind it.
   */
  readonly fence_started_at?: DateTime.Utc | null
  /** `sent_as` of the status read behind this outcome: `provider_never_received` rests on it. Absent if no status read is behind it. */
  readonly sent_as?: string | null
  /** A success may be reversed for so long. Its status is read again, for the first time after `read_in`. Absent: it is final. */
  readonly reversible?: { readonly within: Duration.Duration; readonly read_in: Duration.Duration }
}

/** An outcome that a worker or a reconciler records of an operation, if the operation is still at `revision`. */
export interface OutcomeRecord {
  readonly id: OperationId
  readonly revision: number
  readonly outcome: Outcome
  readonly recording: Recording
}

const held = {
  unexamined: () =>
    "is held, and no worker has examined it since: run a worker for its provider, which sets until when it could still be sent",
  sendable: (until: DateTime.Utc | null) =>
    `is held. If a worker claimed it before, that worker may send it until ${
      until === null ? "then" : DateTime.formatIso(until)
    }: ask the provider after that, and then release it`,
  acknowledged: () => "is held, and its provider has acknowledged it: there is nothing to send",
  approval: () => "waits for an approval: only that decision releases it. Decide with approvals approve or deny"
} as const

/**
 * The operation stays held: it is not certain yet whether it was sent, or the provider has it. From `until` on the claim holder
 * from before the failover cannot send it.
 */
export class StillHeld extends Schema.TaggedError<StillHeld>()("StillHeld", {
  id: OperationId,
  reason: Schema.Literals(Object.keys(held) as ReadonlyArray<keyof typeof held>),
  until: Schema.NullOr(Schema.DateTimeUtcFromString)
}) {
  override get message() {
    return `operation ${this.id} ${held[this.reason](this.until)}`
  }
}

/** Ages in a state that put an operation under review. */
export interface ReviewTerms {
  /** Also for returned claims. */
  readonly accepted: Duration.Duration
  readonly submitted: Duration.Duration
  readonly indeterminate: Duration.Duration
}

/** Those of an application that sets none. */
export const defaultReviewAfter: ReviewTerms = {
  accepted: Duration.hours(1),
  submitted: Duration.days(3),
  indeterminate: Duration.minutes(15)
}

/**
 * The database may lose acknowledged commits in a crash. Nothing may be sent: after a crash an operation could be sent a second
 * time.
 */
export class UnsafeDatabase extends Schema.TaggedError<UnsafeDatabase>()("UnsafeDatabase", {
  setting: Schema.Literals(["fsync", "synchronous_commit"])
}) {
  override get message() {
    return `the database runs with ${this.setting} off: after a crash it could forget what was sent`
  }
}
