/**
 * Records every second how far the changes of the ledger have come, so that change tokens survive a failover.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { logFailure } from "./logFailure.ts"
import { withinStore } from "./withinStore.ts"

/** A failover ends the tokens that were issued after the last mark. */
const interval = Duration.seconds(1)

/** Marks until its scope closes, the first time at once: the feed of a new timeline begins with its first mark. */
export const layer: Layer.Layer<never, never, SubmissionQueue> = Layer.effectDiscard(Effect.gen(function*() {
  const { markChanges } = yield* SubmissionQueue
  const mark = Effect.catchCause(
    withinStore(markChanges),
    (cause) => logFailure("Could not mark the changes; the next mark tries again", cause)
  )
  // A stop does not wait for a statement that hangs: nothing depends on a mark.
  const detached = Effect.flatMap(Effect.forkDetach(mark), Fiber.await)
  // Spans of an endless loop would only fill a collector.
  yield* Effect.forkScoped(
    Effect.withTracerEnabled(Effect.forever(Effect.andThen(detached, Effect.sleep(interval))), false)
  )
}))
