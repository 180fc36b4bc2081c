/** `status` shows each problem with its age, and with a call that shows more or helps. The tests give it figures. */
import { assert, describe, it } from "@effect/vitest"
import { plain } from "../../../../src/cli/screen/Screen.ts"
import { problemsOf, renderStatus } from "../../../../src/cli/status/StatusCommand.ts"
import type { FiguresByCondition } from "../../../../src/domain/operators/FiguresForm.ts"
import {
  bank,
  before,
  healthy,
  hour,
  minute,
  now,
  second,
  standing,
  worker
} from "../../../fixtures/ledger/OperatorViews.ts"

const statusOf = (figures: Partial<FiguresByCondition>) => ({
  embedded: false,
  migrated: true,
  figures: { ...healthy, ...figures }
})

describe("status", () => {
  it("lists the operations of a problem, and tells the age of the oldest", () => {
    const list = (filter: string) => `npm run -s gateway -- operations list ${filter} --provider bank --order oldest`
    const status = statusOf({
      standing: [standing("accepted", 1, 2 * hour), standing("held", 1, minute), standing("under_review", 1, second)],
      reversed: [{ provider: bank, state: "succeeded", count: 1 }],
      due: [{ provider: bank, work: "read_status", count: 1, since: before(2 * minute) }]
    })
    assert.deepStrictEqual(problemsOf(status).map(({ command, message }) => `${message}: ${command}`), [
      `bank: 1 operation is accepted, the oldest for 2h: ${list("--state accepted")}`,
      `bank: 1 operation is held, the oldest for 1m: ${list("--held")}`,
      `bank: 1 operation is under review, the oldest for 1s: ${list("--under-review")}`,
      `bank: 1 success was reversed in the last 7 days: ${list("--reversed")}`,
      `bank: status read is late (1 due), the oldest for 2m: ${list("--state submitted --state indeterminate")}`
    ])
  })

  it("shows a lost worker for ten minutes after its last report", () => {
    const lost = (worker_id: string, minutes: number) => ({ ...worker, worker_id, seen_at: before(minutes * minute) })
    const status = statusOf({ workers: [lost("shown", 9), lost("gone", 11)] })
    const text = renderStatus(status, now, { width: null, paint: plain })
    assert.match(text, /^shown .* lost, 9m ago/m)
    assert.notInclude(text, "gone")
  })

  it("asks for the migrations that the database lacks", () => {
    assert.deepStrictEqual(problemsOf({ embedded: true, migrated: false, figures: null }), [
      { message: "the database lacks migrations", next: "Apply them.", command: "npm run -s gateway -- migrate" }
    ])
  })
})
