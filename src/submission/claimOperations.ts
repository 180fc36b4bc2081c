import * as Effect from "effect/Effect"
import type { ProviderName } from "../domain/Grant.ts"
import type { Claim } from "../domain/Submission.ts"
import { StoreUnavailable } from "../services/StoreUnavailable.ts"
import type { Drain } from "./Drain.ts"
import { type ClockReading, readClocks } from "./elapsed.ts"
import { logFailure } from "./logFailure.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"

/** A claim of this worker, and when the worker asked the database for it. */
export interface TimedClaim {
  readonly provider: ProviderName
  readonly claim: Claim
  readonly askedAt: ClockReading
}

/**
 * Claims up to `limit` operations of a provider. The worker never sends an operation whose claim the database did not
 * acknowledge, so a failure yields no claims.
 */
export const claimOperations = ({ policy, queue }: SubmissionServices, drain: Drain) => {
  const terms = {
    send_within: policy.sendWithin,
    rescue_after: policy.rescueAfter,
    idle: policy.idle,
    review_after: policy.reviewAfter.accepted,
    worker: null
  }
  // The worker waits for a claim until the claim would be stale: the rows of an abandoned claim cannot be claimed
  // again. A worker that is asked to stop waits for `storeTimeout` only.
  const tooLong = Effect.raceFirst(
    Effect.sleep(policy.rescueAfter),
    Effect.andThen(drain.begun, Effect.sleep(policy.storeTimeout))
  ).pipe(Effect.andThen(Effect.fail(new StoreUnavailable({ cause: new Error("no answer in time") }))))

  return Effect.fn("SubmissionWorker.claim")(function*(provider: ProviderName, limit: number) {
    const askedAt = yield* readClocks
    const claims = yield* Effect.raceFirst(Effect.interruptible(queue.claim(provider, limit, terms)), tooLong).pipe(
      // After any failure, the next poll tries again.
      Effect.catchCause((cause) =>
        Effect.as(
          logFailure("Could not claim operations; none of them is sent, and the next poll claims again", cause),
          []
        )
      )
    )
    return claims.map((claim): TimedClaim => ({ provider, claim, askedAt }))
  })
}
