/** The work of a worker, by provider. Providers come from the configuration of the process. */
import type * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import type { ProviderName } from "../domain/Grant.ts"
import {
  type Count,
  countEach,
  countsReference,
  type Distribution,
  layerOf,
  memoize,
  secondsBounds,
  type Series
} from "./Series.ts"

const families = {
  claims: { name: "gateway_claims_total", help: "Operations that this worker claimed, by provider." },
  returned: {
    name: "gateway_claims_returned_total",
    help: "Claims that this worker returned because provably nothing was sent, by provider."
  },
  sends: {
    name: "gateway_sends_total",
    help: "Submissions that ended, by provider and outcome. Not sent: the provider provably took nothing."
  },
  duration: {
    name: "gateway_send_duration_seconds",
    help:
      "Time from the start of a submission to its outcome, with all attempts and the pauses between them, by provider."
  },
  rescues: { name: "gateway_rescues_total", help: "Stale claims that this process moved to indeterminate." },
  reads: {
    name: "gateway_status_reads_total",
    help: "Status reads that a provider was asked for, by provider and outcome."
  },
  reversals: {
    name: "gateway_reversals_total",
    help:
      "Successes whose provider proved since that they failed, such as by a return of the receiving bank, by provider."
  },
  unexpectedPayments: {
    name: "gateway_unexpected_payments_total",
    help:
      "Proofs that a provider has an operation that had failed, was cancelled, or has another reference, by provider."
  },
  waits: {
    name: "gateway_provider_limit_waits_total",
    help: "Requests that waited for a permit of the provider's limit, by provider."
  },
  pauses: {
    name: "gateway_provider_pause_seconds_total",
    help: "Time for which this process paused the provider, because it asked for that by Retry-After, by provider."
  },
  hints: {
    name: "gateway_hints_total",
    help:
      "Hints that something happened at a provider, by provider and result. Taken: a status read was moved forward. Ignored: there was none to move."
  },
  clockSkew: {
    name: "gateway_clock_skew_seconds",
    help:
      "By how much the clock of this process is ahead of the clock of the database; below 0: behind. 0: no difference is proven."
  },
  paused: {
    name: "gateway_provider_paused",
    help:
      "1 while this process sends nothing to the provider but a probe at times, else 0; by provider and cause. Circuit: the provider does not answer submissions, or status reads."
  }
}

const sendOutcomes = ["succeeded", "submitted", "failed", "indeterminate", "not_sent"] as const
export type SendOutcome = typeof sendOutcomes[number]

const readOutcomes = ["proven", "not_proven", "unreachable"] as const
type ReadOutcome = typeof readOutcomes[number]

const hintResults = ["taken", "ignored"] as const
type HintCounts = Readonly<Record<typeof hintResults[number], Count>>

const pauseCauses = ["local_failure", "undeclared_answers", "circuit"] as const
/** Why a worker claims nothing for a provider. `circuit`: the provider does not answer. */
export type PauseCause = typeof pauseCauses[number]

class ProviderCounts {
  pause: Exclude<PauseCause, "circuit"> | null = null
  isCircuitClosed = true
  readonly claims: Count
  readonly returned: Count
  readonly sends: Readonly<Record<SendOutcome, Count>>
  /** In seconds. */
  readonly duration: Distribution
  readonly reads: Readonly<Record<ReadOutcome, Count>>
  readonly reversals: Count
  /** The opposite of a reversal: money may have left of which the final state knows nothing. */
  readonly unexpectedPayments: Count
  readonly waits: Count
  /** In seconds. */
  readonly pauses: Count

  constructor({ counter, gauge, histogram }: Series, provider: ProviderName) {
    this.claims = counter(families.claims, { provider })
    this.returned = counter(families.returned, { provider })
    this.sends = countEach(sendOutcomes, (outcome) => counter(families.sends, { provider, outcome }))
    this.duration = histogram(families.duration, secondsBounds, { provider })
    this.reads = countEach(readOutcomes, (outcome) => counter(families.reads, { provider, outcome }))
    this.reversals = counter(families.reversals, { provider })
    this.unexpectedPayments = counter(families.unexpectedPayments, { provider })
    this.waits = counter(families.waits, { provider })
    this.pauses = counter(families.pauses, { provider })
    for (const cause of pauseCauses) {
      const isPaused = () => cause === "circuit" ? !this.isCircuitClosed : this.pause === cause
      gauge(families.paused, () => isPaused() ? 1 : 0, { provider, cause })
    }
  }
}

class SubmissionCounts {
  readonly rescues: Count
  /** In seconds. Positive: ahead of the clock of the database. */
  clockSkew = 0
  readonly of: (provider: ProviderName) => ProviderCounts
  /** The hints about a provider. A process without workers has them alone. */
  readonly hintsOf: (provider: ProviderName) => HintCounts

  constructor(series: Series) {
    this.of = memoize((provider) => new ProviderCounts(series, provider))
    this.hintsOf = memoize((provider) =>
      countEach(hintResults, (result) => series.counter(families.hints, { provider, result }))
    )
    this.rescues = series.counter(families.rescues)
    series.gauge(families.clockSkew, () => this.clockSkew)
  }
}

/** Null: the work is not counted. */
export const SubmissionMetrics: Context.Reference<SubmissionCounts | null> = countsReference("SubmissionMetrics")

export type SubmissionMetrics = SubmissionCounts

/** Counts the work, and registers the series. */
export const layer: Layer.Layer<never> = layerOf(SubmissionMetrics, (series) => new SubmissionCounts(series))
