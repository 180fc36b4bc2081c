/** The end of a claim: its outcome is recorded, or it is returned. Both are repeated while the store is unavailable. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import { readDelay } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { elapsed } from "../elapsed.ts"
import { firstReadAfter, reversibleRecording } from "../providers/ProviderPromises.ts"
import { withinStore } from "../storeStatements.ts"
import { logFailure, logOutcome } from "../submissionLog.ts"
import type { WorkerServices } from "../SubmissionServices.ts"
import type { TimedClaim } from "./claimOperations.ts"
import type { Settlement } from "./Settlement.ts"

/** Pauses while the store is unavailable: from 100 ms, doubling, up to two seconds. */
const retrySchedule = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

/**
 * Repeats a statement about a claim while the store is unavailable, until the claim is stale: then the rescuer records
 * `indeterminate`. A worker that is asked to stop gives up earlier.
 */
const whileClaimed = <A, E extends { readonly _tag: string }>(
  { drain, policy }: WorkerServices,
  { askedAt }: TimedClaim,
  statement: Effect.Effect<A, E | StoreUnavailable>
): Effect.Effect<A, E | StoreUnavailable> => {
  const stopping = Duration.toMillis(policy.drainTimeout) + Duration.toMillis(policy.storeTimeout)
  const mayRepeat = Effect.gen(function*() {
    return (yield* elapsed(askedAt)) < Duration.toMillis(policy.rescueAfter) && (yield* drain.elapsed) < stopping
  })
  return Effect.retry(statement, {
    while: (error) => error._tag === "StoreUnavailable" ? mayRepeat : Effect.succeed(false),
    schedule: retrySchedule
  })
}

/**
 * Records the outcome of a submission by compare-and-set, and repeats that while the store is unavailable. Logs it once it is recorded:
 * an operation that another component moved has another outcome.
 */
export const recordSettlement = Effect.fnUntraced(function*(
  services: WorkerServices,
  timed: TimedClaim,
  settlement: Settlement
) {
  const { outcomeRecorder, outcomes, policy } = services
  const { claim: { operation: { id, send_before, type }, revision }, provider } = timed
  const { evidence, outcome, reference } = settlement
  const promises = services.providers.get(provider)?.promises ?? {}
  const lag = firstReadAfter(promises, reference)
  const due_in = Duration.max(lag, Duration.millis(readDelay(policy.readSchedule, 0, yield* Random.next)))
  const record = outcomeRecorder.record({
    id,
    revision,
    outcome,
    recording: { evidence, reference, due_in, send_before, ...reversibleRecording(promises, type, policy) }
  })
  yield* whileClaimed(services, timed, record).pipe(
    Effect.tap(() => logOutcome(outcome, evidence["reason"], { operation_id: id, provider })),
    // An earlier try recorded it, the rescuer moved it, or a failover forgot the claim. The report gives the reference
    // to the next status read, and holds an operation that is `accepted` again, so that it is not sent twice.
    Effect.catchTag(
      "StaleOperation",
      () => settlement.isSent ? withinStore(outcomes.report(id, reference)) : Effect.void
    ),
    Effect.catchCause((cause) =>
      Effect.annotateLogs(
        logFailure("Could not record the outcome of an operation; the rescuer will move it to indeterminate", cause),
        { outcome: outcome.state }
      )
    ),
    Effect.annotateLogs({ operation_id: id, provider })
  )
})

/**
 * Returns the claim of an operation that the provider provably has not taken, so that any worker may take it over later.
 * Repeats that while the store is unavailable. If no try succeeds, the rescuer moves the stale claim to `indeterminate`.
 */
export const returnClaim = (services: WorkerServices, timed: TimedClaim, reason: string): Effect.Effect<void> => {
  const { claims, metrics, policy } = services
  const { claim, provider } = timed
  const terms = { reason, delay: policy.returnDelay, review_after: policy.reviewAfter.accepted }
  return whileClaimed(services, timed, withinStore(claims.returnClaim(claim, terms))).pipe(
    Effect.tap(() =>
      Effect.sync(() => {
        if (metrics !== null) metrics.of(provider).returned.value++
      })
    ),
    // An earlier try returned it, or the rescuer moved it.
    Effect.catchTag("StaleOperation", () => Effect.void),
    Effect.catchCause((cause) =>
      logFailure("Could not return the claim of an operation; the rescuer will move it to indeterminate", cause)
    ),
    Effect.annotateLogs({ operation_id: claim.operation.id, provider, reason })
  )
}
