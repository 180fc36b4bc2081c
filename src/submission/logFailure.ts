import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { storeFailure } from "../services/StoreUnavailable.ts"

/** Describes a defect by its name alone: its message may contain anything, credentials too. */
export const describeDefect = (defect: unknown): string =>
  `a defect: ${defect instanceof Error ? defect.name : typeof defect}`

/** Logs a warning with the cause, in text that holds no credentials. */
export const logFailure = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.squash(cause)
  return Effect.annotateLogs(Effect.logWarning(message), { cause: storeFailure(error) ?? describeDefect(error) })
}
