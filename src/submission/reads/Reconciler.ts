/**
 * Reads the status of unsettled operations until a result is proven. A read never submits anything, age never changes a
 * state, and an answer without evidence leaves the state as it is. A fence (`fences`) sends an order that cannot pay. Hints of providers
 * move reads forward. A success that its provider may reverse is read on. The room `submission/reads` has what a status read does and decides. Read
 * this file first.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../../domain/Grant.ts"
import { isOperationId } from "../../domain/Operation.ts"
import {
  type DueRead,
  type HintedOperation,
  isFenced,
  isProviderReference,
  readDelay
} from "../../domain/Submission.ts"
import { SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { type Postponement, type ReversiblePostponement, StatusReads } from "../../services/queue/StatusReads.ts"
import type { Proof } from "../../services/rules/contradictions.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { SubmissionQueue } from "../../services/SubmissionQueue.ts"
import { HintSignal } from "../../services/WorkSignals.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import { keepLateProof } from "../lateProof.ts"
import { type Poller, type ProviderTask, runOnce, runPollers } from "../Poller.ts"
import { makeFailureCheck } from "../providers/AnswerRecord.ts"
import type { FenceAnswer, StatusAnswer } from "../providers/ProviderAdapter.ts"
import { ProviderPauses } from "../providers/ProviderPauses.ts"
import { questionOf, reversibleRecording } from "../providers/ProviderPromises.ts"
import type { Providers } from "../providers/Providers.ts"
import { RequestPermits } from "../providers/RequestPermits.ts"
import { withinStore } from "../storeStatements.ts"
import { logFailure, logOutcome } from "../submissionLog.ts"
import { SubmissionPolicy } from "../SubmissionPolicy.ts"
import { type SubmissionServices, submissionServices } from "../SubmissionServices.ts"
import { type Asked, askForStatus, isUnreachable } from "./askForStatus.ts"
import { decideAfterRead, type ReadDecision } from "./decideAfterRead.ts"
import { beginFence, fenceLease, type ReadServices, type TimedRead } from "./fences.ts"

/**
 * The operation of a hint: by the provider's reference, or by the operation's id if the provider echoes it. Both are text of the
 * provider, unchecked.
 */
export type HintSubject = { readonly reference: string } | { readonly operation_id: string }

/** The operation that a hint names; null if no operation can have such a name. */
const named = (about: HintSubject): HintedOperation | null => {
  if ("reference" in about) return isProviderReference(about.reference) ? { reference: about.reference } : null
  return isOperationId(about.operation_id) ? { operation_id: about.operation_id } : null
}

/** `Reconciler.hint`. It wakes the poller of this process, or those of other processes if this one has none. */
const makeHint = Effect.fnUntraced(function*(pollers: ReadonlyMap<ProviderName, Poller>) {
  const statusReads = yield* StatusReads
  const signal = yield* HintSignal
  const policy = yield* SubmissionPolicy
  const metrics = yield* SubmissionMetrics
  for (const provider of pollers.keys()) metrics?.hintsOf(provider)

  return Effect.fn("Reconciler.hint")(function*(provider: ProviderName, about: HintSubject) {
    const operation = named(about)
    const effect = operation === null ? "ignored" : yield* withinStore(
      statusReads.hint(provider, operation, policy.hintInterval)
    ).pipe(Effect.provideService(SubmissionPolicy, policy))
    const isTaken = effect !== "ignored"
    if (metrics !== null) metrics.hintsOf(provider)[isTaken ? "taken" : "ignored"].value++
    yield* Effect.annotateLogs(Effect.logDebug("Hint of a provider"), { provider, effect })
    if (effect === "due") yield* pollers.get(provider)?.wake ?? signal.announce(provider)
    return isTaken
  })
})

