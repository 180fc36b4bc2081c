/**
 * Calls of a provider: each within a time limit and through the circuits of the provider. Submissions and status reads count apart, each
 * in a circuit of its own. While the status reads have no answer, nothing is submitted, too.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../../domain/Grant.ts"
import type { RequestKind } from "../../domain/ProviderLimit.ts"
import { layerCircuit, withinTime } from "../../http/exchangeLimits.ts"
import type { SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { describeDefect } from "../submissionLog.ts"
import type { FenceAnswer, NotSent, StatusAnswer, SubmissionAnswer, Uncertain } from "./ProviderAdapter.ts"

/**
 * Opens a circuit after five failures in a row, for one second at first and for 30 seconds at most. The process keeps
 * the circuits in memory. To share them between processes, provide a `CircuitBreaker` on a store of your own.
 */
export const layerCircuitBreaker: Layer.Layer<CircuitBreaker.CircuitBreaker> = layerCircuit({ failures: 5 })

/** The key of a circuit. No name of a provider has a space. */
const circuitOf = (provider: ProviderName, kind: RequestKind) => kind === "reads" ? `${provider} reads` : provider

/** Logs and counts each change of a circuit that this process makes, until its scope closes. */
export const watchCircuits = (
  breaker: CircuitBreaker.CircuitBreaker,
  metrics: SubmissionMetrics | null
): Effect.Effect<void> =>
  Stream.runForEach(breaker.transitions, (change) => {
    // The cast: the keys are those of `circuitOf`.
    const [provider, requests = "submissions"] = change.key.split(" ") as [ProviderName, RequestKind?]
    const log = Effect.annotateLogs(
      Effect.logWarning(
        change.to === "Open"
          ? `The circuit of a provider opened: nothing is sent to it${
            requests === "reads" ? ", and no status is read" : ""
          }`
          : change.to === "HalfOpen"
          ? "The circuit of a provider is half open: one call probes it"
          : "The circuit of a provider closed"
      ),
      {
        provider,
        requests,
        from: change.from,
        to: change.to,
        ...change.to === "Open" ? { retry_after_ms: Duration.toMillis(change.retryAfter) } : {}
      }
    )
    if (metrics === null) return log
    return Effect.flatMap(passable(breaker, provider, "submissions"), (calls) => {
      metrics.of(provider).isCircuitClosed = calls === Infinity
      return log
    })
  })

/**
 * Any answer is a success of the provider, also `Rejected` or one that proves nothing. A failure on this side counts neither way: a local
 * one, an operation that can never be sent, or an answer that the adapter does not declare, which `ProviderPauses` counts. A refusal with
 * `Retry-After` counts neither way, too: the provider works, and its pause already stops the requests.
 */
export const classifyAttempt = (exit: Exit.Exit<SubmissionAnswer, NotSent | Uncertain>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  const error = Option.getOrNull(Cause.findErrorOption(exit.cause))
  if (error?._tag === "Uncertain" && error.isAnswer === true) return CircuitBreaker.success
  const isIgnored = error?._tag === "NotSent"
    ? error.isLocal === true || error.isPermanent === true || error.retryAfter !== undefined
    : error?.isUndeclared === true
  return isIgnored ? CircuitBreaker.ignored : CircuitBreaker.failure()
}

/**
 * Any answer is a success of the provider, also one that proves nothing. A network failure is a failure. An answer with
 * `Retry-After` counts neither way.
 */
export const classifyRead = (exit: Exit.Exit<StatusAnswer | FenceAnswer>): CircuitBreaker.Outcome => {
  if (Exit.isFailure(exit)) return CircuitBreaker.failure()
  if (exit.value._tag !== "NotProven") return CircuitBreaker.success
  if (exit.value.retryAfter !== undefined) return CircuitBreaker.ignored
  return exit.value.reason === "unreachable" ? CircuitBreaker.failure() : CircuitBreaker.success
}

/**
 * Runs a request through the circuit of its kind. A submission passes that of the status reads, too, but counts there only as its probe:
 * otherwise reads that nothing answers would not be noticed between submissions. A probe that fails counts only while its own circuit
 * lets others through: once that one holds the submissions back, a read may probe.
 */
export const throughCircuits = <A, E>(
  breaker: CircuitBreaker.CircuitBreaker,
  { classify, kind, provider }: {
    readonly provider: ProviderName
    readonly kind: RequestKind
    readonly classify: (exit: Exit.Exit<A, E>) => CircuitBreaker.Outcome
  },
  call: Effect.Effect<A, E>
): Effect.Effect<A, E | CircuitBreaker.CircuitBreakerError> =>
  Effect.suspend(() => {
    const reads = circuitOf(provider, "reads")
    if (kind === "reads") return breaker.execute(call, { key: reads, classify })
    const own = circuitOf(provider, kind)
    let outcome = CircuitBreaker.ignored
    const submission = breaker.execute(call, {
      key: own,
      classify: (exit) => {
        outcome = classify(exit)
        return outcome
      }
    })
    return breaker.execute(submission, {
      key: reads,
      classify: () =>
        Effect.zipWith(
          callsOf(breaker, reads),
          callsOf(breaker, own),
          (ofReads, ofOwn) =>
            ofReads === Infinity || outcome._tag === "Failure" && ofOwn < Infinity ? CircuitBreaker.ignored : outcome
        )
    })
  })

/** How many requests of a kind the circuits of a provider let through now: `Infinity`, 1 for a probe, or 0. */
export const passable = (
  breaker: CircuitBreaker.CircuitBreaker,
  provider: ProviderName,
  kind: RequestKind
): Effect.Effect<number> =>
  kind === "reads"
    ? callsOf(breaker, circuitOf(provider, kind))
    : Effect.zipWith(callsOf(breaker, circuitOf(provider, kind)), passable(breaker, provider, "reads"), Math.min)

const callsOf = (breaker: CircuitBreaker.CircuitBreaker, circuit: string): Effect.Effect<number> =>
  breaker.state(circuit).pipe(
    Effect.map((state) => {
      switch (state._tag) {
        case "Closed":
          return Infinity
        case "Open":
          return Duration.isZero(state.retryAfter) ? 1 : 0
        case "HalfOpen":
          return state.probing ? 0 : 1
      }
    }),
    // A breaker that cannot read its store lets calls through.
    Effect.orElseSucceed(() => Infinity)
  )

/**
 * Calls an adapter with a time limit. A defect of the adapter and the end of the time become `unanswered`, with the reason. The
 * adapter runs in a fiber of its own, so a caller that is interrupted or times out does not wait until the adapter has stopped. An
 * adapter that cannot be interrupted would otherwise hold its capacity for ever.
 */
export const callAdapter = <A, E, B, E2>(
  call: Effect.Effect<A, E>,
  timeout: Duration.Duration,
  unanswered: (reason: string) => Effect.Effect<B, E2>
): Effect.Effect<A | B, E | E2> =>
  withinTime(Effect.catchDefect(call, (defect) => unanswered(describeDefect(defect))), {
    duration: timeout,
    orElse: () => unanswered("the provider did not answer in time"),
    isDetached: true
  })
