/**
 * Sends accepted operations to their providers, each at most once.
 *
 * The order of the steps guarantees that. A claim moves the operation to `submitting`, and no path leads back to
 * `accepted`, so the operation cannot be claimed again. A byte leaves only after the database has acknowledged the
 * claim. The worker records the outcome by compare-and-set. An outcome that cannot be known is `indeterminate`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../domain/Grant.ts"
import type { UnsafeDatabase } from "../domain/Submission.ts"
import { AcceptanceSignal } from "../services/AcceptanceSignal.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import type { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { type AttemptProgress, attemptUntilSent } from "./attemptUntilSent.ts"
import { claimOperations, type TimedClaim } from "./claimOperations.ts"
import { type Drain, makeDrain } from "./Drain.ts"
import { describeDefect } from "./logFailure.ts"
import type { Providers } from "./Providers.ts"
import { type ProviderTask, runOnce, runPollers } from "./ProviderTask.ts"
import { recordSettlement } from "./recordSettlement.ts"
import { settlementOf, uncertain } from "./Settlement.ts"
import { type SubmissionServices, submissionServices } from "./SubmissionServices.ts"
import { withinStore } from "./withinStore.ts"

export class SubmissionWorker extends Context.Service<SubmissionWorker, {
  /** Claims and sends up to `limit` operations of a provider. Yields their number when all of them are recorded. */
  readonly runOnce: (provider: ProviderName, limit: number) => Effect.Effect<number>
}>()("financial-agents-gateway/submission/SubmissionWorker") {
  /** Sends only when `runOnce` is called: for tests and for schedulers of your own. */
  static readonly layerManual = Layer.effect(
    SubmissionWorker,
    Effect.suspend(() => Effect.map(make, ({ task }) => SubmissionWorker.of({ runOnce: runOnce(task) })))
  )

  /**
   * Works until its scope closes. Then it claims nothing more, lets running submissions finish for `drainTimeout`, and
   * records the others as `indeterminate`. Refuses to start on a database that could forget which operations were sent.
   */
  static readonly layer: Layer.Layer<
    never,
    UnsafeDatabase | StoreUnavailable,
    SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker
  > = Layer.effectDiscard(Effect.suspend(() => work))
}

const make = Effect.map(submissionServices, (services) => {
  const drain = makeDrain()
  const task: ProviderTask<TimedClaim> = {
    take: claimOperations(services, drain),
    handle: (timed) => send(services, drain, timed)
  }
  return { services, drain, task }
})

/** Sends a claimed operation and records the outcome. An interruption ends the attempts; the record is still made. */
const send = (services: SubmissionServices, drain: Drain, timed: TimedClaim): Effect.Effect<void> => {
  const { id } = timed.claim.operation
  return Effect.uninterruptibleMask(Effect.fnUntraced(function*(restore) {
    const progress: AttemptProgress = { isSending: false }
    const exit = yield* Effect.exit(restore(attemptUntilSent(services, drain, timed, progress)))
    const settlement = yield* Effect.try({
      try: () => settlementOf(id, exit, progress.isSending),
      catch: describeDefect
    }).pipe(
      // An adapter without type checks may answer with a value that is no `SubmissionAnswer`.
      Effect.catch((reason) => Effect.succeed(uncertain(reason)))
    )
    if (settlement.outcome.state === "indeterminate") {
      yield* Effect.annotateLogs(
        Effect.logWarning("Outcome unknown: the operation is indeterminate until a status read proves a result"),
        { operation_id: id, provider: timed.provider, reason: settlement.evidence["reason"] }
      )
    }
    yield* recordSettlement(services, drain, timed, settlement)
  })).pipe(Effect.withSpan("SubmissionWorker.send", { attributes: { operation_id: id } }))
}

const work = Effect.gen(function*() {
  const { drain, services, task } = yield* make
  const { policy, queue } = services
  const signal = yield* AcceptanceSignal
  const { moved } = yield* withinStore(queue.prepare, "prepareTimeout")
  if (moved) {
    yield* Effect.logWarning(
      "The ledger is in another cluster or database than before: its accepted operations are held for review"
    )
  }
  const running = yield* FiberSet.make<void, never>()
  // Finalizers run in reverse: the pollers stop first, then this one waits, then the set interrupts the rest.
  yield* Effect.addFinalizer(() =>
    Effect.timeoutOption(Effect.interruptible(FiberSet.awaitEmpty(running)), policy.drainTimeout)
  )
  const pollers = yield* runPollers(services, task, running)
  // Runs before the pollers stop: otherwise a claim that hangs would delay them for `rescueAfter`.
  yield* Effect.addFinalizer(() => drain.begin)
  yield* signal.announced.pipe(
    Stream.runForEach((provider) => pollers.get(provider)?.wake ?? Effect.void),
    Effect.forkScoped
  )
})
