/** `operations list`: lists operations by what an operator knows of them. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import { ClientId, ProviderName, ResourceOwner } from "../../domain/Grant.ts"
import { IdempotencyKey } from "../../domain/Idempotency.ts"
import { type OperationState, operationStates } from "../../domain/Operation.ts"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import type {
  ActingOperator,
  OperationFilter,
  OperationListQuery,
  OperatorSummary
} from "../../domain/operators/OperatorView.ts"
import { ProviderReference } from "../../domain/Submission.ts"
import { Terms } from "../../domain/Terms.ts"
import { invocation, shellWord } from "../../node/process/Invocation.ts"
import { makeListRecorded } from "../../services/operators/OperationSearch.ts"
import { actingFlags, actingOperator, Lifetime, optionalText, privateFlag, toggle } from "../Flags.ts"
import { CommandFailed, operatorForm, print } from "../Output.ts"
import { conditionStyles, relativeTo, type Screen, screenFlags, screenWith, spanBetween } from "../screen/Screen.ts"
import { type Cell, type Column, renderTable } from "../screen/Table.ts"

/** The flags that choose operations. */
export const filterFlags = {
  state: Flag.Literals("state", operationStates).pipe(
    Flag.withDescription("State; repeat for several"),
    Flag.atLeast(0)
  ),
  provider: optionalText("provider", "Name of the provider", ProviderName),
  olderThan: optionalText(
    "older-than",
    "In its state for longer than this by the clock of the database, such as 15m or 2h",
    Lifetime
  ),
  held: toggle("held", "Held operations, without those that wait for an approval"),
  underReview: toggle("under-review", "Operations under review"),
  waiting: toggle(
    "waiting",
    "Operations found due but not ready, returned claims, and operations whose status reads have stopped"
  ),
  reversed: toggle(
    "reversed",
    "Successes that their provider reversed, and failures that it contradicted, in the last 7 days, the latest 500"
  ),
  failed: toggle("failed", "Operations that failed in the last 24 hours"),
  approval: toggle("approval", "Operations that wait for an approval, the first to end first"),
  owner: optionalText("owner", "Resource owner", ResourceOwner),
  client: optionalText("client", "Client", ClientId),
  key: optionalText("key", "Idempotency key", IdempotencyKey),
  reference: optionalText("reference", "Reference at the provider", ProviderReference),
  payee: privateFlag("payee", Terms.fields.payee, "a payee").pipe(
    Flag.withDescription(
      "Whole payee of the terms, or - to read it from standard input; case and spaces do not count. It shows the terms, which is "
        + "recorded, so it needs --reason"
    ),
    Flag.optional
  )
}

const pageFlags = {
  order: Flag.Literals("order", ["oldest", "newest"]).pipe(
    Flag.withDescription("Order by the time of the last transition (default: newest)"),
    Flag.withDefault("newest")
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Operations on a page, 1 to 1000 (default: 50)"),
    Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
    Flag.withDefault(50)
  ),
  after: optionalText("after", "Where the page before ended; its call prints this", Schema.String)
}

type FilterFlags = Command.Command.Config.Infer<typeof filterFlags>

export type ListFlags = FilterFlags & Command.Command.Config.Infer<typeof pageFlags & typeof actingFlags>

/** The queue that the flags name, if they name one. */
const queueOf = ({ approval, failed, held, reversed, underReview, waiting }: FilterFlags) => {
  const named = [
    ...held ? ["held"] as const : [],
    ...underReview ? ["under_review"] as const : [],
    ...waiting ? ["waiting"] as const : [],
    ...reversed ? ["reversed"] as const : [],
    ...failed ? ["failed"] as const : [],
    ...approval ? ["approval"] as const : []
  ]
  return named.length > 1
    ? Effect.fail(
      new CommandFailed({
        message: "specify at most one of --held, --under-review, --waiting, --reversed, --failed and --approval"
      })
    )
    : Effect.succeed(named.length === 1 ? { queue: named[0]! } : {})
}

