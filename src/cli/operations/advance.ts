/**
 * `operations advance`: records what the operator knows of an operation from another source.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { RecordedFailure } from "../../domain/GatewayFailures.ts"
import { OperationId, operationStates, type Outcome } from "../../domain/Operation.ts"
import { evidenceFaults } from "../../domain/OperatorEvidence.ts"
import type {
  AccountableOperator,
  Advance,
  OperationFilter,
  OperatorPage,
  OperatorSummary
} from "../../domain/operators/OperatorView.ts"
import { makeListRecorded } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { accountableFlags, accountableOperator, id, jsonFlag, optionalText, toggle } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { filterFlags, toFilter } from "./list.ts"

const toOutcome = (
  state: Outcome["state"],
  code: Option.Option<string>,
  message: Option.Option<string>
): Effect.Effect<Outcome, CommandFailed> => {
  const isFailure = Option.isSome(code) || Option.isSome(message)
  if (state !== "failed") {
    return isFailure
      ? Effect.fail(new CommandFailed({ message: "--failure-code and --failure-message need --to failed" }))
      : Effect.succeed({ state })
  }
  if (Option.isNone(code) || Option.isNone(message)) {
    return Effect.fail(new CommandFailed({ message: "--to failed requires --failure-code and --failure-message" }))
  }
  return Effect.succeed({ state, failure: { code: code.value, message: message.value } })
}

/** What a person may record: no transition leads to `accepted`. */
const targets = operationStates.filter((state) => state !== "accepted")

const outcomeFlags = {
  to: Flag.Literals("to", targets).pipe(
    Flag.withDescription(
      "State to move to. submitting: only for a held operation whose outcome you record next. cancelled: only if it was never sent"
    )
  ),
  evidence: jsonFlag("evidence").pipe(
    Flag.withDescription(
      "The provider's answer, as JSON with question, asked, asked_at, reference, and answer or document_sha256; - for "
        + "standard input; required to leave indeterminate, and to end any operation that may have been sent. With --to failed, "
        + "asked_at is a minute or more after the last send. With \"reference_of\": "
        + "\"answer\" the reference is that of the answer, such as a case number, and not of the payment"
    ),
    Flag.withDefault(null)
  ),
  failureCode: optionalText(
    "failure-code",
    "Stable code of the failure, with --to failed",
    RecordedFailure.fields.code
  ),
  failureMessage: optionalText(
    "failure-message",
    "Explanation of the failure, with --to failed",
    RecordedFailure.fields.message
  )
}

/** What the flags say of the operation. */
const toAdvance = Effect.fn(function*(
  { evidence, failureCode, failureMessage, to }: Command.Command.Config.Infer<typeof outcomeFlags>
) {
  return { evidence, to: yield* toOutcome(to, failureCode, failureMessage) }
})

const isOfAnswer = Schema.is(Schema.Struct({ reference_of: Schema.Literal("answer") }))

/** Why the evidence cannot be that of all operations that match filters. */
const sharedFaults = (evidence: Schema.Json): ReadonlyArray<string> =>
  evidence === null ? [] : [
    ...evidenceFaults(evidence),
    ...isOfAnswer(evidence)
      ? []
      : ["one payment is not several operations: give the reference of the answer, and \"reference_of\": \"answer\""]
  ]

/** Most operations that one call changes. */
const most = 1000

/** The operations that match, oldest transition first. Fails if there are too many for one call. */
const findAll = Effect.fn(function*(filter: OperationFilter, operator: AccountableOperator) {
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

/** Advances each operation as it was found, and prints what became of it. Without `apply` it prints what it would do. */
const advanceAll = Effect.fn(function*(
  filter: OperationFilter,
  advance: Advance,
  { apply, operator }: { readonly apply: boolean; readonly operator: AccountableOperator }
) {
  const actions = yield* OperatorActions
  const faults = sharedFaults(advance.evidence)
  if (faults.length > 0) return yield* new CommandFailed({ message: `--evidence: ${faults.join("; ")}` })
  const found = yield* findAll(filter, operator)
  let refused = 0
  for (const { operation, provider, resource_owner } of found) {
    const { id, revision, state } = operation
    const result = yield* Effect.result(
      apply
        ? Effect.as(actions.advance(advance, id, operator, revision), "done")
        : Effect.as(actions.checkAdvance(advance, operation, operator), "would change")
    )
    if (result._tag === "Failure" && result.failure instanceof StoreUnavailable) return yield* result.failure
    if (result._tag === "Failure") refused++
    const outcome = result._tag === "Success" ? result.success : result.failure.message
    yield* print({ id, provider, resource_owner, from: state, to: advance.to.state, result: outcome })
  }
  yield* Console.error(
    apply
      ? `${found.length - refused} of ${found.length} operations changed.`
      : `${found.length} operations match, and none was changed: add --apply to change them.`
  )
  if (refused > 0) {
    const refuses = apply ? "refused" : "would refuse"
    yield* new CommandFailed({ message: `the ledger ${refuses} ${refused} of ${found.length} operations` })
  }
})

const isEmpty = (filter: OperationFilter): boolean => Object.keys(filter).length === 0

export const advance = Command.make(
  "advance",
  {
    id: Argument.optional(id(OperationId, "Operation; without it, all that match the filters")),
    outcome: outcomeFlags,
    filter: filterFlags,
    apply: toggle("apply", "With filters: change the operations. Without it, only show which would change"),
    ...accountableFlags
  },
  Effect.fn(function*({ apply, filter: flags, id, outcome, ...acting }) {
    const actions = yield* OperatorActions
    const operator = accountableOperator(acting)
    const filter = yield* toFilter(flags, yield* DateTime.now)
    if (isEmpty(filter) === Option.isNone(id)) {
      return yield* new CommandFailed({ message: "specify either the id of an operation or filters" })
    }
    const advance = yield* toAdvance(outcome)
    if (Option.isNone(id)) return yield* advanceAll(filter, advance, { apply, operator })
    yield* print(publicForm(yield* actions.advance(advance, id.value, operator)))
  })
).pipe(
  Command.withDescription(
    "Record a transition of an operation, with its reason and its evidence. With filters in place of an id it records the same of each "
      + "operation that matches, 1,000 at most; without --apply it changes nothing"
  ),
  Command.withShortDescription("Record a transition of an operation, or of all that match filters")
)
