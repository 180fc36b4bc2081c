/**
 * Claims: which operations a worker may send, and how it gives up the right to send. Outcomes: what workers and
 * reconcilers record of the operations that they sent or read. Limits: how many requests all processes together send to a provider.
 */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { Operation, OperationId, OperationNotFound, Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { PermitDemand, Permits, PermitTerms } from "../../domain/ProviderLimit.ts"
import type {
  Claim,
  ClaimTerms,
  OutcomeRecord,
  ProviderReference,
  Recording,
  ReturnTerms
} from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** The reason of a returned claim as the queue stores it: well-formed text without NUL, of 1 to 1,024 characters. */
export const returnReason = (reason: string): string =>
  reason === "" ? "no reason given" : reason.slice(0, 1024).toWellFormed().replaceAll("\0", "\uFFFD")

export interface Claims {
  /**
   * Moves up to `limit` operations from `accepted` to `submitting`, in a transaction of its own. It returns after the
   * acknowledgement of the COMMIT. Only the returned operations may be sent. After `StoreUnavailable` it is unknown which
   * operations were claimed, so none of them may be sent.
   *
   * The clients of the provider take turns, so that the long queue of one does not delay the others. Within a client the
   * oldest operation comes first.
   *
   * An operation stays `accepted` in these cases:
   *
   * - There is no live grant of the same owner, subject, client and provider connection with the scopes of the accepting grant.
   * - Its client is inactive, or its provider connection is disconnected.
   * - Its payload needs a key that this worker lacks, or is plain text that the keys do not admit.
   * - It is held.
   */
  readonly claim: (
    provider: ProviderName,
    limit: number,
    terms: ClaimTerms
  ) => Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>
  /**
   * Takes over up to `limit` returned claims, the oldest due time first, in a transaction of its own. It returns after the
   * acknowledgement of the COMMIT. After `StoreUnavailable` none of the operations may be sent, as for `claim`.
   *
   * The operations keep state and revision, and get a later `send_before`: so all that earlier holders still ask or record is
   * stale. An operation that `claim` would leave `accepted` keeps its returned claim: without a live grant, for example.
   *
   * It leaves a claim from an earlier timeline of the database: a failover may have lost a take-over that sent the operation.
   * The rescuer moves such a claim to `indeterminate`.
   */
  readonly claimReturned: (
    provider: ProviderName,
    limit: number,
    terms: ClaimTerms
  ) => Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>
  /**
   * Gives up a claim of which no byte was sent. The operation stays `submitting` at the same revision, and a worker may take
   * it over after the delay. Call it only if nothing was sent, and send nothing after the call, also if it fails.
   *
   * The right to send ends in the statement that returns the claim, so at most one process has it. The caller cannot record
   * an outcome any more.
   *
   * After `StoreUnavailable` repeat it. `StaleOperation` then means that the claim was returned, rescued or taken over.
   */
  readonly returnClaim: (
    claim: Pick<Claim, "operation" | "revision">,
    terms: ReturnTerms
  ) => Effect.Effect<void, StaleOperation | OperationNotFound | StoreUnavailable>
  /**
   * Whether a claimed operation may still be sent: nothing moved it since the claim, and client, provider connection and a
   * grant allow it as for a claim. The answer is true of an instant between call and return. The claim itself permits the
   * first attempt. Call this before each further one.
   *
   * After `StoreUnavailable` the operation may not be sent. A server in recovery gives no answer.
   */
  readonly mayStillSend: (claim: Pick<Claim, "operation" | "revision">) => Effect.Effect<boolean, StoreUnavailable>
  /** Whether only workers claim that record their batches elsewhere first: see `ClaimTerms.recorded_by`. */
  readonly requiresRecords: Effect.Effect<boolean, StoreUnavailable>
  /** The present, by the clock of the database. */
  readonly readClock: Effect.Effect<DateTime.Utc, StoreUnavailable>
}

/**
 * The first record of each operation, with its place in the list. One statement moves an operation once, and the order in which it
 * would come to two records of the same operation is not defined.
 */
export const firstOfEach = <A extends { readonly id: OperationId }>(
  records: ReadonlyArray<A>
): ReadonlyArray<readonly [record: A, place: number]> => {
  const seen = new Set<OperationId>()
  return records.flatMap((record, place) => {
    if (seen.has(record.id)) return []
    seen.add(record.id)
    return [[record, place] as const]
  })
}

export interface Outcomes {
  /**
   * Records the outcome of an operation if it is still at `revision` (compare-and-set), and if it has no reference yet or the
   * same one. Otherwise it fails with `StaleOperation`: another component recorded first, or a status read found another
   * reference. It also fails for a returned claim, which has no holder.
   *
   * After `StoreUnavailable` it is unknown whether the outcome was recorded: record it again. `StaleOperation` then means that
   * it was, or that another component was faster.
   */
  readonly record: (
    id: OperationId,
    revision: number,
    outcome: Outcome,
    recording: Recording
  ) => Effect.Effect<Operation, StaleOperation | OperationNotFound | StoreUnavailable>
  /**
   * Records outcomes in one statement, each by the rules of `record`. Returns for each, in order, whether it was recorded. Nothing
   * is known of the others: `record` tells why it refuses one, and waits for one that another transaction has locked. Of several
   * records of one operation it considers only the first.
   *
   * After `StoreUnavailable` either all or none of the permitted outcomes were recorded: record them again. A row that breaks a
   * rule of the database fails the whole call with a defect, and then nothing was recorded.
   */
  readonly recordAll: (records: ReadonlyArray<OutcomeRecord>) => Effect.Effect<ReadonlyArray<boolean>, StoreUnavailable>
  /**
   * Records the outcome that a status read proved of a held operation, which was sent before the timeline changed. The operation
   * passes through `submitting`, in one transaction, and nothing is sent.
   */
  readonly recordHeld: (
    id: OperationId,
    revision: number,
    outcome: Outcome,
    recording: Recording
  ) => Effect.Effect<Operation, StaleOperation | OperationNotFound | StoreUnavailable>
  /**
   * Reports an operation that the worker may have sent, and that is no longer in the state of its claim. A rescued operation
   * becomes due for a status read at once. One that is `accepted` again, because a failover lost the claim, is held. One that
   * has another reference keeps that, and is put under review.
   */
  readonly report: (id: OperationId, reference: ProviderReference | null) => Effect.Effect<void, StoreUnavailable>
}

export interface ProviderLimits {
  /**
   * Reserves permits of the limit of a provider: as many as are asked for, or fewer, as far as the horizon. A permit is in
   * milliseconds from an instant between call and return. Wait for it from the return on, so that no request leaves early, and
   * count its lateness from the call on. A request that does not use its permit reserves another one.
   *
   * After `StoreUnavailable` it is unknown whether permits were reserved: send nothing. All callers must pass the same terms.
   */
  readonly reservePermits: (
    provider: ProviderName,
    demand: PermitDemand,
    terms: PermitTerms
  ) => Effect.Effect<Permits, StoreUnavailable>
  /** The permits that a call of `reservePermits` would reserve now. Reserves none, and writes only if the clock was set back. */
  readonly openPermits: (
    provider: ProviderName,
    demand: PermitDemand,
    terms: PermitTerms
  ) => Effect.Effect<Permits, StoreUnavailable>
  /**
   * Admits no request of a provider with a limit before the end of this pause, in any process. Permits that are reserved
   * already stay. A longer pause stays, too.
   */
  readonly closeProvider: (provider: ProviderName, pause: Duration.Duration) => Effect.Effect<void, StoreUnavailable>
}
