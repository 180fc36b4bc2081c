/**
 * Folds the counts of operations every five seconds, so that figures about the ledger stay cheap to read.
 */
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import { Maintenance } from "../services/Maintenance.ts"
import { runUpkeep } from "./upkeep.ts"

/** With more than one process, most calls find that another one has folded a moment ago. */
const interval = Duration.seconds(5)

/** Folds until its scope closes. */
export const layer: Layer.Layer<never, never, Maintenance> = Layer.effectDiscard(
  Maintenance.use(({ foldCounts }) =>
    runUpkeep({
      statement: foldCounts,
      failure: "Could not fold the counts of operations; the next fold tries again",
      interval
    })
  )
)
