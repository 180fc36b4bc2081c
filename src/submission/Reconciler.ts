/**
 * Reads the status of unsettled operations until a result is proven. A read never submits anything, age never changes a
 * state, and what a read does not prove stays as it is.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Random from "effect/Random"
import type { Provider as ProviderName } from "../domain/Grant.ts"
import type { Outcome } from "../domain/Operation.ts"
import { type DueRead, isProviderReference, type ProviderReference, readDelay } from "../domain/Submission.ts"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { abandonable } from "./abandonable.ts"
import { classifyRead, passable } from "./Circuit.ts"
import { type Contradiction, findContradiction } from "./contradiction.ts"
import { answered, type Evidence } from "./Evidence.ts"
import { describeDefect, logFailure } from "./logFailure.ts"
import { makeSlots, runPoller } from "./Poller.ts"
import { type AnswerNames, StatusAnswer } from "./Provider.ts"
import { Providers } from "./Providers.ts"
import { publicFailure } from "./Settlement.ts"
import { SubmissionPolicy, validatePolicy } from "./SubmissionPolicy.ts"
import { withinStore } from "./withinStore.ts"

export class Reconciler extends Context.Service<Reconciler, {
  /** Reads up to `limit` operations of a provider that are due, and yields how many once all of them are recorded. */
  readonly runOnce: (provider: ProviderName, limit: number) => Effect.Effect<number>
}>()("financial-agents-gateway/submission/Reconciler") {
  /** For tests and for schedulers of one's own: reads when it is told to. */
  static readonly layerManual = Layer.effect(
    Reconciler,
    Effect.suspend(() =>
      Effect.map(make, ({ read, take }) =>
        Reconciler.of({
          runOnce: Effect.fnUntraced(function*(provider, limit) {
            const reads = yield* take(provider, limit)
            yield* Effect.forEach(reads, read, { concurrency: "unbounded", discard: true })
            return reads.length
          })
        }))
    )
  )

  /** Reads what is due until its scope closes. What it was reading then is due again once the lease has passed. */
  static readonly layer: Layer.Layer<
    never,
    never,
    SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker
  > = Layer.effectDiscard(
    Effect.gen(function*() {
      const { breaker, policy, providers, read, take } = yield* make
      const running = yield* FiberSet.make<void, never>()
      const slots = makeSlots(policy.concurrency, providers.size)
      yield* Effect.forEach(providers.keys(), (name) =>
        runPoller({
          slots,
          limit: policy.providerConcurrency,
          pollInterval: policy.pollInterval,
          allowance: (left) => Effect.map(passable(breaker, name), (calls) => Math.min(left, calls)),
          take: (limit) => take(name, limit),
          handle: read
        }, running))
    })
  )
}

const make = Effect.gen(function*() {
  const queue = yield* SubmissionQueue
  const providers = yield* Providers
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const policy = yield* SubmissionPolicy
  const fault = validatePolicy(policy, providers.size)
  if (fault !== null) return yield* Effect.die(new Error(fault))

  const terms = {
    // Nobody else reads meanwhile, and a reader that died is not waited for much longer than one that hangs.
    lease: Duration.sum(policy.readTimeout, Duration.times(policy.storeTimeout, 2)),
    rescue_after: policy.rescueAfter,
    idle: policy.idle,
    review_submitted_after: policy.reviewAfter.submitted,
    review_indeterminate_after: policy.reviewAfter.indeterminate
  }

  const take = Effect.fn("Reconciler.take")(
    function*(provider: ProviderName, limit: number) {
      // Half of the slots for each, so that neither waits until the other is done, and what one leaves for the other.
      const half = Math.ceil(limit / 2)
      const held = yield* withinStore(queue.takeHeld(provider, half, terms))
      const others = limit - held.length
      const reads = others > 0 ? yield* withinStore(queue.takeReads(provider, others, terms)) : []
      const left = others - reads.length
      const more = held.length === half && left > 0 ? yield* withinStore(queue.takeHeld(provider, left, terms)) : []
      return [...held, ...reads, ...more]
    },
    // Whatever it was, the next turn may go well.
    Effect.catchCause((cause) => Effect.as(logFailure("Could not look for operations to reconcile", cause), []))
  )

  /** What the provider says, or null when its circuit let no read through. */
  const ask = ({ operation, provider: name, reference }: DueRead): Effect.Effect<StatusAnswer | null> => {
    const provider = providers.get(name)
    if (provider === undefined) return Effect.succeed(null)
    const answer = abandonable(provider.readStatus(operation, reference)).pipe(
      Effect.catchDefect((defect) => Effect.succeed(unreachable(describeDefect(defect)))),
      Effect.timeoutOrElse({
        duration: policy.readTimeout,
        orElse: () => Effect.succeed(unreachable("the provider did not answer in time"))
      })
    )
    return breaker.execute(answer, { key: name, classify: classifyRead }).pipe(
      Effect.catchTag("CircuitBreakerError", () => Effect.succeed(null))
    )
  }

  const read = (due: DueRead): Effect.Effect<void> =>
    Effect.gen(function*() {
      const decision = decideStatusRead(due, yield* ask(due))
      const { operation: { id, send_before }, revision } = due
      const due_in = Duration.millis(readDelay(policy.readSchedule, due.reads, yield* Random.next))
      switch (decision._tag) {
        case "Contradicted":
          yield* Effect.annotateLogs(
            Effect.logWarning(
              "A status answer names another operation, so nothing was recorded: ask the provider what became of this one"
            ),
            { ...decision.contradiction }
          )
          return yield* withinStore(
            queue.postpone(id, revision, { due_in, reference: null, send_before, review: true })
          )
        case "Postpone":
          return yield* withinStore(
            queue.postpone(id, revision, { due_in, reference: decision.reference, send_before })
          )
        case "Release":
          return yield* withinStore(queue.releaseUnsent(id, send_before!))
        case "Record": {
          const record = due.state === "accepted" ? queue.recordHeld : queue.record
          const { evidence, outcome, reference } = decision
          const recording = { evidence, reference, due_in, send_before }
          return yield* Effect.asVoid(withinStore(record(id, revision, outcome, recording)))
        }
      }
    }).pipe(
      // Somebody else was faster, and decided on what is newer.
      Effect.catchTag("StaleOperation", () => Effect.void),
      Effect.catchCause((cause) => logFailure("A status read was not recorded; it will be repeated", cause)),
      Effect.annotateLogs({ operation_id: due.operation.id, provider: due.provider }),
      Effect.withSpan("Reconciler.read", { attributes: { operation_id: due.operation.id } })
    )

  return { take, read, breaker, policy, providers }
})

