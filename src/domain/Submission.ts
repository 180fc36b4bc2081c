/**
 * The submission of an operation to its upstream provider, as far as it is pure: what a provider learns, and when the
 * next status read is due.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Provider, ProviderConnectionId, ResourceOwner } from "./Grant.ts"
import { OperationId, type OperationState, type OperationType } from "./Operation.ts"

/** What a provider learns of an operation. */
export interface ProviderOperation {
  /** The provider's idempotency key, too: the same operation never bears another. */
  readonly id: OperationId
  readonly type: OperationType
  /** On whose behalf, and through which connection. The adapter finds the credentials by these. */
  readonly resource_owner: ResourceOwner
  readonly provider_connection_id: ProviderConnectionId
  /**
   * No byte leaves after this instant, unless a process was stopped between its last look at the clock and the network.
   * A provider that refuses late requests closes that gap. Null when no worker ever claimed the operation.
   */
  readonly send_before: DateTime.Utc | null
}

/** The name that the provider gave to what it received. */
export const ProviderReference = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(1024),
  Schema.makeFilter((text) => text.isWellFormed() && !text.includes("\0"), { expected: "well-formed text without NUL" })
).pipe(Schema.brand("ProviderReference"))
export type ProviderReference = typeof ProviderReference.Type
export const isProviderReference = Schema.is(ProviderReference)

/** How often the status of an unsettled operation is read: fast at first, then ever slower, then slowly for ever. */
export interface ReadSchedule {
  readonly first: Duration.Duration
  readonly factor: number
  readonly longest: Duration.Duration
  /** Share of the delay by which it may be longer or shorter, so that what failed together is not read together. */
  readonly jitter: number
}

/** The delay in milliseconds after the n-th status read (0 before the first). `random` is between 0 and 1. */
export const readDelay = (schedule: ReadSchedule, reads: number, random: number): number => {
  const longest = Duration.toMillis(schedule.longest)
  const delay = Math.min(longest, Duration.toMillis(schedule.first) * schedule.factor ** Math.min(reads, 1000))
  return Math.round(delay * (1 + schedule.jitter * (2 * random - 1)))
}

/** The payload cannot be read: its key is not here, or it is not what was stored for this operation. */
export class PayloadUnreadable extends Schema.TaggedError<PayloadUnreadable>()("PayloadUnreadable", {}) {
  override get message() {
    return "the payload cannot be decrypted with the keys at hand"
  }
}

/** The payload can be read, and is not the one that was accepted: its type or its content has another digest. */
export class PayloadAltered extends Schema.TaggedError<PayloadAltered>()("PayloadAltered", {}) {
  override get message() {
    return "the stored payload does not match the digest of the accepted request"
  }
}

/**
 * The authorization of a claimed operation ended before it was sent: its grants were revoked, narrowed or have expired, its
 * client was deactivated, or its provider was disconnected. Nothing was sent, and nothing will be.
 */
export class AuthorizationRevoked extends Schema.TaggedError<AuthorizationRevoked>()("AuthorizationRevoked", {}) {
  override get message() {
    return "no live grant, active client and connected provider allowed the operation any more"
  }
}

/** An operation that this caller, and nobody else ever, may send. */
export interface Claim {
  readonly operation: ProviderOperation
  /** At which the outcome is to be recorded. */
  readonly revision: number
  /** Decrypts and parses the payload, and makes sure that it is what was accepted. Nothing is sent if it fails. */
  readonly payload: Effect.Effect<Schema.Json, PayloadUnreadable | PayloadAltered>
}

/** An operation whose status is to be read, by this caller for now. */
export interface DueRead {
  readonly operation: ProviderOperation
  readonly provider: Provider
  readonly state: OperationState
  readonly revision: number
  readonly reference: ProviderReference | null
  /** The provider once confirmed that it received the operation: by an acknowledgement, or by a reference. */
  readonly acknowledged: boolean
  /** Status reads so far, this one included. */
  readonly reads: number
}

/** How long things take, as the workers want it. All of it is counted by the clock of the database. */
export interface ClaimTerms {
  /** From the claim on, how long bytes may leave. */
  readonly send_within: Duration.Duration
  /** From the claim on, when the claim counts as stale. Longer than any send may take. */
  readonly rescue_after: Duration.Duration
  /** How long an operation waits that may not be sent now, because grant, client or provider connection is not good. */
  readonly idle: Duration.Duration
  /** Age in `accepted` that puts an operation under review. */
  readonly review_after: Duration.Duration
}

export interface ReadTerms {
  /** How long the read is this caller's alone. */
  readonly lease: Duration.Duration
  /** As in `ClaimTerms`: a claim that the database forgot may be sent by its holder until it is stale. */
  readonly rescue_after: Duration.Duration
  readonly idle: Duration.Duration
  /** Age in the state that puts an operation under review. */
  readonly review_submitted_after: Duration.Duration
  readonly review_indeterminate_after: Duration.Duration
}

/** What is recorded together with an outcome. */
export interface Recording {
  /** What proves it, as JSON. */
  readonly evidence: { readonly [member: string]: Schema.Json }
  readonly reference: ProviderReference | null
  /** When the next one acts on the operation, unless it is settled. */
  readonly due_in: Duration.Duration
  /**
   * `send_before` as the claim or the status read had it that this came of. After a failover that forgot it, another
   * claim may be at the same revision, and must not be recorded over. Absent where no claim is known.
   */
  readonly send_before?: DateTime.Utc | null
}

/**
 * The operation stays held: whether it was sent cannot be known yet, or the provider has it. `until` is when whoever
 * claimed it before the failover can send it no more.
 */
export class StillHeld extends Schema.TaggedError<StillHeld>()("StillHeld", {
  id: OperationId,
  reason: Schema.Literals(["unexamined", "sendable", "acknowledged"]),
  until: Schema.NullOr(Schema.DateTimeUtcFromString)
}) {
  override get message() {
    switch (this.reason) {
      case "unexamined":
        return `operation ${this.id} is held, and no worker has looked at it since: run one for its provider, which finds out until when it could still be sent`
      case "sendable":
        return `operation ${this.id} is held, and whoever claimed it before may send it until ${
          this.until === null ? "then" : DateTime.formatIso(this.until)
        }: ask the provider after that, and release it then`
      case "acknowledged":
        return `operation ${this.id} is held, and its provider has acknowledged it: there is nothing to send`
    }
  }
}

/** Ages in a state that put an operation under review. */
export interface ReviewTerms {
  readonly accepted: Duration.Duration
  readonly submitted: Duration.Duration
  readonly indeterminate: Duration.Duration
}

/**
 * The database would forget what it acknowledged, so nothing may be sent: after a crash a mutation could be sent once
 * more.
 */
export class UnsafeDatabase extends Schema.TaggedError<UnsafeDatabase>()("UnsafeDatabase", {
  setting: Schema.Literals(["fsync", "synchronous_commit"])
}) {
  override get message() {
    return `the database runs with ${this.setting} off: after a crash it could forget what was sent`
  }
}
