/**
 * `operations hold`: holds accepted operations, so that no worker claims them.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperationId } from "../../domain/Operation.ts"
import { OperatorActions } from "../../services/OperatorActions.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { actingFlags, actingOperator } from "./actingOperator.ts"

export const hold = Command.make(
  "hold",
  {
    id: Argument.String("id").pipe(
      Argument.withSchema(OperationId),
      Argument.withDescription("Operation"),
      Argument.optional
    ),
    all: Flag.Boolean("all").pipe(Flag.withDescription("Hold every accepted operation"), Flag.withDefault(false)),
    ...actingFlags
  },
  Effect.fn(function*({ all, id, ...acting }) {
    const actions = yield* OperatorActions
    const operator = actingOperator(acting)
    if (all === Option.isSome(id)) {
      return yield* new CommandFailed({ message: "specify exactly one of the id of an operation and --all" })
    }
    yield* print(
      Option.isSome(id)
        ? publicForm(yield* actions.perform("hold", id.value, operator))
        : { held: yield* actions.holdAll(operator) }
    )
  })
).pipe(
  Command.withDescription(
    "Hold an accepted operation, so that no worker submits it, or all of them. Hold all after a rollback that the gateway cannot "
      + "detect, such as a restored disk snapshot"
  ),
  Command.withShortDescription("Hold an accepted operation, or all of them")
)
