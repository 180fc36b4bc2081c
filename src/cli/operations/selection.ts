/** The operations of an action: one by its id, or all that match filters. */
import * as Argument from "effect/cli/Argument"
import type * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { idPattern, type OperationId } from "../../domain/Operation.ts"
import type {
  ActingOperator,
  OperationFilter,
  OperatorPage,
  OperatorSummary
} from "../../domain/operators/OperatorView.ts"
import { makeListRecorded } from "../../services/operators/OperationSearch.ts"
import { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { id, toggle } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"
import { checkPayee, filterFlags, toFilter } from "./list.ts"

/** Actions take the id alone, because a key may fit the operations of several clients. */
const operationId = id(
  Schema.String.check(
    Schema.isPattern(idPattern, {
      expected: "the id of an operation, a lower-case UUIDv7; operations show KEY prints it"
    })
  ).pipe(Schema.brand("OperationId")),
  "Operation; without it, all that match the filters"
)

export const selectionFlags = {
  id: Argument.optional(operationId),
  filter: filterFlags,
  apply: toggle("apply", "With filters: change the operations. Without it, only show which would change")
}

type SelectionFlags = Command.Command.Config.Infer<typeof selectionFlags>

/** The sentence that the commands with these flags have in their help. */
export const withFilters =
  "With filters in place of an id it acts on each operation that matches, 1,000 at most; without --apply it changes nothing"

type Selection = { readonly id: OperationId } | { readonly filter: OperationFilter } | "none" | "both"

/** The one operation, or the filter of many. */
export const toSelection = Effect.fn(function*({ filter: flags, id }: SelectionFlags) {
  const filter = yield* toFilter(flags)
  const isEmpty = Object.keys(filter).length === 0
  const selection: Selection = Option.isNone(id) ? isEmpty ? "none" : { filter } : isEmpty ? { id: id.value } : "both"
  return selection
})

/** Most operations that one call changes. */
const most = 1000

/** The operations that match, oldest transition first. Fails if there are too many for one call. */
const findAll = Effect.fn(function*(filter: OperationFilter, operator: ActingOperator) {
  yield* checkPayee(filter, operator)
  const list = yield* makeListRecorded
  const found: Array<OperatorSummary> = []
  let after: string | null = null
  do {
    const query = { ...filter, order: "oldest", limit: most + 1 - found.length } as const
    const page: OperatorPage = yield* list({ ...query, ...after === null ? {} : { after } }, operator)
    found.push(...page.operations)
    if (found.length > most) {
      return yield* new CommandFailed({ message: `more than ${most} operations match: add a filter` })
    }
    after = page.next
  } while (after !== null)
  return found
})

const operationsOf = ({ length }: ReadonlyArray<unknown>) => `${length} ${length === 1 ? "operation" : "operations"}`

/**
 * Acts on each operation that matches, as it was found, and prints what became of it: a line with `action`, and the result. Without `apply`
 * it changes nothing, and prints what it would do.
 */
export const actOnAll = Effect.fn(function*<E extends Error>(
  filter: OperationFilter,
  { act, action, apply, check, operator }: {
    readonly action: object
    readonly apply: boolean
    readonly operator: ActingOperator
    /** Yields the result of the action. */
    readonly act: (found: OperatorSummary) => Effect.Effect<string, E | StoreUnavailable>
    /** Yields or fails as `act` would, and changes nothing. */
    readonly check: (found: OperatorSummary) => Effect.Effect<string, E | StoreUnavailable>
  }
) {
  const found = yield* findAll(filter, operator)
  let refused = 0
  let unchanged = 0
  for (const summary of found) {
    const { operation: { id, state }, provider, resource_owner } = summary
    const result = yield* Effect.result(apply ? act(summary) : check(summary))
    if (result._tag === "Failure" && result.failure instanceof StoreUnavailable) return yield* result.failure
    if (result._tag === "Failure") refused++
    else if (result.success !== "done") unchanged++
    const outcome = result._tag === "Failure"
      ? result.failure.message
      : result.success === "done" && !apply
      ? "would change"
      : result.success
    yield* print({ id, provider, resource_owner, from: state, ...action, result: outcome })
  }
  yield* Console.error(
    apply
      ? `${found.length - refused - unchanged} of ${operationsOf(found)} changed.`
      : found.length === 1
      ? "1 operation matches, and was not changed: add --apply to change it."
      : `${found.length} operations match, and none was changed: add --apply to change them.`
  )
  if (refused > 0) {
    const refuses = apply ? "refused" : "would refuse"
    yield* new CommandFailed({ message: `the ledger ${refuses} ${refused} of ${operationsOf(found)}` })
  }
})