/** An object with the member, if there is a value. */
const member = <Name extends string, A>(name: Name, value: Option.Option<A>): { readonly [_ in Name]?: A } =>
  Option.isSome(value) ? { [name]: value.value } as { readonly [_ in Name]: A } : {}

/** The filter of the flags. Fails if they name several queues. */
export const toFilter = (flags: FilterFlags): Effect.Effect<OperationFilter, CommandFailed> =>
  Effect.map(queueOf(flags), (queue) => ({
    ...flags.state.length > 0 ? { states: flags.state } : {},
    ...queue,
    ...member("provider", flags.provider),
    ...member("client_id", flags.client),
    ...member("resource_owner", flags.owner),
    ...member("idempotency_key", flags.key),
    ...member("reference", flags.reference),
    ...member("payee", flags.payee),
    ...member("unchanged_for", flags.olderThan)
  }))

/** Fails if the list would show the terms of a payee for no reason. */
export const checkPayee = ({ payee }: OperationFilter, { reason }: ActingOperator) =>
  payee === undefined || reason !== null
    ? Effect.void
    : Effect.fail(new CommandFailed({ message: "--payee needs --reason: who sees amount and payee is recorded" }))

/** The query of the flags. Fails if they name several queues. */
export const toQuery = (flags: ListFlags): Effect.Effect<OperationListQuery, CommandFailed> =>
  Effect.map(toFilter(flags), (filter) => ({
    ...filter,
    order: flags.order,
    limit: flags.limit,
    ...member("after", flags.after)
  }))

/** Flags whose values the call for the next page does not repeat: another place takes that of the first, and the second may be secret. */
const notRepeated = ["--after", "--database-url"]

/** The call that prints the page behind `next`: the call that was typed, from there on. */
export const nextPageCall = (typed: ReadonlyArray<string>, next: string): string => {
  const repeated = typed.filter((word, at) =>
    !notRepeated.some((name) => word === name || word.startsWith(`${name}=`) || typed[at - 1] === name)
  )
  return [invocation, ...[...repeated, `--after=${next}`].map(shellWord)].join(" ")
}

/** The state of an operation, with the marks `held` and `review`. */
export const stateCell = ({ operation: { state, under_review }, schedule: { hold } }: OperatorSummary): Cell => {
  const marks = [...hold === null ? [] : ["held"], ...under_review ? ["review"] : []]
  return { text: [state, ...marks].join(" "), style: marks.length > 0 ? "yellow" : conditionStyles[state] }
}

/** A pause without the words that all pauses of its kind have. */
const shortPause = (pause: string): string => {
  const kind = Object.values(pauseReasons).find((start) => pause.startsWith(`${start}: `))
  return `paused: ${kind === undefined ? pause : pause.slice(kind.length + 2)}`
}

/** What comes next: who acts, and when if that is later than now; until when a worker tries; or why nothing is sent. */
export const nextText = (
  { next: { at, by, pause }, schedule, state }: Pick<OperatorSummary, "next" | "schedule"> & {
    readonly state: OperationState
  },
  now: DateTime.Utc
): string => {
  const { due_at, return_reason, send_before } = schedule
  const isClaimed = state === "submitting" && by === "worker" && return_reason === null
  if (isClaimed && pause !== undefined && send_before !== null) {
    return `worker tries to send it, ends ${relativeTo(now, send_before)}`
  }
  if (isClaimed && due_at !== null) return `worker, or rescuer ${relativeTo(now, due_at)}`
  if (pause !== undefined) return shortPause(pause)
  return at !== null && DateTime.isGreaterThan(at, now) ? `${by} ${relativeTo(now, at)}` : by
}

/** What comes next, or why the operation failed. */
const nextCell = (summary: OperatorSummary, now: DateTime.Utc): Cell => ({
  text: summary.operation.failure?.code ?? nextText({ ...summary, state: summary.operation.state }, now)
})

