/**
 * Finds claims whose holder never said what became of them: it crashed, or hangs, or lost the database. A mutation may
 * have been sent, and nobody can know, so the operation is `indeterminate`, and nothing else.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { logFailure } from "./logFailure.ts"
import { SubmissionPolicy } from "./SubmissionPolicy.ts"
import { withinStore } from "./withinStore.ts"

const batch = 100

/** An outage must not keep people from learning of what it left behind: nobody claims or reads then. */
const reviewInterval = Duration.minutes(1)

export class Rescuer extends Context.Service<Rescuer, {
  /** Rescues every stale claim, of any provider and any worker, and yields how many there were. */
  readonly runOnce: Effect.Effect<number>
  /** Puts under review what has been unsettled for too long, whoever its provider is, and yields how many there were. */
  readonly review: Effect.Effect<number>
}>()("financial-agents-gateway/submission/Rescuer") {
  /** For tests and for schedulers of one's own: rescues when it is told to. */
  static readonly layerManual: Layer.Layer<Rescuer, never, SubmissionQueue> = Layer.effect(
    Rescuer,
    Effect.suspend(() => make)
  )

  /** Looks every `rescueInterval`, until its scope closes. */
  static readonly layer: Layer.Layer<never, never, SubmissionQueue> = Layer.effectDiscard(
    Effect.gen(function*() {
      const { review, runOnce } = yield* make
      const { rescueInterval } = yield* SubmissionPolicy
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(runOnce, Effect.sleep(rescueInterval))))
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(reviewInterval), review)))
    })
  )
}

const make = Effect.gen(function*() {
  const queue = yield* SubmissionQueue
  const rescue = withinStore(queue.rescue(batch)).pipe(
    Effect.tap((operations) =>
      operations.length === 0
        ? Effect.void
        : Effect.annotateLogs(Effect.logWarning("Rescued stale submissions: their outcome is not known"), {
          operations
        })
    ),
    Effect.map((operations) => operations.length),
    // Whatever it was, the next look may go well.
    Effect.catchCause((cause) => Effect.as(logFailure("Could not look for stale submissions", cause), 0))
  )
  const runOnce = Effect.gen(function*() {
    let total = 0
    for (let rescued = batch; rescued === batch;) total += rescued = yield* rescue
    return total
  })
  const { reviewAfter } = yield* SubmissionPolicy
  const review = withinStore(queue.reviewAged(batch, reviewAfter)).pipe(
    Effect.catchCause((cause) => Effect.as(logFailure("Could not look for operations to review", cause), 0))
  )
  return Rescuer.of({ runOnce, review })
})
