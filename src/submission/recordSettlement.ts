import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import { readDelay } from "../domain/Submission.ts"
import type { TimedClaim } from "./claimOperations.ts"
import type { Drain } from "./Drain.ts"
import { elapsed } from "./elapsed.ts"
import { logFailure } from "./logFailure.ts"
import type { Settlement } from "./Settlement.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"
import { withinStore } from "./withinStore.ts"

/** Pauses while the store is unavailable: from 100 ms, doubling, up to two seconds. */
const retrySchedule = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

/**
 * Records the outcome of a submission by compare-and-set, and repeats that while the store is unavailable.
 */
export const recordSettlement = Effect.fnUntraced(function*(
  { policy, queue }: SubmissionServices,
  drain: Drain,
  { askedAt, claim }: TimedClaim,
  settlement: Settlement
) {
  const { operation: { id, send_before }, revision } = claim
  const due_in = Duration.millis(readDelay(policy.readSchedule, 0, yield* Random.next))
  const { evidence, reference } = settlement
  // Until the claim is stale: then the rescuer records `indeterminate`. A worker that is asked to stop gives up
  // earlier.
  const mayRepeat = Effect.gen(function*() {
    const stopping = Duration.toMillis(policy.drainTimeout) + Duration.toMillis(policy.storeTimeout)
    return (yield* elapsed(askedAt)) < Duration.toMillis(policy.rescueAfter) && (yield* drain.elapsed) < stopping
  })
  yield* withinStore(queue.record(id, revision, settlement.outcome, { evidence, reference, due_in, send_before })).pipe(
    Effect.retry({
      while: (error) => error._tag === "StoreUnavailable" ? mayRepeat : Effect.succeed(false),
      schedule: retrySchedule
    }),
    // An earlier try recorded it, the rescuer moved it, or a failover forgot the claim. The report gives the reference
    // to the next status read, and holds an operation that is `accepted` again, so that it is not sent twice.
    Effect.catchTag(
      "StaleOperation",
      () => settlement.isSent ? withinStore(queue.report(id, reference)) : Effect.void
    ),
    Effect.catchCause((cause) =>
      logFailure("Could not record the outcome of an operation; the rescuer will move it to indeterminate", cause)
    ),
    Effect.annotateLogs({ operation_id: id, outcome: settlement.outcome.state })
  )
})
