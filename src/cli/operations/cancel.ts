/**
 * `operations cancel`: cancels an operation that no worker has claimed.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { OperationId } from "../../domain/Operation.ts"
import { OperatorActions } from "../../services/OperatorActions.ts"
import { id } from "../Flags.ts"
import { print, publicForm } from "../Output.ts"
import { actingFlags, actingOperator } from "./actingOperator.ts"

export const cancel = Command.make(
  "cancel",
  {
    id: id(OperationId, "Operation"),
    ...actingFlags
  },
  Effect.fn(function*({ id, ...acting }) {
    const actions = yield* OperatorActions
    yield* print(publicForm(yield* actions.perform("cancel", id, actingOperator(acting))))
  })
).pipe(Command.withDescription("Cancel an operation that no worker has claimed"))
