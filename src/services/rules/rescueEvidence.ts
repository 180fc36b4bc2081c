import * as Duration from "effect/Duration"
import { longestSendWithin } from "../../domain/Submission.ts"

/** What the history says of transitions to `indeterminate` that no holder of a claim recorded. */
export const rescueEvidence = {
  by: "rescuer",
  reason: "the worker that claimed the operation did not record what became of it"
} as const

/** For `rescueClaimsOf`. */
export const restartEvidence = {
  by: "rescuer",
  reason: "the worker that claimed the operation started again, and had not recorded what became of it"
} as const

/** For a ledger that was moved or rolled back. */
export const rollbackEvidence = {
  by: "rescuer",
  reason: "the ledger was moved or restored, and a worker may have sent the operation after the copy was made"
} as const

/**
 * Milliseconds for which a take-over that a rollback lost may send. If the operation could be sent for longer after its first
 * claim, that time applies.
 */
export const lostTakeOver = Duration.toMillis(longestSendWithin)