const unreachable = (detail: string) => StatusAnswer.NotProven({ reason: "unreachable", detail })

/** What follows from a status read. */
export type Decision =
  | { readonly _tag: "Postpone"; readonly reference: ProviderReference | null }
  /** Proves nothing, and puts the operation under review. */
  | { readonly _tag: "Contradicted"; readonly contradiction: Contradiction }
  | { readonly _tag: "Release" }
  | {
    readonly _tag: "Record"
    readonly outcome: Outcome
    readonly evidence: Evidence
    readonly reference: ProviderReference | null
  }

const postpone: Decision = { _tag: "Postpone", reference: null }

/**
 * The rules of the specification ("States and transitions") for what a status read showed: proof moves the operation, a
 * failure of the network makes a `submitted` one `indeterminate`, and everything else leaves it where it is.
 *
 * An answer that names another operation id, or another reference than the stored one, proves nothing.
 * An answer that names neither counts: the adapter asked for exactly this operation (see `AnswerNames`).
 */
export const decideStatusRead = (
  due: Pick<DueRead, "operation" | "state" | "reference" | "acknowledged">,
  answer: StatusAnswer | null
): Decision => {
  const contradiction = answer === null || isAboutNone(answer)
    ? null
    : findContradiction(answer.names, { id: due.operation.id, reference: due.reference })
  return contradiction === null ? follow(due, answer) : { _tag: "Contradicted", contradiction }
}

/** A read that failed, or was not understood, is about no operation. */
const isAboutNone = (answer: StatusAnswer): answer is Exclude<StatusAnswer, { readonly names: AnswerNames }> =>
  answer._tag === "NotProven" && answer.reason !== "not_found"

/** What follows from an answer that is about this operation. */
const follow = (due: Pick<DueRead, "state" | "acknowledged">, answer: StatusAnswer | null): Decision => {
  switch (answer?._tag) {
    case undefined:
      return postpone
    case "Proven": {
      const evidence = answered("status_read", answer.evidence)
      const reference = isProviderReference(answer.names.reference) ? answer.names.reference : null
      if (answer.state === "submitted" && due.state === "submitted") return { _tag: "Postpone", reference }
      const outcome: Outcome = answer.state === "failed"
        ? { state: "failed", failure: publicFailure(answer) }
        : { state: answer.state }
      return { _tag: "Record", outcome, evidence, reference }
    }
    case "NeverReceived":
      // It contradicts what the provider said before.
      if (due.acknowledged) return postpone
      if (due.state === "accepted") return { _tag: "Release" }
      return due.state === "indeterminate"
        ? {
          _tag: "Record",
          outcome: { state: "failed", failure: neverReceived },
          evidence: answered("status_read", answer.evidence),
          reference: null
        }
        : postpone
    case "NotProven":
      return due.state === "submitted" && answer.reason === "unreachable"
        ? {
          _tag: "Record",
          outcome: { state: "indeterminate" },
          evidence: { by: "status_read", reason: answer.detail },
          reference: null
        }
        : postpone
  }
}

const neverReceived = {
  code: "provider_never_received",
  message: "The provider never received the operation, and would not accept it any more."
}
