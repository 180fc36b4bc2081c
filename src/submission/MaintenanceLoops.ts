/**
 * What the workers do for the ledger as a whole. Every second they record how far its changes have come, so that change tokens survive a
 * failover. Every five seconds they fold the counts of operations, so that figures stay cheap to read.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Maintenance } from "../services/queue/Maintenance.ts"
import { repeatStatement } from "./storeStatements.ts"

/** A failover ends the tokens that were issued after the last mark. */
const markInterval = Duration.seconds(1)

/** With more than one process, most calls find that another one has folded a moment ago. */
const foldInterval = Duration.seconds(5)

/** Marks and folds until its scope closes, the first time at once: the feed of a new timeline begins with its first mark. */
export const layer: Layer.Layer<never, never, Maintenance> = Layer.effectDiscard(Effect.gen(function*() {
  const { foldCounts, markChanges } = yield* Maintenance
  yield* repeatStatement({
    statement: markChanges,
    failure: "Could not mark the changes; the next mark tries again",
    interval: markInterval
  })
  yield* repeatStatement({
    statement: foldCounts,
    failure: "Could not fold the counts of operations; the next fold tries again",
    interval: foldInterval
  })
}))