/** Reads the status of unsettled operations, and takes hints of providers: something happened, read the status now. */
export class Reconciler extends Context.Service<Reconciler, {
  /** Reads up to `limit` operations of a provider that are due. Yields their number when all of them are recorded. */
  readonly runOnce: (provider: ProviderName, limit: number) => Effect.Effect<number>
  /**
   * Takes a hint that something happened to an operation at this provider, such as a webhook. The hint proves nothing, and changes
   * no state: it moves the next status read of the operation to now, at most once in `hintInterval` of the policy. A hint that comes
   * sooner moves the read to the end of the interval.
   *
   * Yields whether a read was moved, for logs and metrics. Do not tell it the sender of the hint. For an unknown or free `accepted`
   * operation, one that is settled and cannot be reversed, and one of another provider, it does nothing.
   *
   * Fails with `StoreUnavailable` if the database does not answer in time. The schedule of the reads then still holds.
   */
  readonly hint: (provider: ProviderName, about: HintSubject) => Effect.Effect<boolean, StoreUnavailable>
}>()("financial-agents-gateway/submission/reads/Reconciler") {
  /** Reads only when `runOnce` is called: for tests and for schedulers of your own. */
  static readonly layerManual = Layer.effect(
    Reconciler,
    Effect.gen(function*() {
      const services = yield* readServices
      const hint = yield* makeHint(new Map())
      return Reconciler.of({ runOnce: runOnce(makeTask(services)), hint })
    })
  ).pipe(Layer.provide([RequestPermits.layer, ProviderPauses.layer]))

  /** Reads until its scope closes. An operation whose read is then under way is due again after the lease. */
  static readonly layer: Layer.Layer<
    Reconciler,
    never,
    SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker
  > = Layer.effect(
    Reconciler,
    Effect.gen(function*() {
      const services = yield* readServices
      const running = yield* FiberSet.make<void, never>()
      const task = makeTask(services)
      const pollers = yield* runPollers(services, task, running)
      const { announced } = yield* HintSignal
      yield* announced.pipe(
        Stream.runForEach((provider) => pollers.get(provider)?.wake ?? Effect.void),
        Effect.forkScoped
      )
      return Reconciler.of({ runOnce: runOnce(task), hint: yield* makeHint(pollers) })
    })
  ).pipe(Layer.provide([RequestPermits.layer, ProviderPauses.layer]))

  /**
   * For a process without workers: `hint` goes through the database, and `HintSignal` wakes the reconcilers of other processes.
   * There are no adapters here, so `runOnce` reads nothing.
   */
  static readonly layerHints: Layer.Layer<Reconciler, never, SubmissionQueue> = Layer.effect(
    Reconciler,
    Effect.map(
      Effect.suspend(() => makeHint(new Map())),
      (hint) => Reconciler.of({ runOnce: () => Effect.succeed(0), hint })
    )
  )
}

const readServices: Effect.Effect<
  ReadServices,
  never,
  Effect.Services<typeof submissionServices> | ProviderPauses
> = Effect.zipWith(submissionServices, ProviderPauses, (services, pauses) => ({ ...services, pauses }))

/** What the log already says of each provider. */
interface ReadLogs {
  readonly checkFailure: ReturnType<typeof makeFailureCheck>
  readonly logUnusable: ReturnType<typeof makeUnusableReadLog>
}

const makeTask = (services: ReadServices): ProviderTask<TimedRead> => {
  const logs: ReadLogs = { checkFailure: makeFailureCheck("status read"), logUnusable: makeUnusableReadLog() }
  return {
    kind: "reads",
    take: takeDueReads(services),
    handle: (due) => readAndRecord(services, logs, due)
  }
}

