/**
 * `operations list`: lists operations by what an operator knows of them.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { operatorForm, print } from "../Output.ts"
import { screenFlags, screenWith } from "../screen/Screen.ts"
import { filterFlags, nextPageCall, pageFlags, toQuery } from "./listFlags.ts"
import { renderList } from "./renderList.ts"

/** What standard error says below a page. The last page of a list says nothing. */
const pageNote = (found: number, nextCall: string | null): ReadonlyArray<string> => {
  if (nextCall !== null) return [...found === 0 ? ["This page is empty."] : [], `Next page: ${nextCall}`]
  return found === 0 ? ["No operation matches."] : []
}

export const list = Command.make(
  "list",
  {
    flags: { ...filterFlags, ...pageFlags },
    wide: Flag.Boolean("wide").pipe(
      Flag.withDescription("Show owner, client, key, reference, status reads and due time, too"),
      Flag.withDefault(false)
    ),
    ...screenFlags
  },
  Effect.fn(function*({ color, flags, json, wide }) {
    const search = yield* OperationSearch
    const now = yield* DateTime.now
    const { next, operations } = yield* search.list(yield* toQuery(flags, now))
    const shown = [...wide ? ["wide"] : [], ...json ? ["json"] : [], ...color ? [] : ["no-color"]]
    if (json) yield* print({ operations: operations.map((summary) => operatorForm(summary)), next })
    else if (operations.length > 0) {
      yield* Console.log(renderList(operations, { now, screen: yield* screenWith({ color }), wide }))
    }
    const nextCall = next === null ? null : nextPageCall(flags, next, shown)
    yield* Effect.forEach(pageNote(operations.length, nextCall), (line) => Console.error(line))
  })
).pipe(
  Command.withDescription(
    "List operations, the one with the latest change first. All filters must match. The call for the next page is printed on "
      + "standard error"
  ),
  Command.withShortDescription("List operations"),
  Command.withExamples([
    {
      command: "financial-agents-gateway operations list --state indeterminate --older-than 1h --order oldest",
      description: "Unknown outcomes that wait for evidence"
    },
    {
      command: "financial-agents-gateway operations list --held --wide",
      description: "Held operations, and their owners"
    }
  ])
)
