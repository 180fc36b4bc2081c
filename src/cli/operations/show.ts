/** `operations show`: shows one operation, and how it came to its state. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ApprovalStatus } from "../../domain/Approval.ts"
import { isUnsentFailure } from "../../domain/GatewayFailures.ts"
import { type HistoryEntry, isTerminal } from "../../domain/Operation.ts"
import {
  type Hold,
  type OperationStanding,
  type OperatorActionRecord,
  OperatorDetail,
  type OperatorSummary
} from "../../domain/operators/OperatorView.ts"
import { moveOfDeadline, outcomeOf } from "../../domain/operators/recordTexts.ts"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import { visible } from "../../domain/VisibleText.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { actingFlags, actingOperator, toggle } from "../Flags.ts"
import { CommandFailed, operatorForm, print } from "../Output.ts"
import { relativeTo, type Screen, screenFlags, screenWith, spanBetween } from "../screen/Screen.ts"
import { type Fact, heading, indented, renderFacts } from "../screen/Table.ts"
import { renderList, stateCell } from "./list.ts"

const yesNo = (value: boolean): string => value ? "yes" : "no"

/** An instant, and how far it is from now. */
const instant = (at: DateTime.Utc, now: DateTime.Utc): string =>
  `${formatTimestamp(at.epochMilliseconds)} (${relativeTo(now, at)})`

/** A fact that has a value only sometimes. */
const fact = (label: string, value: string | null): ReadonlyArray<Fact> => value === null ? [] : [{ label, value }]

const instantFact = (label: string, at: DateTime.Utc | null, now: DateTime.Utc): ReadonlyArray<Fact> =>
  fact(label, at === null ? null : instant(at, now))

const operationFacts = (detail: OperatorDetail, now: DateTime.Utc): ReadonlyArray<Fact> => {
  const { operation, terms } = detail
  const state = stateCell(detail)
  return [
    { label: "id", value: operation.id },
    { label: "type", value: operation.type },
    {
      label: "state",
      value: `${state.text}, for ${spanBetween(operation.updated_at, now)}, revision ${operation.revision}`,
      style: state.style
    },
    ...fact(
      operation.state === "succeeded" ? "reversed" : "contradicted",
      detail.reversal === null ? null : `${instant(detail.reversal.at, now)}: the evidence is in the history`
    ),
    ...fact("failure", operation.failure === null ? null : `${operation.failure.code}: ${operation.failure.message}`),
    ...fact("sent", operation.failure !== null && isUnsentFailure(operation.failure.code) ? "never sent" : null),
    ...terms === null
      ? []
      : [{ label: "amount", value: `${terms.amount} ${terms.currency}` }, { label: "payee", value: terms.payee }],
    { label: "accepted", value: instant(operation.created_at, now) },
    { label: "key", value: detail.idempotency_key },
    { label: "provider", value: detail.provider },
    { label: "reference", value: detail.reference ?? "none" },
    { label: "received", value: detail.acknowledged ? "the provider confirmed it" : "not confirmed by the provider" },
    { label: "owner", value: detail.resource_owner },
    { label: "client", value: detail.client_id },
    { label: "subject", value: detail.subject },
    { label: "grant", value: detail.grant_id },
    { label: "connection", value: detail.provider_connection_id },
    { label: "scopes", value: detail.scopes.join(" ") }
  ]
}

const nextFacts = ({ next }: OperatorDetail, now: DateTime.Utc): ReadonlyArray<Fact> => [
  { label: "by", value: next.by },
  { label: "action", value: next.action },
  ...instantFact("at", next.at, now),
  { label: "reason", value: next.reason }
]

const scheduleFacts = (
  { last_read, operation, schedule }: OperatorDetail,
  now: DateTime.Utc
): ReadonlyArray<Fact> => [
  { label: "due", value: schedule.due_at === null ? "never" : instant(schedule.due_at, now) },
  { label: "waiting", value: yesNo(schedule.waiting) },
  // A settled operation may keep the end of its last claim, until which nothing is sent any more.
  ...isTerminal(operation.state) ? [] : instantFact("send before", schedule.send_before, now),
  ...fact("claimed by", schedule.claimed_by),
  ...fact("returned", schedule.return_reason),
  ...fact("cancel", schedule.unsent ? "possible now: it was never sent" : null),
  { label: "reads", value: String(schedule.reads) },
  ...fact(
    "answer",
    last_read === null ? null : `of read ${last_read.read}, ${relativeTo(now, last_read.at)}: ${last_read.answer}`
  ),
  ...instantFact("fence", schedule.fence_started_at, now),
  ...instantFact("fence ends by", schedule.fencing_until, now),
  ...instantFact("reviewed", schedule.reviewed_at, now)
]

const holdFacts = (hold: Hold, unsent: boolean, now: DateTime.Utc): ReadonlyArray<Fact> => [
  {
    label: "cause",
    value: hold.kind === "approval"
      ? hold.by_operator === true
        ? "it waits for an approval, and an operator or a late report holds it"
        : "it waits for an approval"
      : hold.kind === "failover"
      ? `the timeline of the database changed${
        hold.by_operator === true ? ", and an operator or a late report holds it" : ""
      }`
      : unsent
      ? "an operator"
      : hold.by_operator === true
      ? "an operator or a late report"
      : "a move of the ledger, a hold of all or a comparison with the witness"
  },
  ...unsent ? [] : [{ label: "examined", value: yesNo(hold.examined) }],
  {
    label: "release",
    value: hold.kind === "approval"
      ? hold.by_operator === true ? "possible now; then it waits for its approval" : "by its approval alone"
      : unsent
      ? "possible now: it was never sent"
      : hold.releasable_from === null
      ? "not possible now"
      : instant(hold.releasable_from, now)
  }
]