const takeDueReads = ({ policy, providers, statusReads }: SubmissionServices) => {
  const hasLimit = [...providers.values()].some(({ limit }) => limit !== undefined)
  const ages = {
    rescue_after: policy.rescueAfter,
    idle: policy.idle,
    review_submitted_after: policy.reviewAfter.submitted,
    review_indeterminate_after: policy.reviewAfter.indeterminate
  }
  const leaseOf = (provider: ProviderName) =>
    // Covers the read, and the wait for a permit and the statements if each takes half of `storeTimeout`. So no other reader takes the
    // operation meanwhile. If they take longer, a second reader may: then only one of them records. The read of a reader that
    // crashed is due again soon after.
    providers.get(provider)?.fence === undefined
      ? Duration.sum(policy.readTimeout, Duration.times(policy.storeTimeout, hasLimit ? 3 : 2))
      : fenceLease(policy)
  return Effect.fn("Reconciler.take")(
    function*(provider: ProviderName, limit: number) {
      // Half of the capacity for held operations and half for the others, so that neither waits for the other. Each kind
      // takes the capacity that the other leaves free.
      const half = Math.ceil(limit / 2)
      const askedAt = yield* readClocks
      const lease = leaseOf(provider)
      const terms = { ...ages, lease }
      const held = yield* withinStore(statusReads.takeHeld(provider, half, terms))
      const others = limit - held.length
      const reads = others > 0 ? yield* withinStore(statusReads.takeReads(provider, others, terms)) : []
      const left = others - reads.length
      const more = held.length === half && left > 0
        ? yield* withinStore(statusReads.takeHeld(provider, left, terms))
        : []
      // Half of what all of them leave free, so that an operation whose outcome is open waits for no success that may be reversed.
      const free = Math.ceil((left - more.length) / 2)
      const mayReverse = providers.get(provider)?.promises?.reversibleFor !== undefined
      const reversible = mayReverse && free > 0
        ? yield* withinStore(
          statusReads.takeReversible(provider, free, { lease, idle: policy.readAfterSuccess })
        )
        : []
      return [...held, ...reads, ...more, ...reversible].map((due): TimedRead => ({ ...due, askedAt }))
    },
    // After any failure, the next poll tries again.
    Effect.catchCause((cause) =>
      Effect.as(logFailure("Could not take operations to reconcile; the next poll tries again", cause), [])
    )
  )
}

const readAndRecord = (
  services: ReadServices,
  { checkFailure, logUnusable }: ReadLogs,
  due: TimedRead
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const adapter = services.providers.get(due.provider)
    const { answer, isAsked } = yield* askForStatus(services, due)
    const decided = decideAfterRead(due, answer, adapter)
    const mayBegin = decided._tag === "Postpone" && answer?._tag === "NotFound" && answer.evidence !== null
    const fencing = mayBegin ? yield* beginFence(services, due) : null
    const decision = fencing === null ? askOfOldFence(services, due, decided) : { ...decided, question: null }
    if (answer !== null && isAsked && decision._tag !== "Contradicted") yield* logUnusable(due.provider, answer)
    const isRecorded = decision._tag === "Record" || decision._tag === "Reversed"
    if (isRecorded && answer?._tag === "Proven" && answer.state === "failed") {
      yield* checkFailure(due.provider, adapter?.failures, answer.code)
    }
    // Without an answer there was no read: a hint or the schedule still asks for one. A fence has found what to read.
    const reads = answer === null || answer._tag === "Known" ? 0 : due.reads
    const due_in = Duration.millis(readDelay(services.policy.readSchedule, reads, yield* Random.next))
    yield* apply(services, fencing ?? due, decision, {
      due_in,
      ends_after: endOfReversals({ answer, isAsked }, decision),
      ...answer === null ? {} : { answer: answerText(answer) }
    })
  }).pipe(
    Effect.catchCause((cause) => logFailure("A status read was not recorded; it will be repeated", cause)),
    Effect.annotateLogs({ operation_id: due.operation.id, provider: due.provider }),
    Effect.withSpan("Reconciler.read", { attributes: { operation_id: due.operation.id } })
  )

/** For how long the reads of a success outlast the time of its reversal without an answer that tells its state. */
const readsUnclear = Duration.days(30)

/** When this read is the last one of a success: so long after the time of its reversal; null: it is not. An outage ends no reads. */
const endOfReversals = ({ answer, isAsked }: Asked, decision: ReadDecision): Duration.Duration | null => {
  if (answer === null || isUnreachable(answer)) return null
  const isClear = isAsked && answer._tag !== "NotProven" && decision._tag !== "Contradicted"
  return isClear ? Duration.zero : readsUnclear
}

/** A fence may be refused for ever. Once it is old, a person asks the provider, while it is repeated. */
const askOfOldFence = ({ policy, providers }: ReadServices, due: DueRead, decision: ReadDecision): ReadDecision => {
  const { fence_started_at, operation, provider, taken_at } = due
  if (decision._tag !== "Postpone" || decision.question !== undefined || !isFenced(due)) return decision
  const oldFrom = DateTime.addDuration(fence_started_at!, policy.reviewAfter.indeterminate)
  if (DateTime.isLessThan(taken_at, oldFrom)) return decision
  return { ...decision, question: questionOf(providers.get(provider)?.promises ?? {}, operation) }
}

