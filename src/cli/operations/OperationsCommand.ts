/**
 * `operations`: acts on operations of the ledger. `accept`, `advance`, `list` and `show` have files of their own.
 *
 * The room `cli/operations`: what operators ask and do about operations. Read this file first.
 */
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { OperationId } from "../../domain/Operation.ts"
import { HeldOperations, nextStepOf } from "../../domain/operators/HeldOperations.ts"
import {
  type ActingOperator,
  type OperatorAction,
  OperatorActionRecord,
  type OperatorSummary
} from "../../domain/operators/OperatorView.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { actingFlags, actingOperator, toggle } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { accept } from "./accept.ts"
import { advance } from "./advance.ts"
import { list } from "./list.ts"
import { actOnAll, selectionFlags, toSelection, withFilters } from "./selection.ts"
import { show } from "./show.ts"

const encodeAction = Schema.encodeSync(OperatorActionRecord)

/** Performs the action, and prints the operation after it, whether it is held, and the record of the action. */
const perform = Effect.fn(function*(action: OperatorAction, id: OperationId, operator: ActingOperator) {
  const actions = yield* OperatorActions
  const search = yield* OperationSearch
  const { operation, result } = yield* actions.perform(action, id, operator)
  const { actions: records, schedule } = yield* Effect.mapError(search.detail(id), (error) =>
    new CommandFailed({
      message: `the action was carried out, and the operation could not be read after it: ${error.message}`
    }))
  const record = records.findLast((record) => record.action === action && record.operator === operator.name)
  // It changed nothing. A person does not look for that in the document.
  if (result !== "done") yield* Console.error(`note: ${result}`)
  yield* print({
    ...publicForm(operation),
    held: schedule.hold !== null,
    ...record === undefined ? {} : { action: encodeAction(record) }
  })
})

const selectedFlags = { selection: selectionFlags, ...actingFlags }

type Selected = Command.Command.Config.Infer<typeof selectedFlags>

/** Performs the action on one operation, or on all that match filters. */
const performOn = Effect.fn(function*(
  action: OperatorAction,
  { selection, ...acting }: Selected,
  choice = "either the id of an operation or filters"
) {
  const operator = actingOperator(acting)
  const selected = yield* toSelection(selection)
  if (typeof selected === "string") {
    return yield* new CommandFailed({ message: `specify ${choice}` })
  }
  if ("id" in selected) return yield* perform(action, selected.id, operator)
  const actions = yield* OperatorActions
  const on = (act: typeof actions.checkAction) => ({ operation: { id, revision } }: OperatorSummary) =>
    Effect.map(act(action, id, operator, revision), ({ result }) => result)
  yield* actOnAll(selected.filter, {
    action: { action },
    apply: selection.apply,
    operator,
    act: on(actions.perform),
    check: on(actions.checkAction)
  })
})

const cancel = Command.make("cancel", selectedFlags, (flags) => performOn("cancel", flags)).pipe(
  Command.withDescription(
    `Cancel an operation that was provably never sent, also while it is held. ${withFilters}`
  ),
  Command.withShortDescription("Cancel an operation that was never sent, or all that match filters")
)

const review = Command.make(
  "review",
  {
    clear: toggle("clear", "End the review. The time until the next review starts now"),
    ...selectedFlags
  },
  ({ clear, ...flags }) => performOn(clear ? "end_review" : "review", flags)
).pipe(
  Command.withDescription(`Put an operation under review, or end the review. ${withFilters}`),
  Command.withShortDescription("Put an operation under review, or end the review")
)

const read = Command.make("read", selectedFlags, (flags) => performOn("read", flags)).pipe(
  Command.withDescription(
    "Make the next status read of an operation due now. A reconciler of the workers asks the provider, if a grant, the client and the "
      + `connection allow it. It sends no payment. ${withFilters}`
  ),
  Command.withShortDescription("Read the status of an operation now, or of all that match filters")
)

/** A command for one operation, for those that match filters, or for all with `--all`. `performAll` acts on all, and returns what to print. */
const oneOrAll = <Name extends "hold" | "release", E>(
  name: Name,
  allDescription: string,
  performAll: (actions: OperatorActions["Service"], operator: ActingOperator) => Effect.Effect<unknown, E>
) =>
  Command.make(
    name,
    { all: toggle("all", allDescription), ...selectedFlags },
    Effect.fn(function*({ all, ...flags }) {
      const choice = "exactly one of the id of an operation, filters, and --all"
      if (!all) return yield* performOn(name, flags, choice)
      if ((yield* toSelection(flags.selection)) !== "none") {
        return yield* new CommandFailed({ message: `specify ${choice}` })
      }
      if (flags.selection.apply) {
        return yield* new CommandFailed({ message: "--all acts at once: leave --apply out" })
      }
      if (Option.isNone(flags.reason)) {
        return yield* new CommandFailed({ message: "--all needs --reason: it is recorded for all operations" })
      }
      yield* print(yield* performAll(yield* OperatorActions, actingOperator(flags)))
    })
  )

const hold = oneOrAll(
  "hold",
  "Hold every accepted operation, and move every claimed one to indeterminate, at once. It needs --reason",
  (actions, operator) => actions.holdAll(operator)
).pipe(
  Command.withDescription(
    "Hold an accepted operation, so that no worker submits it, or all of them. Hold all after a rollback that the gateway cannot "
      + "detect, such as a restored disk snapshot. --all also moves every claimed operation to indeterminate, because a worker may have "
      + `sent it, and prints both numbers. ${withFilters}`
  ),
  Command.withShortDescription("Hold an accepted operation, those that match filters, or all of them")
)

const release = oneOrAll(
  "release",
  "Release every held operation, at once, except those that need a release of their own. Use it only if the failover lost no data. It needs --reason",
  (actions, operator) => actions.releaseAll(operator)
).pipe(
  Command.withDescription(
    "Let workers submit an operation that is held after a failover or a restored backup. Use it only if you are sure "
      + `that the operation was never submitted. ${withFilters}`
  ),
  Command.withShortDescription("Let workers submit an operation that is held, or those that match filters")
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
  Command.withDescription("Accept, advance, cancel, review, hold, release, read, list and show operations"),
  Command.withSubcommands([accept, advance, cancel, review, hold, held, release, read, list, show])
)
