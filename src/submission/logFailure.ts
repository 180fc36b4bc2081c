import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { storeFailure } from "../services/StoreUnavailable.ts"

/** A defect by its name alone: its message may hold anything, credentials among them. */
export const describeDefect = (defect: unknown): string =>
  `a defect: ${defect instanceof Error ? defect.name : typeof defect}`

/** Says that something went wrong and why, in words that may be logged. */
export const logFailure = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.squash(cause)
  return Effect.annotateLogs(Effect.logWarning(message), { cause: storeFailure(error) ?? describeDefect(error) })
}