/** Of an answer without evidence: see `NotFound`. */
const unproven =
  "not found, which proves nothing: the adapter does not declare this answer, such as that of a wrong path, or it is of "
  + "another account"

const answerText = (answer: StatusAnswer | FenceAnswer): string => {
  switch (answer._tag) {
    case "NotProven":
      return `${answer.reason}: ${answer.detail}`
    case "Proven":
      return answer.state
    case "NotFound":
      return answer.evidence === null ? unproven : "not found"
    case "Known":
      return "the fence found that another order has the key"
    case "Occupied":
      return "the order of the fence has the key and is cancelled"
  }
}

/**
 * Records the decision, or notes the answer and sets the time of the next read, `due_in` from now. If another component was faster, it
 * decided on a newer revision: then a proof is kept (`keepLateProof`).
 */
const apply = Effect.fnUntraced(function*(
  services: SubmissionServices,
  due: DueRead,
  decision: ReadDecision,
  { ends_after, ...read }: Pick<Postponement, "answer" | "due_in"> & Pick<ReversiblePostponement, "ends_after">
) {
  const { metrics, outcomeRecorder, outcomes, policy, providers, statusReads } = services
  const { fence_started_at, operation: { id, send_before, type }, revision, sent_as } = due
  const known = { send_before, fence_started_at, sent_as }
  const about = { operation_id: id, provider: due.provider }
  // Only a held operation may be released, and then sent. The answer about another one may be older than its fence, so it is not reported.
  const keepProof = (proof: Proof) =>
    keepLateProof(services, about, proof, { claimed_at: due.state === "accepted" ? null : undefined })
  const postpone = (next: Omit<Postponement, keyof typeof read | "fence_started_at" | "send_before">) => {
    if (due.state !== "succeeded") {
      return withinStore(statusReads.postpone(id, revision, { ...read, ...next, ...known })).pipe(
        Effect.flatMap((isPostponed) =>
          isPostponed || next.reference === null ? Effect.void : keepProof({
            state: "submitted",
            reference: next.reference,
            evidence: { by: "status_read", answer: read.answer ?? null }
          })
        )
      )
    }
    const due_in = ends_after === null ? policy.readSchedule.longest : policy.readAfterSuccess
    return withinStore(statusReads.postponeReversible(id, { due_in, ends_after }))
  }
  switch (decision._tag) {
    case "Contradicted":
      yield* Effect.annotateLogs(
        Effect.logWarning(
          "A status answer names another operation, so nothing was recorded: ask the provider for the state of this one"
        ),
        { ...decision.contradiction }
      )
      return yield* postpone({ reference: null, review: true })
    case "Postpone":
      return yield* postpone({
        reference: decision.reference,
        ...decision.question === undefined ? {} : { question: decision.question },
        review: typeof decision.question === "string"
      })
    case "Reversed": {
      if (!(yield* withinStore(statusReads.recordReversal(id, decision.evidence)))) return
      if (metrics !== null) metrics.of(due.provider).reversals.value++
      return yield* Effect.logWarning(
        "A succeeded operation was reversed: it stays succeeded, so tell those whom it concerns"
      )
    }
    case "Record": {
      const { evidence, outcome, reference } = decision
      const reversible = reversibleRecording(providers.get(due.provider)?.promises ?? {}, type, policy)
      const recording = { evidence, reference, due_in: read.due_in, ...known, ...reversible }
      const record = due.state === "accepted"
        ? Effect.asVoid(withinStore(outcomes.recordHeld(id, revision, outcome, recording)))
        : outcomeRecorder.record({ id, revision, outcome, recording })
      return yield* record.pipe(
        Effect.tap(() => logOutcome(outcome, evidence["reason"], about)),
        Effect.catchTag("StaleOperation", () => keepProof({ state: outcome.state, reference, evidence }))
      )
    }
  }
})

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
const makeUnusableReadLog = () => {
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
