/**
 * Sends accepted operations to their providers, each at most once. The room `submission/attempts` leads from the claim to the record of the outcome.
 * Read this file first.
 *
 * The order of the steps guarantees that:
 *
 * 1. A claim moves the operation to `submitting`. No path leads back to `accepted`.
 * 2. The database acknowledges the claim, and the `ClaimRecorder` records it. Without both, the worker does not send.
 * 3. The worker sends.
 * 4. If the provider provably took nothing, the worker may return the claim. Its right to send ends there, before another worker takes
 *    the claim over. Otherwise it records the outcome by compare-and-set. An outcome that cannot be known is `indeterminate`.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../../domain/Grant.ts"
import type { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { readDelay, type UnsafeDatabase } from "../../domain/Submission.ts"
import type { SendOutcome, SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import type { Rescues } from "../../services/queue/Rescues.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { SubmissionQueue } from "../../services/SubmissionQueue.ts"
import { AcceptanceSignal } from "../../services/WorkSignals.ts"
import { elapsed } from "../elapsed.ts"
import { keepLateProof, logLostProof } from "../lateProof.ts"
import { type ProviderTask, runOnce, runPollers } from "../Poller.ts"
import { makeFailureCheck } from "../providers/AnswerRecord.ts"
import { callAdapter, watchCircuits } from "../providers/Circuit.ts"
import { ProviderPauses } from "../providers/ProviderPauses.ts"
import { firstReadAfter, reversibleRecording } from "../providers/ProviderPromises.ts"
import type { Providers } from "../providers/Providers.ts"
import { RequestPermits } from "../providers/RequestPermits.ts"
import { whileUnavailable, withinStore } from "../storeStatements.ts"
import { describeCause, describeDefect, logFailure, logOutcome, logReturn, makeLogOnce } from "../submissionLog.ts"
import { makeDrain, submissionServices, type WorkerServices } from "../SubmissionServices.ts"
import { type AttemptProgress, attemptUntilSent } from "./attemptUntilSent.ts"
import { claimOperations, type TimedClaim } from "./claimOperations.ts"
import { ClaimRecorders } from "./ClaimRecorder.ts"
import { ClockCheck } from "./ClockCheck.ts"
import { type ClaimReturn, type Settlement, settlementOf, uncertain } from "./Settlement.ts"

export class SubmissionWorker extends Context.Service<SubmissionWorker, {
  /** Claims and sends up to `limit` operations of a provider. Yields their number when all of them are recorded. */
  readonly runOnce: (provider: ProviderName, limit: number) => Effect.Effect<number>
}>()("financial-agents-gateway/submission/attempts/SubmissionWorker") {
  /** Sends only when `runOnce` is called: for tests and for schedulers of your own. */
  static readonly layerManual = Layer.effect(
    SubmissionWorker,
    Effect.suspend(() => Effect.map(make, ({ task }) => SubmissionWorker.of({ runOnce: runOnce(task) })))
  ).pipe(Layer.provide([RequestPermits.layer, ClockCheck.layer, ProviderPauses.layer]))

  /**
   * Works until its scope closes. Then it claims nothing more, and returns the claims that wait between two attempts. Attempts
   * under way have `drainTimeout` to finish. The worker records unfinished ones as `indeterminate`. Refuses to start on a database
   * that could forget which operations were sent.
   */
  static readonly layer: Layer.Layer<
    never,
    UnsafeDatabase | StoreUnavailable | InvalidSetting,
    SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker
  > = Layer.effectDiscard(Effect.suspend(() => work)).pipe(
    Layer.provide([RequestPermits.layer, ClockCheck.layer, ProviderPauses.layer])
  )
}

const make = Effect.gen(function*() {
  const shared = yield* submissionServices
  const services: WorkerServices = {
    ...shared,
    clockCheck: yield* ClockCheck,
    drain: makeDrain(),
    pauses: yield* ProviderPauses,
    recorder: yield* (yield* ClaimRecorders)(shared.claims)
  }
  const giveBack = makeGiveBack(services)
  const checkFailure = makeFailureCheck("submission")
  const task: ProviderTask<TimedClaim> = {
    kind: "submissions",
    take: claimOperations(services),
    handle: (timed, release) =>
      Effect.ensuring(send(services, checkFailure, giveBack, timed, release), services.pauses.release(timed.probeOf))
  }
  return { services, task }
})

/**
 * Sends a claimed operation, and records the outcome or returns the claim. An interruption ends the attempts, and does not stop
 * the record. The next submission need not wait for the record: `release` tells that the attempts have ended.
 */
