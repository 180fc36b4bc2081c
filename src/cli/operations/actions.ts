/**
 * `operations cancel`, `hold`, `release` and `review`: what operators do with an operation, or with all of them.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperationId } from "../../domain/Operation.ts"
import type { ActingOperator } from "../../domain/operators/OperatorView.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { id } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { actingFlags, actingOperator } from "./actingOperator.ts"

const perform = Effect.fn(function*(
  action: Parameters<OperatorActions["Service"]["perform"]>[0],
  operation: OperationId,
  operator: ActingOperator
) {
  const actions = yield* OperatorActions
  yield* print(publicForm(yield* actions.perform(action, operation, operator)))
})

export const cancel = Command.make(
  "cancel",
  { id: id(OperationId, "Operation"), ...actingFlags },
  ({ id, ...acting }) => perform("cancel", id, actingOperator(acting))
).pipe(Command.withDescription("Cancel an operation that no worker has claimed"))

export const review = Command.make(
  "review",
  {
    id: id(OperationId, "Operation"),
    clear: Flag.Boolean("clear").pipe(
      Flag.withDescription("End the review. The time until the next review starts now"),
      Flag.withDefault(false)
    ),
    ...actingFlags
  },
  ({ clear, id, ...acting }) => perform(clear ? "end_review" : "review", id, actingOperator(acting))
).pipe(Command.withDescription("Put an operation under review, or end the review"))

/** A command for one operation, or for all with `--all`. `performAll` acts on all, and returns what to print. */
const oneOrAll = <Name extends "hold" | "release", E>(
  name: Name,
  allDescription: string,
  performAll: (actions: OperatorActions["Service"], operator: ActingOperator) => Effect.Effect<unknown, E>
) =>
  Command.make(
    name,
    {
      id: Argument.optional(id(OperationId, "Operation")),
      all: Flag.Boolean("all").pipe(Flag.withDescription(allDescription), Flag.withDefault(false)),
      ...actingFlags
    },
    Effect.fn(function*({ all, id, ...acting }) {
      if (all === Option.isSome(id)) {
        return yield* new CommandFailed({ message: "specify exactly one of the id of an operation and --all" })
      }
      const operator = actingOperator(acting)
      if (Option.isSome(id)) return yield* perform(name, id.value, operator)
      yield* print(yield* performAll(yield* OperatorActions, operator))
    })
  )

export const hold = oneOrAll(
  "hold",
  "Hold every accepted operation",
  (actions, operator) => Effect.map(actions.holdAll(operator), (held) => ({ held }))
).pipe(
  Command.withDescription(
    "Hold an accepted operation, so that no worker submits it, or all of them. Hold all after a rollback that the gateway cannot "
      + "detect, such as a restored disk snapshot"
  ),
  Command.withShortDescription("Hold an accepted operation, or all of them")
)

export const release = oneOrAll(
  "release",
  "Release every held operation. Use it only if the failover lost no data",
  (actions, operator) => Effect.map(actions.releaseAll(operator), (released) => ({ released }))
).pipe(
  Command.withDescription(
    "Let workers submit an operation that is held after a failover or a restored backup. Use it only if you are sure "
      + "that the operation was never submitted"
  ),
  Command.withShortDescription("Let workers submit an operation that is held")
)