const approvalFacts = (approval: ApprovalStatus, now: DateTime.Utc): ReadonlyArray<Fact> => [
  { label: "state", value: approval.state },
  ...fact("by", approval.decider === null ? null : `${approval.decider} (${approval.decided_as})`),
  ...approval.decided_at === null
    ? [{ label: "ends", value: instant(approval.expires_at, now) }]
    : [{ label: "decided", value: instant(approval.decided_at, now) }],
  ...fact("reason", approval.reason)
]

const standingFacts = (standing: OperationStanding): ReadonlyArray<Fact> => [
  { label: "client", value: standing.client_active ? "active" : "inactive" },
  { label: "connection", value: standing.provider_connected ? "connected" : "disconnected" },
  { label: "grant", value: standing.grant },
  { label: "sending", value: standing.may_send ? "a grant allows it" : "no live grant allows it" },
  { label: "status reads", value: standing.may_read ? "a grant allows them" : "no live grant allows them" }
]

/** The transitions, and at the end the proof of another outcome than the final one, which has no revision. */
const historyLines = ({ history, operation, reversal }: OperatorDetail, screen: Screen): ReadonlyArray<string> => {
  const entries: ReadonlyArray<
    Pick<HistoryEntry, "at" | "evidence"> & Record<"name" | "number", string> & { readonly note: string | null }
  > = [
    ...history.map((entry) => ({
      ...entry,
      name: entry.to,
      number: String(entry.revision),
      note: moveOfDeadline(entry)
    })),
    ...reversal === null ? [] : [{
      ...reversal,
      name: `${operation.state === "succeeded" ? "reversed" : "contradicted"} by the provider`,
      number: "",
      note: null
    }]
  ]
  return entries.flatMap(({ at, evidence, name, note, number }, n) => {
    const before = entries[n - 1]
    const later = before === undefined ? "" : `, ${spanBetween(before.at, at)} later`
    return [
      indented(`  ${number.padStart(3)}  `, `${formatTimestamp(at.epochMilliseconds)} ${name}${later}`, screen),
      ...evidence === null || evidence === undefined
        ? []
        : [indented("       evidence ", JSON.stringify(evidence), screen)],
      ...note === null ? [] : [indented("       ", note, screen)]
    ]
  })
}

const resultText = (result: string): string => {
  const outcome = outcomeOf(result)
  return outcome === "done" ? result : `${outcome}: ${result}`
}

/** Actions on all operations of the ledger, not on this one alone. */
const ofAll: ReadonlySet<string> = new Set(["hold_all", "release_all"])

const actionLines = (actions: ReadonlyArray<OperatorActionRecord>, screen: Screen): ReadonlyArray<string> =>
  actions.flatMap(({ action, at, operator, question, reason, result, via }) => [
    indented(
      "  ",
      `${formatTimestamp(at.epochMilliseconds)} ${action}${
        ofAll.has(action) ? " (all operations)" : ""
      } by ${operator} (${via}): ${resultText(result)}`,
      screen
    ),
    ...reason === null ? [] : [indented("       reason ", reason, screen)],
    ...question === null ? [] : [indented("       question ", question, screen)]
  ])

const section = (title: string, lines: ReadonlyArray<string>, screen: Screen): ReadonlyArray<string> =>
  lines.length === 0 ? [] : [[heading(title, screen), ...lines].join("\n")]

/** Everything that operators see of an operation. Spans are relative to `now`. */
export const renderDetail = (detail: OperatorDetail, now: DateTime.Utc, screen: Screen): string =>
  [
    renderFacts("Operation", operationFacts(detail, now), screen),
    renderFacts("Next action", nextFacts(detail, now), screen),
    renderFacts("Schedule", scheduleFacts(detail, now), screen),
    ...detail.schedule.hold === null
      ? []
      : [renderFacts("Hold", holdFacts(detail.schedule.hold, detail.schedule.unsent, now), screen)],
    ...detail.approval === null ? [] : [renderFacts("Approval", approvalFacts(detail.approval, now), screen)],
    renderFacts("Authorization", standingFacts(detail.standing), screen),
    ...section("History", historyLines(detail, screen), screen),
    ...section("Actions of operators", actionLines(detail.actions, screen), screen)
  ].join("\n\n")

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
    terms: toggle("terms", "Show amount and payee, which are masked otherwise. It is recorded, so it needs --reason"),
    ...actingFlags,
    ...screenFlags
  },
  Effect.fn(function*({ by, color, json, operator, reason, terms, text }) {
    if (terms && Option.isNone(reason)) {
      return yield* new CommandFailed({ message: "--terms needs --reason: who sees amount and payee is recorded" })
    }
    const search = yield* OperationSearch
    const shown = { color, json, now: yield* DateTime.now }
    const found = yield* search.find(text)
    const matches = Option.isNone(by) ? found : found.filter((summary) => valueOf(summary, by.value) === text)
    const [match, ...more] = matches
    if (match === undefined) {
      const name = Option.getOrElse(by, () => "id, key or reference")
      return yield* new CommandFailed({ message: `there is no operation with the ${name} ${visible(text)}` })
    }
    if (more.length === 0) {
      const { id } = match.operation
      const actions = yield* OperatorActions
      const plain = terms ? yield* actions.showTerms([id], actingOperator({ operator, reason })) : new Map()
      const detail = yield* search.detail(id)
      return yield* printDetail({ ...detail, terms: plain.get(id) ?? detail.terms }, shown)
    }
    yield* printMatches(matches, shown)
    yield* new CommandFailed({ message: `${matches.length} operations match: name one by its id` })
  })
).pipe(
  Command.withDescription(
    "Show an operation with its schedule, its next action, its authorization, its history, and what operators did"
  ),
  Command.withShortDescription("Show an operation")
)
