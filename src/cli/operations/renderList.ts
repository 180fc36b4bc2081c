/**
 * A page of operations as a table.
 */
import * as DateTime from "effect/DateTime"
import type { NextAction, OperatorSummary } from "../../domain/operators/OperatorView.ts"
import { conditionStyles, type Screen } from "../screen/Screen.ts"
import { relativeTo, spanBetween } from "../screen/Spans.ts"
import { type Cell, type Column, renderTable } from "../screen/Table.ts"

/** The state of an operation, with the marks `held` and `review`. */
export const stateCell = ({ operation: { state, under_review }, schedule: { hold } }: OperatorSummary): Cell => {
  const marks = [...hold === null ? [] : ["held"], ...under_review ? ["review"] : []]
  return { text: [state, ...marks].join(" "), style: marks.length > 0 ? "yellow" : conditionStyles[state] }
}

/** Who acts next, and when if that is later than now. */
const nextText = ({ at, by }: NextAction, now: DateTime.Utc): string =>
  at !== null && DateTime.isGreaterThan(at, now) ? `${by} ${relativeTo(now, at)}` : by

const columnsAt = (now: DateTime.Utc): ReadonlyArray<Column<OperatorSummary>> => [
  { title: "id", cell: ({ operation }) => ({ text: operation.id }) },
  { title: "type", cell: ({ operation }) => ({ text: operation.type }), least: 4 },
  { title: "state", cell: stateCell },
  { title: "provider", cell: ({ provider }) => ({ text: provider }), least: 4 },
  { title: "age", cell: ({ operation }) => ({ text: spanBetween(operation.updated_at, now) }), align: "right" },
  { title: "next", cell: ({ next }) => ({ text: nextText(next, now) }), least: 6 }
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
): string => renderTable([...columnsAt(now), ...wide ? wideColumns(now) : []], operations, screen)
