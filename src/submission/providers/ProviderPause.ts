/**
 * Stops the claims for a provider after a local failure, such as wrong credentials, which every operation would meet. The
 * worker then claims one operation at a time as a probe, until an attempt shows that the failure has passed.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { ProviderName } from "../../domain/Grant.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import type { NotSent, SubmissionAnswer, Uncertain } from "./ProviderAdapter.ts"

/** Milliseconds. */
const shortest = 1000
const longest = 10_000

export interface ProviderPause {
  since: ClockReading
  /** Milliseconds. */
  length: number
  /** Whether an operation is claimed as its probe, and has not ended. */
  isProbing: boolean
}

/** How many operations may be claimed, and the pause whose probe they are. */
interface Admission {
  readonly limit: number
  readonly probeOf: ProviderPause | null
}

/** The pauses of a worker, in its memory. */
export interface ProviderPauses {
  /** Admits a claim of up to `limit` operations: all of them, one as a probe, or none. */
  readonly admit: (provider: ProviderName, limit: number) => Effect.Effect<Admission>
  /** Ends a probe, so that another one may begin: it has ended, or nothing was claimed. */
  readonly release: (probeOf: ProviderPause | null) => Effect.Effect<void>
  /** Takes note of a local failure of an operation that was claimed as this probe, or as none. */
  readonly fail: (provider: ProviderName, probeOf: ProviderPause | null, reason: string) => Effect.Effect<void>
  /** Takes note of an attempt of an operation that was claimed as this probe, or as none. */
  readonly observe: (
    provider: ProviderName,
    probeOf: ProviderPause | null,
    attempt: Exit.Exit<SubmissionAnswer, NotSent | Uncertain>
  ) => Effect.Effect<void>
}

const logPause = (provider: ProviderName, reason: string) =>
  Effect.annotateLogs(
    Effect.logWarning(
      "Paused a provider after a local failure: its operations wait. Repair the reason, such as credentials, the "
        + "adapter or the clock; the worker tries one operation at a time, and resumes by itself"
    ),
    { provider, reason }
  )

const logResumption = (provider: ProviderName) =>
  Effect.annotateLogs(
    Effect.logInfo("Resumed a provider: an attempt passed the local failure, or failed for another reason"),
    { provider }
  )

/** The `NotSent` of an attempt; null after any other end. */
const notSentOf = (attempt: Exit.Exit<SubmissionAnswer, NotSent | Uncertain>): NotSent | null => {
  if (Exit.isSuccess(attempt)) return null
  const error = Option.getOrNull(Cause.findErrorOption(attempt.cause))
  return error?._tag === "NotSent" ? error : null
}

export const makeProviderPauses = (): ProviderPauses => {
  const pauses = new Map<ProviderName, ProviderPause>()

  const fail = Effect.fnUntraced(function*(provider: ProviderName, probeOf: ProviderPause | null, reason: string) {
    const pause = pauses.get(provider)
    const since = yield* readClocks
    if (pause === undefined) {
      pauses.set(provider, { since, length: shortest, isProbing: false })
      return yield* logPause(provider, reason)
    }
    // An operation that was claimed before the pause tells nothing new of the failure.
    if (pause !== probeOf) return
    pause.since = since
    pause.length = Math.min(2 * pause.length, longest)
  })

  const pass = (provider: ProviderName) =>
    Effect.suspend(() => pauses.delete(provider) ? logResumption(provider) : Effect.void)

  return {
    admit: Effect.fnUntraced(function*(provider, limit) {
      const pause = pauses.get(provider)
      if (pause === undefined || limit <= 0) return { limit, probeOf: null }
      if (pause.isProbing || (yield* elapsed(pause.since)) < pause.length) return { limit: 0, probeOf: null }
      pause.isProbing = true
      return { limit: 1, probeOf: pause }
    }),
    fail,
    release: (probeOf) =>
      Effect.sync(() => {
        if (probeOf !== null) probeOf.isProbing = false
      }),
    observe: (provider, probeOf, attempt) => {
      if (Exit.isFailure(attempt) && Cause.hasInterruptsOnly(attempt.cause)) return Effect.void
      const notSent = notSentOf(attempt)
      // An operation that can never be sent tells nothing of the others.
      if (notSent?.isPermanent === true) return Effect.void
      return notSent?.isLocal === true ? fail(provider, probeOf, notSent.reason) : pass(provider)
    }
  }
}
