/**
 * `operations`: acts on operations of the ledger. `accept`, `advance`, `list` and `show` have files of their own.
 *
 * The room `cli/operations`: what operators ask and do about operations. Read this file first.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { idPattern, type OperationId } from "../../domain/Operation.ts"
import { HeldOperations, nextStepOf } from "../../domain/operators/HeldOperations.ts"
import { type ActingOperator, type OperatorAction, OperatorActionRecord } from "../../domain/operators/OperatorView.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { actingFlags, actingOperator, id, toggle } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { accept } from "./accept.ts"
import { advance } from "./advance.ts"
import { list } from "./list.ts"
import { show } from "./show.ts"

/** Actions take the id alone, because a key may fit the operations of several clients. */
const operationId = id(
  Schema.String.check(
    Schema.isPattern(idPattern, {
      expected: "the id of an operation, a lower-case UUIDv7; operations show KEY prints it"
    })
  ).pipe(Schema.brand("OperationId")),
  "Operation"
)

const encodeAction = Schema.encodeSync(OperatorActionRecord)

/** Performs the action, and prints the operation after it, whether it is held, and the record of the action. */
const perform = Effect.fn(function*(action: OperatorAction, id: OperationId, operator: ActingOperator) {
  const actions = yield* OperatorActions
  const search = yield* OperationSearch
  const operation = yield* actions.perform(action, id, operator)
  const { actions: records, schedule } = yield* Effect.mapError(search.detail(id), (error) =>
    new CommandFailed({
      message: `the action was carried out, and the operation could not be read after it: ${error.message}`
    }))
  const record = records.findLast((record) => record.action === action && record.operator === operator.name)
  // It changed nothing. A person does not look for that in the document.
  if (record !== undefined && record.result !== "done") yield* Console.error(`note: ${record.result}`)
  yield* print({
    ...publicForm(operation),
    held: schedule.hold !== null,
    ...record === undefined ? {} : { action: encodeAction(record) }
  })
})

const cancel = Command.make(
  "cancel",
  { id: operationId, ...actingFlags },
  ({ id, ...acting }) => perform("cancel", id, actingOperator(acting))
).pipe(Command.withDescription("Cancel an operation that was provably never sent, also while it is held"))

const review = Command.make(
  "review",
  {
    id: operationId,
    clear: toggle("clear", "End the review. The time until the next review starts now"),
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
      id: Argument.optional(operationId),
      all: toggle("all", allDescription),
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

const hold = oneOrAll(
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

const release = oneOrAll(
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

const encode = Schema.encodeSync(HeldOperations)

const held = Command.make(
  "held",
  {},
  Effect.fn(function*() {
    const found = yield* OperationSearch.use((search) => search.held)
    yield* print({ ...encode(found), next: nextStepOf(found) })
  })
).pipe(
  Command.withDescription(
    "Count the held operations by provider and reason, with the last comparison with the witness and the next step. operations list "
      + "--held lists them, and those that wait for an approval with --approval"
  ),
  Command.withShortDescription("Show why operations are held, and the next step")
)

export const operations = Command.make("operations").pipe(
  Command.withDescription("Accept, advance, cancel, review, hold, release, list and show operations"),
  Command.withSubcommands([accept, advance, cancel, review, hold, held, release, list, show])
)
