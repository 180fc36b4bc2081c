/**
 * What waits for the workers: operations to claim, to rescue and to read the status of. The database alone coordinates
 * them, with row locks, compare-and-set and its own clock, so any number of workers may run on any number of machines.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Provider } from "../domain/Grant.ts"
import type {
  IllegalTransition,
  Operation,
  OperationId,
  OperationNotFound,
  Outcome,
  StaleOperation
} from "../domain/Operation.ts"
import type {
  Claim,
  ClaimTerms,
  DueRead,
  ProviderReference,
  ReadTerms,
  Recording,
  ReviewTerms,
  StillHeld,
  UnsafeDatabase
} from "../domain/Submission.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeMemory } from "./memory/MemorySubmissionQueue.ts"
import { makeSql } from "./sql/SqlSubmissionQueue.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

export class SubmissionQueue extends Context.Service<SubmissionQueue, {
  /**
   * Makes sure that what the database acknowledges stays, and that the ledger is where it was: in a cluster that it was
   * copied to, nobody knows what was sent meanwhile, so whatever is `accepted` is held. Yields whether that happened.
   */
  readonly prepare: Effect.Effect<{ readonly moved: boolean }, UnsafeDatabase | StoreUnavailable>
  /**
   * Moves up to `limit` operations from `accepted` to `submitting`, in a transaction of its own. It yields after the
   * COMMIT was acknowledged: what it yields may be sent, and nothing else. After `StoreUnavailable` nobody knows what was
   * claimed, so none of it may be sent.
   *
   * The clients of the provider take turns, so that the long queue of one does not delay the others. Within a client the
   * oldest operation comes first.
   *
   * Operations stay where they are while their owner has withdrawn (no live grant of the same owner, subject, client
   * and provider connection, an inactive client, a disconnected provider), while their payload needs a key that is not at
   * hand or is plain text that the keys at hand do not admit, and after a change of the database's timeline.
   */
  readonly claim: (
    provider: Provider,
    limit: number,
    terms: ClaimTerms
  ) => Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>
  /**
   * Whether a claimed operation may still be sent: it is where the claim left it, and client, provider connection and a grant
   * allow it as a claim demands. The answer holds at an instant between the question and the answer. The claim itself
   * answers for the first attempt; ask before each further one.
   *
   * After `StoreUnavailable` it may not be sent. A server in recovery does not answer.
   */
  readonly mayStillSend: (claim: Pick<Claim, "operation" | "revision">) => Effect.Effect<boolean, StoreUnavailable>
  /**
   * Records what became of an operation, if it is still at `revision` (compare-and-set), and if its reference is none
   * yet or the one that is recorded: `StaleOperation` otherwise, because a status read under another name came first.
   *
   * After `StoreUnavailable` nobody knows whether it was recorded: record it again, and read a `StaleOperation` then as
   * "it was, or somebody else was faster".
   */
  readonly record: (
    id: OperationId,
    revision: number,
    outcome: Outcome,
    recording: Recording
  ) => Effect.Effect<Operation, StaleOperation | OperationNotFound | StoreUnavailable>
  /**
   * Puts unsettled operations of that age under review, up to `limit`, whether or not anybody can act on them, and yields
   * how many.
   */
  readonly reviewAged: (limit: number, terms: ReviewTerms) => Effect.Effect<number, StoreUnavailable>
  /** Moves stale `submitting` operations, up to `limit`, to `indeterminate` and nowhere else. Yields which. */
  readonly rescue: (limit: number) => Effect.Effect<ReadonlyArray<OperationId>, StoreUnavailable>
  /**
   * Takes up to `limit` operations whose status read is due: `submitted` and `indeterminate` ones. While their owner
   * has withdrawn they are put off instead.
   */
  readonly takeReads: (
    provider: Provider,
    limit: number,
    terms: ReadTerms
  ) => Effect.Effect<ReadonlyArray<DueRead>, StoreUnavailable>
  /** The same for `accepted` operations that a change of the timeline holds. They are put under review. */
  readonly takeHeld: (
    provider: Provider,
    limit: number,
    terms: ReadTerms
  ) => Effect.Effect<ReadonlyArray<DueRead>, StoreUnavailable>
  /**
   * Sets the time of the next status read, if the operation is still at `revision`, and where that read left it: one that
   * was held and has been released since is left alone, and so is a claim. `review` puts it under review as well, unless
   * an operator has ended a review of it in this state: from then on its age decides.
   */
  readonly postpone: (
    id: OperationId,
    revision: number,
    next: Omit<Recording, "evidence"> & { readonly review?: boolean }
  ) => Effect.Effect<void, StoreUnavailable>
  /**
   * What a worker knows of an operation that it may have sent, and that the ledger has elsewhere by now. The status of one
   * that was rescued is read at once. One that is `accepted` again, because a failover forgot the claim, is held. One that
   * has another reference already keeps it, and is put under review.
   */
  readonly report: (id: OperationId, reference: ProviderReference | null) => Effect.Effect<void, StoreUnavailable>
  /**
   * Holds every `accepted` operation, and yields how many: for a ledger that was put back in time in a way that it cannot
   * notice, such as a snapshot of its disk.
   */
  readonly holdAll: Effect.Effect<number, StoreUnavailable>
  /**
   * Lets a held operation be claimed again, because an operator made sure that it was never sent. It stays held, as
   * `StillHeld`, for as long as whoever claimed it before the failover may still send it, so that nobody makes sure of
   * it too early. One that is not held stays as it is.
   */
  readonly release: (
    id: OperationId
  ) => Effect.Effect<Operation, OperationNotFound | StillHeld | IllegalTransition | StoreUnavailable>
  /**
   * The same because a status read proved that it was never received. It gives `send_before` as it had it: the operation
   * may have been released, claimed and held again since, and what was proven then is not proven now. Nor is it while
   * somebody may still send it: `StaleOperation`, and the next read may prove it again.
   */
  readonly releaseUnsent: (
    id: OperationId,
    send_before: DateTime.Utc
  ) => Effect.Effect<void, OperationNotFound | StaleOperation | StoreUnavailable>
  /**
   * Releases all of them at once, and yields how many there were: for a failover that is known to have lost nothing.
   * What a provider has acknowledged stays held.
   */
  readonly releaseAll: Effect.Effect<number, StoreUnavailable>
  /**
   * Records what a status read proved of a held operation, which was sent before the timeline changed: through
   * `submitting` to where it is, in one transaction and without sending anything.
   */
  readonly recordHeld: (
    id: OperationId,
    revision: number,
    outcome: Outcome,
    recording: Recording
  ) => Effect.Effect<Operation, StaleOperation | OperationNotFound | StoreUnavailable>
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
