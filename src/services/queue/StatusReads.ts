/** Status reads: which operations a reconciler reads next, and when it reads them again. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type {
  DueRead,
  HintedOperation,
  HintEffect,
  PayloadAltered,
  PayloadUnreadable,
  ProviderOperation,
  ReadTerms,
  Recording
} from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** Most operations that one hint by reference looks at: those with the reference that changed last. */
export const mostHinted = 100

/** What a status read without evidence leaves behind. */
export interface Postponement extends Omit<Recording, "evidence"> {
  readonly review?: boolean
  /** What the provider answered, for operators: 1,024 characters at most. Absent: there was no read. */
  readonly answer?: string
  /**
   * What a person asks the provider, because reads may not settle the operation: 1,024 characters at most. Absent: an earlier question
   * stays. Null: it is answered.
   */
  readonly question?: string | null
}

/** Durations of the reads of succeeded operations. */
export interface ReversibleTerms extends Pick<ReadTerms, "lease"> {
  /** The next try of an operation that nothing allows to read. */
  readonly idle: Duration.Duration
}

/** What a read of a succeeded operation leaves behind if it proves no reversal. */
export interface ReversiblePostponement {
  readonly due_in: Duration.Duration
  /** This read is the last one if it began so long after the end of the time in which the success may be reversed. Null: it is not. */
  readonly ends_after: Duration.Duration | null
}

type TakeUpTo<Terms> = (
  provider: ProviderName,
  limit: number,
  terms: Terms
) => Effect.Effect<ReadonlyArray<DueRead>, StoreUnavailable>

export class StatusReads extends Context.Service<StatusReads, {
  /**
   * Takes up to `limit` `submitted` and `indeterminate` operations whose status read is due. It postpones operations without
   * a live grant, an active client or a connected provider connection.
   */
  readonly takeReads: TakeUpTo<ReadTerms>
  /** Takes held operations in the same way, and puts them under review. It leaves those alone that were provably never sent. */
  readonly takeHeld: TakeUpTo<ReadTerms>
  /** Takes succeeded operations that may be reversed, in the same way. After the end of that time, each is taken for the last time. */
  readonly takeReversible: TakeUpTo<ReversibleTerms>
  /** Sets the time of the next read of a succeeded operation, or ends its reads if this was the last one. */
  readonly postponeReversible: (
    id: OperationId,
    next: ReversiblePostponement
  ) => Effect.Effect<void, StoreUnavailable>
  /**
   * Records that a succeeded operation was reversed, once, and ends its reads. No state, no revision and no public form changes. Yields
   * whether this call recorded it. After `StoreUnavailable` that is unknown.
   */
  readonly recordReversal: (
    id: OperationId,
    evidence: Recording["evidence"]
  ) => Effect.Effect<boolean, StoreUnavailable>
  /** The payload of an operation that is read indirectly. Decrypts it and checks its digest, as `Claim.payload` does. */
  readonly payloadOf: (
    due: { readonly operation: Pick<ProviderOperation, "id"> }
  ) => Effect.Effect<Schema.Json, PayloadUnreadable | PayloadAltered | StoreUnavailable>
  /**
   * When the fence of the operation began, if it may be sent now; null if not. The first time it records that the fence begins, in a
   * transaction of its own, and returns after the acknowledgement of the COMMIT: call it before each fence. The answer is true of an instant
   * between call and return.
   *
   * It allows a fence only of an `indeterminate` operation at `revision`, without a reference, whose `send_before` has passed by more than
   * clocks may differ. Client, provider connection and a grant must allow the operation as for a claim.
   */
  readonly mayFence: (
    due: Pick<DueRead, "revision"> & { readonly operation: Pick<ProviderOperation, "id" | "send_before"> }
  ) => Effect.Effect<DateTime.Utc | null, StoreUnavailable>
  /**
   * Sets the time of the next status read. It changes only an operation that is still at `revision`, and in the situation of
   * the last read, in which no fence began since. A claim stays unchanged, and so does an operation that was held then and is released now.
   *
   * `review` also puts the operation under review, unless an operator has ended a review of it in this state. After that, only
   * its age begins a review. Yields whether this call changed the operation.
   */
  readonly postpone: (
    id: OperationId,
    revision: number,
    next: Postponement
  ) => Effect.Effect<boolean, StoreUnavailable>
  /**
   * Takes a hint that something happened to an operation of this provider. It moves the next status read to now, or to the end of
   * the interval after the last read that a hint asked for. It changes nothing else.
   *
   * During a submission or a status read, the hint is noted: the next read is due when the outcome is recorded. So a hint that
   * comes before the answer of the provider leads to a read, too, and two reads of one operation do not overlap.
   *
   * A free `accepted` operation has nothing to read, nor has a settled one that cannot be reversed any more. A hint by reference concerns the `mostHinted` operations with
   * that reference that changed last.
   */
  readonly hint: (
    provider: ProviderName,
    about: HintedOperation,
    interval: Duration.Duration
  ) => Effect.Effect<HintEffect, StoreUnavailable>
}>()("financial-agents-gateway/services/queue/StatusReads") {}
