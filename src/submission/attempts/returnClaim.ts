import * as Effect from "effect/Effect"
import { logFailure } from "../logFailure.ts"
import type { WorkerServices } from "../SubmissionServices.ts"
import { withinStore } from "../withinStore.ts"
import type { TimedClaim } from "./claimOperations.ts"
import { whileClaimed } from "./whileClaimed.ts"

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
