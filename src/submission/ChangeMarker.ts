/**
 * Records every second how far the changes of the ledger have come, so that change tokens survive a failover.
 */
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import { Maintenance } from "../services/Maintenance.ts"
import { runUpkeep } from "./upkeep.ts"

/** A failover ends the tokens that were issued after the last mark. */
const interval = Duration.seconds(1)

/** Marks until its scope closes, the first time at once: the feed of a new timeline begins with its first mark. */
export const layer: Layer.Layer<never, never, Maintenance> = Layer.effectDiscard(
  Maintenance.use(({ markChanges }) =>
    runUpkeep({
      statement: markChanges,
      failure: "Could not mark the changes; the next mark tries again",
      interval
    })
  )
)
