import * as Effect from "effect/Effect"
import { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { SubmissionPolicy } from "./SubmissionPolicy.ts"

/**
 * Gives up waiting for the store after `storeTimeout`, also where the caller itself must not be interrupted. What the
 * statement did is not known then.
 */
export const withinStore = <A, E, R>(
  statement: Effect.Effect<A, E, R>,
  limit: "storeTimeout" | "prepareTimeout" = "storeTimeout"
): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.flatMap(SubmissionPolicy, (policy) =>
    Effect.timeoutOrElse(Effect.interruptible(statement), {
      duration: policy[limit],
      orElse: () => Effect.fail(new StoreUnavailable({ cause: new Error("no answer in time") }))
    }))
