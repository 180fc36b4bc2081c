import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import { SubmissionMetrics } from "../metrics/SubmissionMetrics.ts"
import { Claims } from "../services/queue/Claims.ts"
import { Holds } from "../services/queue/Holds.ts"
import { Outcomes } from "../services/queue/Outcomes.ts"
import { Rescues } from "../services/queue/Rescues.ts"
import { StatusReads } from "../services/queue/StatusReads.ts"
import type { ClaimRecorder } from "./attempts/ClaimRecorder.ts"
import type { ClockCheck } from "./attempts/ClockCheck.ts"
import { makeOutcomeRecorder } from "./attempts/OutcomeRecorder.ts"
import { type ClockReading, elapsed, readClocks } from "./elapsed.ts"
import type { ProviderPauses } from "./providers/ProviderPauses.ts"
import { Providers } from "./providers/Providers.ts"
import { RequestPermits } from "./providers/RequestPermits.ts"
import { SubmissionPolicy, validatePolicy } from "./SubmissionPolicy.ts"

/** What became of the operations that a worker had claimed when it was asked to stop: their number. */
interface Drained {
  /** Their attempts ended. */
  finished: number
  /** Nothing was sent, and another worker may take the claim over. */
  returned: number
  /** Interrupted while they were sent, so they are `indeterminate`. */
  interrupted: number
}

/** Whether the worker is asked to stop, and since when. */
interface Drain {
  readonly begin: Effect.Effect<void>
  readonly begun: Effect.Effect<void>
  readonly hasBegun: () => boolean
  /** Counts an operation that this worker had claimed, if it ends after the worker was asked to stop. */
  readonly count: (end: keyof Drained) => void
  readonly counts: Readonly<Drained>
  /** Milliseconds since the worker was asked to stop; 0 before. */
  readonly elapsed: Effect.Effect<number>
}

export const makeDrain = (): Drain => {
  const latch = Latch.makeUnsafe(false)
  let since: ClockReading | null = null
  const counts: Drained = { finished: 0, returned: 0, interrupted: 0 }
  return {
    begin: Effect.flatMap(readClocks, (now) => {
      since = now
      return Effect.asVoid(latch.open)
    }),
    begun: Effect.asVoid(latch.await),
    hasBegun: () => latch.isOpen(),
    count: (end) => {
      if (latch.isOpen()) counts[end]++
    },
    counts,
    elapsed: Effect.suspend(() => since === null ? Effect.succeed(0) : elapsed(since))
  }
}

export type SubmissionServices = Effect.Success<typeof submissionServices>

export interface WorkerServices extends SubmissionServices {
  readonly clockCheck: ClockCheck["Service"]
  readonly drain: Drain
  readonly pauses: ProviderPauses["Service"]
  readonly recorder: ClaimRecorder
}

/** Collects the services. Dies with the reason when the policy is invalid for this number of providers. */
export const submissionServices = Effect.gen(function*() {
  const outcomes = yield* Outcomes
  const providers = yield* Providers
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const requestPermits = yield* RequestPermits
  const policy = yield* SubmissionPolicy
  const invalid = validatePolicy(policy, providers.size)
  if (invalid !== null) return yield* Effect.die(new Error(invalid))
  const metrics = yield* SubmissionMetrics
  // From the start, so that a provider without work has series of 0.
  for (const provider of providers.keys()) metrics?.of(provider)
  return {
    claims: yield* Claims,
    outcomes,
    outcomeRecorder: yield* makeOutcomeRecorder(outcomes),
    statusReads: yield* StatusReads,
    holds: yield* Holds,
    rescues: yield* Rescues,
    providers,
    breaker,
    requestPermits,
    policy,
    metrics
  }
})
