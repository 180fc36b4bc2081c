/**
 * The log of status reads that give no usable answer: a wrong key, a wrong address, or a provider that is down.
 */
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import type { FenceAnswer, StatusAnswer } from "../providers/ProviderAdapter.ts"

/** UTF-16 code units of a detail. */
const longestDetail = 1024

/**
 * Milliseconds until the same detail is logged again. Where only some reads of a provider fail, the lines would otherwise
 * alternate with each read.
 */
const quiet = 10 * 60 * 1000

interface LoggedFailure {
  readonly detail: string
  readonly since: ClockReading
  /** Since then, no read has proven anything. */
  isCurrent: boolean
}

/**
 * Makes a function that logs when the reads of a provider begin to give no usable answer, when the detail changes, and when
 * a read proves something again. `NotFound` is no sign of either, because a wrong address gives it, too.
 */
export const makeUnusableReadLog = () => {
  const failures = new Map<ProviderName, LoggedFailure>()

  const fail = Effect.fnUntraced(function*(provider: ProviderName, given: unknown) {
    // An adapter without type checks may give another value.
    const detail = typeof given === "string" ? given.slice(0, longestDetail) : `(${typeof given})`
    const known = failures.get(provider)
    if (known?.detail === detail && (known.isCurrent || (yield* elapsed(known.since)) < quiet)) return
    failures.set(provider, { detail, since: yield* readClocks, isCurrent: true })
    yield* Effect.annotateLogs(
      Effect.logWarning(
        "Status reads of a provider give no usable answer: if it lasts, check its credentials, its address and the adapter"
      ),
      { detail }
    )
  })

  const pass = (provider: ProviderName) =>
    Effect.suspend(() => {
      const known = failures.get(provider)
      if (known?.isCurrent !== true) return Effect.void
      known.isCurrent = false
      return Effect.logInfo("Status reads of a provider give usable answers again")
    })

  /** The caller annotates the log with the provider and the operation. */
  return (provider: ProviderName, answer: StatusAnswer | FenceAnswer): Effect.Effect<void> => {
    switch (answer._tag) {
      case "Proven":
      case "Known":
      case "Occupied":
        return pass(provider)
      case "NotFound":
        return Effect.void
      case "NotProven":
        return answer.reason === "ordered" ? pass(provider) : fail(provider, answer.detail)
    }
  }
}
