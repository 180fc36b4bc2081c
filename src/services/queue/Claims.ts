/**
 * Claims: which operations a worker may send, and how it gives up the right to send.
 *
 * The room `services/queue`: the contracts of worker, rescuer and reconciler, and no others. Read this file first. `SubmissionQueue` has
 * their layers.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationNotFound, StaleOperation } from "../../domain/Operation.ts"
import type { Claim, ClaimTerms, ReturnTerms } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** The reason of a returned claim as the queue stores it: well-formed text without NUL, of 1 to 1,024 characters. */
export const returnReason = (reason: string): string =>
  reason === "" ? "no reason given" : reason.slice(0, 1024).toWellFormed().replaceAll("\0", "\uFFFD")

type ClaimUpTo = (
  provider: ProviderName,
  limit: number,
  terms: ClaimTerms
) => Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>

export class Claims extends Context.Service<Claims, {
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
   * - A planned switchover of the database is under way: nothing is claimed.
   */
  readonly claim: ClaimUpTo
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
  readonly claimReturned: ClaimUpTo
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
}>()("financial-agents-gateway/services/queue/Claims") {}