/** The column has the codes of failures in the rows of failed operations. */
const nextTitle = (operations: ReadonlyArray<OperatorSummary>): string => {
  const failed = operations.filter(({ operation }) => operation.failure !== null)
  if (failed.length === 0) return "next"
  return failed.length === operations.length ? "failure" : "next or failure"
}

/** The type, with amount and payee. They are masked unless the list shows them, which is recorded. */
const whatText = (type: string, terms: OperatorSummary["terms"]): string =>
  terms === null ? type : `${type} ${terms.amount} ${terms.currency} to ${terms.payee}`

/** The width of the longest code of a failure. A code is never cut: people search for it. */
const codeWidth = (operations: ReadonlyArray<OperatorSummary>): number =>
  Math.max(6, ...operations.map(({ operation }) => operation.failure?.code.length ?? 0))

const columnsAt = (
  now: DateTime.Utc,
  operations: ReadonlyArray<OperatorSummary>
): ReadonlyArray<Column<OperatorSummary>> => [
  { title: "id", cell: ({ operation }) => ({ text: operation.id }) },
  { title: "operation", cell: ({ operation, terms }) => ({ text: whatText(operation.type, terms) }), least: 4 },
  { title: "state", cell: stateCell },
  { title: "provider", cell: ({ provider }) => ({ text: provider }), least: 4 },
  { title: "age", cell: ({ operation }) => ({ text: spanBetween(operation.updated_at, now) }), align: "right" },
  { title: nextTitle(operations), cell: (summary) => nextCell(summary, now), least: codeWidth(operations) }
]

const wideColumns = (now: DateTime.Utc): ReadonlyArray<Column<OperatorSummary>> => [
  { title: "owner", cell: ({ resource_owner }) => ({ text: resource_owner }), least: 8 },
  { title: "client", cell: ({ client_id }) => ({ text: client_id }), least: 8 },
  { title: "key", cell: ({ idempotency_key }) => ({ text: idempotency_key }), least: 8 },
  { title: "reference", cell: ({ reference }) => ({ text: reference ?? "-" }), least: 8 },
  { title: "reads", cell: ({ schedule }) => ({ text: String(schedule.reads) }), align: "right" },
  {
    title: "due",
    cell: ({ schedule }) => ({ text: schedule.due_at === null ? "-" : relativeTo(now, schedule.due_at) })
  },
  { title: "action", cell: ({ next }) => ({ text: next.action }), least: 8 }
]

/** The operations of a page. `now` gives their ages: the time since their last transition. */
export const renderList = (
  operations: ReadonlyArray<OperatorSummary>,
  { now, screen, wide }: { readonly now: DateTime.Utc; readonly screen: Screen; readonly wide: boolean }
): string => renderTable([...columnsAt(now, operations), ...wide ? wideColumns(now) : []], operations, screen)

/** What standard error says below a page. The last page of a list says nothing. */
const pageNote = (found: number, nextCall: string | null): ReadonlyArray<string> => {
  if (nextCall !== null) return [...found === 0 ? ["This page is empty."] : [], `Next page: ${nextCall}`]
  return found === 0 ? ["No operation matches."] : []
}

export const list = Command.make(
  "list",
  {
    flags: { ...filterFlags, ...pageFlags, ...actingFlags },
    wide: toggle("wide", "Show owner, client, key, reference, status reads and due time, too"),
    ...screenFlags
  },
  Effect.fn(function*({ color, flags, json, wide }) {
    const now = yield* DateTime.now
    const operator = actingOperator(flags)
    const query = yield* toQuery(flags)
    yield* checkPayee(query, operator)
    const listRecorded = yield* makeListRecorded
    const { next, operations } = yield* listRecorded(query, operator)
    if (json) yield* print({ operations: operations.map((summary) => operatorForm(summary)), next })
    else if (operations.length > 0) {
      yield* Console.log(renderList(operations, { now, screen: yield* screenWith({ color }), wide }))
    }
    const { args } = yield* Stdio.Stdio
    const nextCall = next === null ? null : nextPageCall(yield* args, next)
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
