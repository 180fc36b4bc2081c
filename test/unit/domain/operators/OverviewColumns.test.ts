/** The overview of the console counts as its plots and its queues do. The test gives it figures. */
import { assert, describe, it } from "@effect/vitest"
import { type FiguresByCondition, overviewColumns } from "../../../../src/domain/operators/FiguresForm.ts"
import { before, now } from "../../../fixtures/ledger/OperatorViews.ts"

const provider = "bank" as never
const hour = 3_600_000

/** Four accepted operations, of which one is held and one waits for an approval; and one indeterminate, under review. */
const figures: FiguresByCondition = {
  at: now,
  operations: [
    { provider, state: "accepted", count: 4 },
    { provider, state: "indeterminate", count: 1 },
    { provider, state: "succeeded", count: 9 }
  ],
  held: [{ provider, count: 2 }],
  approval: [{ provider, count: 1 }],
  unauthorized: [],
  keyless: [],
  unread: [],
  reversed: [],
  under_review: [{ provider, count: 1 }],
  oldest: [
    { provider, condition: "accepted", since: before(hour) },
    { provider, condition: "held", since: before(3 * hour) },
    { provider, condition: "indeterminate", since: before(hour) },
    { provider, condition: "under_review", since: before(hour) }
  ],
  standing: [
    { provider, condition: "accepted", count: 2, since: before(hour), question: null },
    { provider, condition: "approval", count: 1, since: before(3 * hour), question: null },
    { provider, condition: "held", count: 1, since: null, question: null },
    { provider, condition: "under_review", count: 1, since: before(hour), question: null }
  ],
  failed: [],
  due: [],
  workers: []
}

describe("The columns of the overview", () => {
  it("count the operations of each unsettled state, and again those that are held, under review or wait for an approval", () => {
    const columns = overviewColumns(figures).map(({ count, name, since }) => [
      name,
      count,
      since === null ? null : (now.epochMilliseconds - since.epochMilliseconds) / hour
    ])
    assert.deepStrictEqual(columns, [
      ["accepted", 4, 3],
      ["indeterminate", 1, 1],
      ["approval", 1, 3],
      ["held", 1, null],
      ["under_review", 1, 1]
    ])
  })
})
