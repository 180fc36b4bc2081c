/**
 * `operations release`: lets workers submit held operations.
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

export const release = Command.make(
  "release",
  {
    id: Argument.String("id").pipe(
      Argument.withSchema(OperationId),
      Argument.withDescription("Operation"),
      Argument.optional
    ),
    all: Flag.Boolean("all").pipe(
      Flag.withDescription("Release every held operation. Use it only if the failover lost no data"),
      Flag.withDefault(false)
    ),
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
        ? publicForm(yield* actions.perform("release", id.value, operator))
        : { released: yield* actions.releaseAll(operator) }
    )
  })
).pipe(
  Command.withDescription(
    "Let workers submit an operation that is held after a failover or a restored backup. Use it only if you are sure "
      + "that the operation was never submitted"
  ),
  Command.withShortDescription("Let workers submit an operation that is held")
)
