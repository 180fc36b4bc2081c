/**
 * `operations release`: lets workers submit held operations.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { OperatorActions } from "../../services/OperatorActions.ts"
import { print, publicForm } from "../Output.ts"
import { actingFlags, actingOperator } from "./actingOperator.ts"
import { oneOrAll, oneOrAllFlags } from "./oneOrAll.ts"

export const release = Command.make(
  "release",
  {
    ...oneOrAllFlags("Release every held operation. Use it only if the failover lost no data"),
    ...actingFlags
  },
  Effect.fn(function*({ all, id, ...acting }) {
    const actions = yield* OperatorActions
    const operator = actingOperator(acting)
    const one = yield* oneOrAll({ all, id })
    yield* print(
      one === null
        ? { released: yield* actions.releaseAll(operator) }
        : publicForm(yield* actions.perform("release", one, operator))
    )
  })
).pipe(
  Command.withDescription(
    "Let workers submit an operation that is held after a failover or a restored backup. Use it only if you are sure "
      + "that the operation was never submitted"
  ),
  Command.withShortDescription("Let workers submit an operation that is held")
)
