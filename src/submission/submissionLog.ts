/** What worker and reconciler log. No line holds a credential or a payload; those about an operation name provider, operation and reason. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../domain/Grant.ts"
import type { OperationId, Outcome } from "../domain/Operation.ts"
import { storeFailure } from "../services/StoreUnavailable.ts"
import type { NotSent } from "./providers/ProviderAdapter.ts"

/** Describes a defect by its name alone: its message may contain anything, credentials too. */
export const describeDefect = (defect: unknown): string =>
  `a defect: ${defect instanceof Error ? defect.name : typeof defect}`

/** Describes a cause in text that holds no credentials. */
export const describeCause = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return storeFailure(error) ?? describeDefect(error)
}

/** Logs a warning with the cause, in text that holds no credentials. */
export const logFailure = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.annotateLogs(Effect.logWarning(message), { cause: describeCause(cause) })

/** Most names that are remembered. One more, and all are forgotten. */
const mostKnown = 1000

/** Makes a function that logs once for each name that it remembers. */
export const makeLogOnce = () => {
  const known = new Set<string>()
  return (name: string, log: Effect.Effect<void>): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (known.has(name)) return Effect.void
      if (known.size >= mostKnown) known.clear()
      known.add(name)
      return log
    })
}

interface About {
  readonly operation_id: OperationId
  readonly provider: ProviderName
}

/**
 * Logs an attempt of which it is proven that the provider did nothing. A local failure is logged as the return of a claim, and
 * `ProviderPauses` logs a provider that cannot be reached.
 */
export const logNotSent = ({ isLocal, isPermanent, isRefused, reason }: NotSent, about: About): Effect.Effect<void> => {
  if (isPermanent !== true && (isLocal === true || isRefused !== true)) return Effect.void
  const message = isPermanent === true
    ? "The operation can never be sent"
    : "The provider refused a request, and did nothing for it"
  return Effect.annotateLogs(Effect.logWarning(message), { ...about, reason })
}

/** Logs the return of a claim: after an attempt that failed locally, or without an attempt. */
export const logReturn = (reason: string, about: About): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning("Could not send an operation because of a local failure: its claim is returned"),
    { ...about, reason }
  )

/** Logs an outcome that operators should know: an unknown one, and a failure. */
export const logOutcome = (outcome: Outcome, reason: unknown, about: About): Effect.Effect<void> => {
  switch (outcome.state) {
    case "indeterminate":
      return Effect.annotateLogs(
        Effect.logWarning("Outcome unknown: the operation is indeterminate until a status read proves a result"),
        { ...about, reason }
      )
    case "failed":
      return Effect.annotateLogs(Effect.logWarning("Operation failed"), {
        ...about,
        // Without the message: it is the provider's own text, and may repeat the payload.
        code: outcome.failure.code,
        ...reason === undefined ? {} : { reason }
      })
    default:
      return Effect.void
  }
}
