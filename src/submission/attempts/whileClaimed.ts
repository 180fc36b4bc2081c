import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { elapsed } from "../elapsed.ts"
import type { WorkerServices } from "../SubmissionServices.ts"
import type { TimedClaim } from "./claimOperations.ts"

/** Pauses while the store is unavailable: from 100 ms, doubling, up to two seconds. */
const retrySchedule = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

/**
 * Repeats a statement about a claim while the store is unavailable, until the claim is stale: then the rescuer records
 * `indeterminate`. A worker that is asked to stop gives up earlier.
 */
export const whileClaimed = <A, E extends { readonly _tag: string }>(
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