const send = (
  services: WorkerServices,
  checkFailure: ReturnType<typeof makeFailureCheck>,
  giveBack: ReturnType<typeof makeGiveBack>,
  timed: TimedClaim,
  release: Effect.Effect<void>
): Effect.Effect<void> => {
  const { claim: { operation }, provider, refusal } = timed
  if (refusal !== null) {
    return giveBack(timed, { reason: refusal, isOfOperation: false })
  }
  const adapter = services.providers.get(provider)
  return Effect.uninterruptibleMask(Effect.fnUntraced(function*(restore) {
    const progress: AttemptProgress = { isSending: false }
    const startedAt = performance.now()
    const exit = yield* Effect.exit(restore(attemptUntilSent(services, timed, progress)))
    const end = yield* Effect.try({
      try: () => settlementOf(operation, exit, progress.isSending, adapter),
      catch: describeDefect
    }).pipe(
      // An adapter without type checks may answer with a value that is no `SubmissionAnswer`.
      Effect.catch((reason) => Effect.succeed(uncertain(reason)))
    )
    countSend(services, provider, end, startedAt)
    if (end._tag === "ClaimReturn") {
      return yield* giveBack(timed, end)
    }
    yield* release
    if (end.outcome.state === "failed" && Exit.isSuccess(exit) && exit.value._tag === "Rejected") {
      yield* checkFailure(provider, adapter?.failures, exit.value.code)
    }
    yield* recordSettlement(services, timed, end)
    services.drain.count(Exit.hasInterrupts(exit) ? "interrupted" : "finished")
  })).pipe(
    Effect.withSpan("SubmissionWorker.send", { attributes: { operation_id: operation.id } }, {
      captureStackTrace: false
    })
  )
}

/**
 * Makes a function that returns a claim. A pause has one line when it begins and one when it ends, with their number, and none for each claim.
 * A cause that may be in operations of one owner has one line for each reason and owner: each of them is tried again and again.
 */
const makeGiveBack = (services: WorkerServices) => {
  const logOnce = makeLogOnce()
  return (timed: TimedClaim, { isOfOperation, reason }: Omit<ClaimReturn, "_tag">): Effect.Effect<void> =>
    Effect.suspend(() => {
      const { claim: { operation: { id, resource_owner } }, provider } = timed
      services.drain.count("returned")
      const returned = returnClaim(services, timed, reason)
      if (services.pauses.countReturn(provider)) return returned
      const log = logReturn(reason, { operation_id: id, provider })
      const logged = isOfOperation ? logOnce([provider, resource_owner, reason].join(" "), log) : log
      return Effect.andThen(logged, returned)
    })
}

/** Counts the end of a submission. `startedAt` is in milliseconds of `performance.now()`. */
const countSend = (
  { metrics }: WorkerServices,
  provider: ProviderName,
  end: Settlement | ClaimReturn,
  startedAt: number
): void => {
  if (metrics === null) return
  const counts = metrics.of(provider)
  // The cast: an answer of a provider leads to no other state.
  const outcome = end._tag === "Settlement" && end.isSent ? end.outcome.state as SendOutcome : "not_sent"
  counts.sends[outcome].value++
  counts.duration.record((performance.now() - startedAt) / 1000)
}

/** Between two probes of a provider whose settings are likely wrong. Most are repaired by a restart, which probes at once. */
const probeInterval = Duration.seconds(10)

const work = Effect.gen(function*() {
  const { services, task } = yield* make
  const { breaker, drain, holds, metrics, policy, recorder, rescues } = services
  const signal = yield* AcceptanceSignal
  const { moved } = yield* withinStore(holds.prepare, "prepareTimeout")
  if (moved) {
    yield* Effect.logWarning(
      "The ledger is in another cluster or database than before: its accepted operations are held for review"
    )
  }
  if (policy.workerId !== null) yield* rescueOwnClaims(rescues, policy.workerId, metrics)
  yield* recorder.begin
  yield* Effect.forkScoped(watchCircuits(breaker, metrics))
  yield* Effect.forkScoped(probeProviders(services))
  // Finalizers run in reverse: this line is the last.
  yield* Effect.addFinalizer(() => Effect.annotateLogs(Effect.logInfo("Stopped"), drain.counts))
  const running = yield* FiberSet.make<void, never>()
  // The pollers stop first, then this one waits, then the set interrupts the rest.
  yield* Effect.addFinalizer(() =>
    Effect.timeoutOption(Effect.interruptible(FiberSet.awaitEmpty(running)), policy.drainTimeout)
  )
  const pollers = yield* runPollers(services, task, running)
  // Runs before the pollers stop: otherwise a claim that hangs would delay them for `rescueAfter`.
  yield* Effect.addFinalizer(() => drain.begin)
  const logUnserved = makeUnservedLog([...pollers.keys()])
  yield* signal.announced.pipe(
    Stream.runForEach((provider) => pollers.get(provider)?.wake ?? logUnserved(provider)),
    Effect.forkScoped
  )
})

/** Finds a wrong path, or a wrong key, before an operation does. Nothing waits for the first probe. It is repeated until it passes. */
const probeProviders = ({ pauses, policy, providers, requestPermits }: WorkerServices) =>
  Effect.forEach(
    providers,
    Effect.fnUntraced(function*([name, { probe }]) {
      if (probe === undefined) return
      const unanswered = Effect.succeed(undefined)
      const ask = callAdapter(Effect.catch(probe, () => unanswered), policy.attemptTimeout, () => unanswered)
      const reason = yield* ask
      if (reason === null || reason === undefined) return
      yield* pauses.suspect(name, reason)
      while (pauses.isSuspected(name)) {
        yield* Effect.sleep(probeInterval)
        const { _tag } = yield* requestPermits.takePermit(name, "reads")
        if (_tag === "Begin" && (yield* ask) === null) yield* pauses.trust(name)
      }
    }),
    { concurrency: "unbounded", discard: true }
  )

