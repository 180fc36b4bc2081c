import * as Effect from "effect/Effect"
import { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { SubmissionPolicy } from "./SubmissionPolicy.ts"

/**
 * Runs a statement with a time limit, also where the caller itself must not be interrupted. After `StoreUnavailable`,
 * the effect of the statement is not known.
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
