/**
 * The work of the submission workers: operations to claim, to rescue and to read the status of. The database alone coordinates
 * the workers, with row locks, compare-and-set and its own clock. So any number of them may run, on any number of machines.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { WorkerReport } from "../domain/FiguresForm.ts"
import type { ProviderName } from "../domain/Grant.ts"
import type {
  IllegalTransition,
  Operation,
  OperationId,
  OperationNotFound,
  Outcome,
  StaleOperation
} from "../domain/Operation.ts"
import type { SlotDemand, Slots, SlotTerms } from "../domain/ProviderLimit.ts"
import type {
  Claim,
  ClaimTerms,
  DueRead,
  HintedOperation,
  HintEffect,
  OutcomeRecord,
  ProviderReference,
  ReadTerms,
  Recording,
  ReturnTerms,
  ReviewTerms,
  StillHeld,
  UnsafeDatabase
} from "../domain/Submission.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeMemory } from "./memory/MemorySubmissionQueue.ts"
import { makeSql } from "./sql/SqlSubmissionQueue.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** The statements of worker, rescuer and reconciler. Applications provide `layer` or `layerMemory`, and call nothing of it. */
export class SubmissionQueue extends Context.Service<SubmissionQueue, {
  /**
   * Checks that the database keeps acknowledged commits, and that the ledger has not moved to another cluster or database. After
   * a move it holds all `accepted` operations, because the original ledger may have submitted them. It treats claims as `holdAll`
   * does. Returns whether it did.
   */
  readonly prepare: Effect.Effect<{ readonly moved: boolean }, UnsafeDatabase | StoreUnavailable>
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
   * Whether a claimed operation may still be sent: nothing moved it since the claim, and client, provider connection and a
   * grant allow it as for a claim. The answer is true of an instant between call and return. The claim itself permits the
   * first attempt. Call this before each further one.
   *
   * After `StoreUnavailable` the operation may not be sent. A server in recovery gives no answer.
   */
  readonly mayStillSend: (claim: Pick<Claim, "operation" | "revision">) => Effect.Effect<boolean, StoreUnavailable>
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
   * Puts up to `limit` unsettled operations of these ages under review, even if their next action is not due. Held claims are
   * left out, because the rescuer ends them. Returns their number.
   */
  readonly reviewAged: (limit: number, terms: ReviewTerms) => Effect.Effect<number, StoreUnavailable>
  /**
   * Moves up to `limit` stale `submitting` operations to `indeterminate`, and to no other state. Returns their ids.
   *
   * A returned claim is not stale, because nothing was sent. It is stale after a change of the timeline, which may have lost
   * a take-over. After such a change `send_before` of each rescued operation is set anew, five minutes or more ahead: until
   * then the worker of the lost take-over may send, and the provider cannot prove that it never receives the operation.
   */
  readonly rescue: (limit: number) => Effect.Effect<ReadonlyArray<OperationId>, StoreUnavailable>
  /**
   * Moves all held claims of a worker to `indeterminate`, and returns their number. A worker that starts calls it with its own
   * id, before its first claim: the process that had the id before is dead, so a wait for `rescue_after` protects nothing.
   *
   * `indeterminate` is true at any time, because a byte may have left. The operation is never sent again. Returned claims
   * stay as they are.
   */
  readonly rescueClaimsOf: (worker: string) => Effect.Effect<number, StoreUnavailable>
  /**
   * Takes up to `limit` `submitted` and `indeterminate` operations whose status read is due. It postpones operations without
   * a live grant, an active client or a connected provider connection.
   */
  readonly takeReads: (
    provider: ProviderName,
    limit: number,
    terms: ReadTerms
  ) => Effect.Effect<ReadonlyArray<DueRead>, StoreUnavailable>
  /** Takes held operations in the same way, and puts them under review. */
  readonly takeHeld: (
    provider: ProviderName,
    limit: number,
    terms: ReadTerms
  ) => Effect.Effect<ReadonlyArray<DueRead>, StoreUnavailable>
  /**
   * Sets the time of the next status read. It changes only an operation that is still at `revision`, and in the situation of
   * the last read. A claim stays unchanged, and so does an operation that was held then and is released now.
   *
   * `review` also puts the operation under review, unless an operator has ended a review of it in this state. After that, only
   * its age begins a review.
   */
  readonly postpone: (
    id: OperationId,
    revision: number,
    next: Omit<Recording, "evidence"> & { readonly review?: boolean }
  ) => Effect.Effect<void, StoreUnavailable>
  /**
   * Takes a hint that something happened to an operation of this provider. It moves the next status read to now, or to the end of
   * the interval after the last read that a hint asked for. It changes nothing else.
   *
   * During a submission or a status read, the hint is noted: the next read is due when the outcome is recorded. So a hint that
   * comes before the answer of the provider leads to a read, too, and two reads of one operation do not overlap.
   *
   * A free `accepted` operation and a settled one have nothing to read. A hint by reference concerns the hundred operations with
   * that reference that changed last.
   */
  readonly hint: (
    provider: ProviderName,
    about: HintedOperation,
    interval: Duration.Duration
  ) => Effect.Effect<HintEffect, StoreUnavailable>
  /**
   * Reports an operation that the worker may have sent, and that is no longer in the state of its claim. A rescued operation
   * becomes due for a status read at once. One that is `accepted` again, because a failover lost the claim, is held. One that
   * has another reference keeps that, and is put under review.
   */
  readonly report: (id: OperationId, reference: ProviderReference | null) => Effect.Effect<void, StoreUnavailable>
  /**
   * Holds an `accepted` operation, as `holdAll` does: the reconciler examines it at once, and it can be released only after
   * that. A held operation stays as it is, so its examination still counts. A claim that comes first wins, and the call then
   * fails with `IllegalTransition`.
   *
   * After `StoreUnavailable` it is unknown whether the operation is held: repeat the call.
   */
  readonly hold: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable>
  /**
   * Holds every `accepted` operation, and returns how many. For a ledger that was restored without a new timeline, such as from
   * a snapshot of its disk.
   *
   * It moves every claim to `indeterminate`, because the restored ledger may lack returns and take-overs. A holder may still send
   * for some minutes, so "not found" at the provider is final only after that.
   *
   * All change tokens expire: see `OperationFeed`.
   */
  readonly holdAll: Effect.Effect<number, StoreUnavailable>
  /**
   * Records how far the changes have come, at most once a second. So the tokens of `OperationFeed` stay valid after a failover
   * that lost nothing of it. The feed of a new timeline begins with its first mark.
   */
  readonly markChanges: Effect.Effect<void, StoreUnavailable>
  /**
   * Merges the counts of `LedgerFigures` that have piled up since the last call: each transition adds one. Several processes may
   * call it at once. In memory it does nothing.
   */
  readonly foldCounts: Effect.Effect<void, StoreUnavailable>
  /** The present, by the clock of the database. */
  readonly readClock: Effect.Effect<DateTime.Utc, StoreUnavailable>
  /**
   * Stores what a process with workers reports of itself, for `LedgerFigures`. Repeat it: operators take a process without a report
   * for gone. In memory it does nothing.
   */
  readonly reportWorker: (report: WorkerReport) => Effect.Effect<void, StoreUnavailable>
  /** Removes the report of a process that stops. */
  readonly forgetWorker: (process_id: string) => Effect.Effect<void, StoreUnavailable>
  /**
   * Releases a held operation for the next claim, after an operator made sure that it was never sent. The operator cannot be
   * sure while the claim holder from before the failover may still send it. Until then the call fails with `StillHeld`. An
   * operation that is not held stays as it is.
   */
  readonly release: (
    id: OperationId
  ) => Effect.Effect<Operation, OperationNotFound | StillHeld | IllegalTransition | StoreUnavailable>
  /**
   * Does the same after a status read proved that the provider never received the operation. `send_before` is that of the read.
   * Fails with `StaleOperation` if it differs by now: the operation may have been released, claimed and held again. It also
   * fails while the earlier claim holder may still send the operation. The next read may prove it again.
   */
  readonly releaseUnsent: (
    id: OperationId,
    send_before: DateTime.Utc
  ) => Effect.Effect<void, OperationNotFound | StaleOperation | StoreUnavailable>
  /**
   * Releases all held operations, and returns how many. For a failover that is known to have lost nothing. Acknowledged
   * operations stay held.
   */
  readonly releaseAll: Effect.Effect<number, StoreUnavailable>
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
   * Reserves slots of the limit of a provider: as many as are asked for, or fewer, as far as the horizon. A slot is in
   * milliseconds from an instant between call and return. Wait for it from the return on, so that no request leaves early, and
   * count its lateness from the call on. A request that does not use its slot reserves another one.
   *
   * After `StoreUnavailable` it is unknown whether slots were reserved: send nothing. All callers must pass the same terms.
   */
  readonly reserveSlots: (
    provider: ProviderName,
    demand: SlotDemand,
    terms: SlotTerms
  ) => Effect.Effect<Slots, StoreUnavailable>
  /** The slots that a call of `reserveSlots` would reserve now. Reserves none, and writes only if the clock was set back. */
  readonly openSlots: (
    provider: ProviderName,
    demand: SlotDemand,
    terms: SlotTerms
  ) => Effect.Effect<Slots, StoreUnavailable>
  /**
   * Admits no request of a provider with a limit before the end of this pause, in any process. Slots that are reserved
   * already stay. A longer pause stays, too.
   */
  readonly closeProvider: (provider: ProviderName, pause: Duration.Duration) => Effect.Effect<void, StoreUnavailable>
  /** Whether the ledger has a witness. Then it lets only workers with a witness claim. */
  readonly hasWitness: Effect.Effect<boolean, StoreUnavailable>
}>()("financial-agents-gateway/services/SubmissionQueue") {
  static readonly layer: Layer.Layer<SubmissionQueue, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    SubmissionQueue,
    Effect.suspend(() => Effect.map(makeSql, (queue) => SubmissionQueue.of(queue)))
  )

  static readonly layerMemory: Layer.Layer<SubmissionQueue, never, MemoryLedger | Digest.Digest> = Layer.effect(
    SubmissionQueue,
    Effect.suspend(() => Effect.map(makeMemory, (queue) => SubmissionQueue.of(queue)))
  )
}