/** The process that had this id before has ended, so its claims need not wait until they are stale. */
const rescueOwnClaims = Effect.fnUntraced(function*(
  rescues: Rescues["Service"],
  worker: string,
  metrics: SubmissionMetrics | null
) {
  const operations = yield* withinStore(rescues.rescueClaimsOf(worker), "prepareTimeout")
  if (operations === 0) return
  if (metrics !== null) metrics.rescues.value += operations
  yield* Effect.annotateLogs(
    Effect.logWarning(
      "Rescued the claims of this worker's last run: the outcome of these operations is not known. If another process with "
        + "this worker id runs, give each an id of its own"
    ),
    { worker, operations }
  )
})

/**
 * Makes a function that logs, once for each name, that operations of a provider without an adapter in this process were
 * accepted. Another process may have the adapter.
 */
const makeUnservedLog = (adapters: ReadonlyArray<ProviderName>) => {
  const logOnce = makeLogOnce()
  const warning =
    "Accepted operations of a provider without an adapter here: they wait for a worker that has one. Check the name"
  return (provider: ProviderName): Effect.Effect<void> =>
    logOnce(provider, Effect.annotateLogs(Effect.logWarning(warning), { provider, adapters }))
}

/** A worker that is asked to stop has this long to record what it knows. */
const isNotStopping = ({ drain, policy }: WorkerServices): Effect.Effect<boolean> =>
  Effect.map(
    drain.elapsed,
    (passed) => passed < Duration.toMillis(policy.drainTimeout) + Duration.toMillis(policy.storeTimeout)
  )

/**
 * Records the outcome of a submission by compare-and-set, and repeats that while the store is unavailable. Logs it once it is recorded:
 * an operation that another component moved has another outcome.
 */
const recordSettlement = Effect.fnUntraced(function*(
  services: WorkerServices,
  timed: TimedClaim,
  settlement: Settlement
) {
  const { outcomeRecorder, policy } = services
  const { claim: { claimed_at, operation: { id, send_before, type }, revision }, provider } = timed
  const { evidence, isSent, outcome, reference } = settlement
  const about = { operation_id: id, provider }
  const promises = services.providers.get(provider)?.promises ?? {}
  const lag = firstReadAfter(promises, reference)
  const due_in = Duration.max(lag, Duration.millis(readDelay(policy.readSchedule, 0, yield* Random.next)))
  const record = outcomeRecorder.record({
    id,
    revision,
    outcome,
    recording: { evidence, reference, due_in, send_before, ...reversibleRecording(promises, type, policy) }
  })
  const mayRepeat = isNotStopping(services)
  const proof = { state: outcome.state, reference, evidence }
  yield* whileUnavailable(record, mayRepeat).pipe(
    Effect.tap(() => logOutcome(outcome, evidence["reason"], about)),
    // An earlier try recorded it, the rescuer or a person moved it, or a failover forgot the claim.
    Effect.catchTag(
      "StaleOperation",
      () => isSent ? keepLateProof(services, about, proof, { claimed_at, mayRepeat }) : Effect.void
    ),
    Effect.catchCause((cause) =>
      isSent ? logLostProof(about, proof, describeCause(cause)) : Effect.annotateLogs(
        logFailure("Could not record the outcome of an operation; the rescuer will move it to indeterminate", cause),
        { ...about, outcome: outcome.state }
      )
    )
  )
})

/**
 * Returns the claim of an operation that the provider provably has not taken, so that any worker may take it over later.
 * Repeats that while the store is unavailable, until the claim is stale: then the rescuer moves it to `indeterminate`.
 */
export const returnClaim = (services: WorkerServices, timed: TimedClaim, reason: string): Effect.Effect<void> => {
  const { claims, metrics, policy } = services
  const { askedAt, claim, provider } = timed
  // A stale claim is left to the rescuer.
  const mayRepeat = Effect.gen(function*() {
    return (yield* elapsed(askedAt)) < Duration.toMillis(policy.rescueAfter) && (yield* isNotStopping(services))
  })
  const terms = { reason, delay: policy.returnDelay, review_after: policy.reviewAfter.accepted }
  return whileUnavailable(withinStore(claims.returnClaim(claim, terms)), mayRepeat).pipe(
    Effect.tap(() =>
      Effect.sync(() => {
        if (metrics !== null) metrics.of(provider).returned.value++
      })
    ),
    // An earlier try returned it, or the rescuer moved it.
    Effect.catchTag("StaleOperation", () => Effect.void),
    Effect.catchCause((cause) =>
      logFailure("Could not return the claim of an operation; the rescuer will move it to indeterminate", cause)
    ),
    Effect.annotateLogs({ operation_id: claim.operation.id, provider, reason })
  )
}
