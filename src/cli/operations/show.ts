/**
 * `operations show`: shows one operation, and how it came to its state.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { OperatorDetail, type OperatorSummary } from "../../domain/operators/OperatorView.ts"
import { visible } from "../../domain/VisibleText.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { CommandFailed, operatorForm, print } from "../Output.ts"
import { screenFlags, screenWith } from "../screen/Screen.ts"
import { renderDetail } from "./renderDetail.ts"
import { renderList } from "./renderList.ts"

const encodeDetail = Schema.encodeSync(OperatorDetail)

const names = ["id", "key", "reference"] as const

/** The member of an operation that a name stands for. */
const valueOf = ({ idempotency_key, operation, reference }: OperatorSummary, name: typeof names[number]) =>
  ({ id: operation.id, key: idempotency_key, reference })[name]

interface Shown {
  readonly now: DateTime.Utc
  readonly color: boolean
  readonly json: boolean
}

const printMatches = Effect.fn(function*(matches: ReadonlyArray<OperatorSummary>, { color, json, now }: Shown) {
  if (json) return yield* print({ operations: matches.map((summary) => operatorForm(summary)), next: null })
  yield* Console.log(renderList(matches, { now, screen: yield* screenWith({ color }), wide: true }))
})

const printDetail = Effect.fn(function*(detail: OperatorDetail, { color, json, now }: Shown) {
  const { return_reason } = detail.schedule
  if (json) return yield* print({ ...encodeDetail(detail), return_reason })
  yield* Console.log(renderDetail(detail, now, yield* screenWith({ color })))
})

export const show = Command.make(
  "show",
  {
    text: Argument.String("operation").pipe(
      Argument.withDescription("Id, idempotency key or provider reference of the operation")
    ),
    by: Flag.Literals("by", names).pipe(
      Flag.withDescription("What the text is, if it fits several operations"),
      Flag.optional
    ),
    ...screenFlags
  },
  Effect.fn(function*({ by, color, json, text }) {
    const search = yield* OperationSearch
    const shown = { color, json, now: yield* DateTime.now }
    const found = yield* search.find(text)
    const matches = Option.isNone(by) ? found : found.filter((summary) => valueOf(summary, by.value) === text)
    const [match, ...more] = matches
    if (match === undefined) {
      const name = Option.getOrElse(by, () => "id, key or reference")
      return yield* new CommandFailed({ message: `there is no operation with the ${name} ${visible(text)}` })
    }
    if (more.length === 0) return yield* printDetail(yield* search.detail(match.operation.id), shown)
    yield* printMatches(matches, shown)
    yield* new CommandFailed({ message: `${matches.length} operations match: name one by its id` })
  })
).pipe(
  Command.withDescription(
    "Show an operation with its schedule, its next action, its authorization, its history, and what operators did"
  ),
  Command.withShortDescription("Show an operation")
)
