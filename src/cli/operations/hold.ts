/**
 * `operations hold`: holds accepted operations, so that no worker claims them.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { OperatorActions } from "../../services/OperatorActions.ts"
import { print, publicForm } from "../Output.ts"
import { actingFlags, actingOperator } from "./actingOperator.ts"
import { oneOrAll, oneOrAllFlags } from "./oneOrAll.ts"

export const hold = Command.make(
  "hold",
  {
    ...oneOrAllFlags("Hold every accepted operation"),
    ...actingFlags
  },
  Effect.fn(function*({ all, id, ...acting }) {
    const actions = yield* OperatorActions
    const operator = actingOperator(acting)
    const one = yield* oneOrAll({ all, id })
    yield* print(
      one === null
        ? { held: yield* actions.holdAll(operator) }
        : publicForm(yield* actions.perform("hold", one, operator))
    )
  })
).pipe(
  Command.withDescription(
    "Hold an accepted operation, so that no worker submits it, or all of them. Hold all after a rollback that the gateway cannot "
      + "detect, such as a restored disk snapshot"
  ),
  Command.withShortDescription("Hold an accepted operation, or all of them")
)
