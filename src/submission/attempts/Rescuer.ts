/**
 * Moves stale claims to `indeterminate`: claims whose holder crashed, hangs, or lost the database before it recorded an
 * outcome. The request may have been sent, and this cannot be known. So the rescuer never moves a claim to another
 * state.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { Rescues } from "../../services/queue/Rescues.ts"
import { withinStore } from "../storeStatements.ts"
import { logFailure } from "../submissionLog.ts"
import { SubmissionPolicy } from "../SubmissionPolicy.ts"

const batch = 100

/** The rescuer reviews apart from the workers: during an outage of a provider they neither claim nor read. */
const reviewInterval = Duration.minutes(1)

export class Rescuer extends Context.Service<Rescuer, {
  /** Rescues every stale claim, of any provider and any worker. Yields their number. */
  readonly runOnce: Effect.Effect<number>
  /** Puts operations of any provider under review that are unsettled for too long. Yields their number. */
  readonly review: Effect.Effect<number>
  /** Cancels operations of any provider whose approval was not decided in time. Yields their number. */
  readonly expireApprovals: Effect.Effect<number>
}>()("financial-agents-gateway/submission/attempts/Rescuer") {
  /** Rescues only when `runOnce` is called: for tests and for schedulers of your own. */
  static readonly layerManual: Layer.Layer<Rescuer, never, Rescues> = Layer.effect(
    Rescuer,
    Effect.suspend(() => make)
  )

  /** Rescues every `rescueInterval`. It reviews and ends late approvals every minute, until its scope closes. */
  static readonly layer: Layer.Layer<never, never, Rescues> = Layer.effectDiscard(
    Effect.gen(function*() {
      const { expireApprovals, review, runOnce } = yield* make
      const { rescueInterval } = yield* SubmissionPolicy
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(runOnce, Effect.sleep(rescueInterval))))
      yield* Effect.forkScoped(Effect.forever(
        Effect.andThen(Effect.sleep(reviewInterval), Effect.andThen(expireApprovals, review))
      ))
    })
  )
}

const make = Effect.gen(function*() {
  const rescues = yield* Rescues
  const metrics = yield* SubmissionMetrics
  const rescue = withinStore(rescues.rescue(batch)).pipe(
    Effect.tap((operations) =>
      operations.length === 0
        ? Effect.void
        : Effect.annotateLogs(Effect.logWarning("Rescued stale claims: the outcome of these operations is not known"), {
          operations
        })
    ),
    Effect.map(({ length }) => {
      if (metrics !== null) metrics.rescues.value += length
      return length
    }),
    // After any failure, the rescuer tries again.
    Effect.catchCause((cause) =>
      Effect.as(logFailure("Could not rescue stale claims; the rescuer tries again", cause), 0)
    )
  )
  const runOnce = Effect.gen(function*() {
    let total = 0
    for (let rescued = batch; rescued === batch;) total += rescued = yield* rescue
    return total
  })
  const { reviewAfter } = yield* SubmissionPolicy
  const review = withinStore(rescues.reviewAged(batch, reviewAfter)).pipe(
    Effect.catchCause((cause) =>
      Effect.as(logFailure("Could not put aged operations under review; the rescuer tries again", cause), 0)
    )
  )
  const expireApprovals = withinStore(rescues.expireApprovals(batch)).pipe(
    Effect.catchCause((cause) =>
      Effect.as(logFailure("Could not cancel operations without a decision; the rescuer tries again", cause), 0)
    )
  )
  return Rescuer.of({ runOnce, review, expireApprovals })
})
