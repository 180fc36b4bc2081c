import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { readDelay } from "../../domain/Submission.ts"
import { logFailure } from "../logFailure.ts"
import type { WorkerServices } from "../SubmissionServices.ts"
import { withinStore } from "../withinStore.ts"
import type { TimedClaim } from "./claimOperations.ts"
import type { Settlement } from "./Settlement.ts"
import { whileClaimed } from "./whileClaimed.ts"

/**
 * Records the outcome of a submission by compare-and-set, and repeats that while the store is unavailable.
 */
export const recordSettlement = Effect.fnUntraced(function*(
  services: WorkerServices,
  timed: TimedClaim,
  settlement: Settlement
) {
  const { outcomeRecorder, outcomes, policy } = services
  const { claim: { operation: { id, send_before }, revision }, provider } = timed
  const due_in = Duration.millis(readDelay(policy.readSchedule, 0, yield* Random.next))
  const { evidence, outcome, reference } = settlement
  const record = outcomeRecorder.record({
    id,
    revision,
    outcome,
    recording: { evidence, reference, due_in, send_before }
  })
  yield* whileClaimed(services, timed, record).pipe(
    // An earlier try recorded it, the rescuer moved it, or a failover forgot the claim. The report gives the reference
    // to the next status read, and holds an operation that is `accepted` again, so that it is not sent twice.
    Effect.catchTag(
      "StaleOperation",
      () => settlement.isSent ? withinStore(outcomes.report(id, reference)) : Effect.void
    ),
    Effect.catchCause((cause) =>
      logFailure("Could not record the outcome of an operation; the rescuer will move it to indeterminate", cause)
    ),
    Effect.annotateLogs({ operation_id: id, provider, outcome: outcome.state })
  )
})
