/** The judge of spending reports each budget that was exceeded, and nothing else. */
import { assert, describe, it } from "@effect/vitest"
import { SubmissionKey } from "../../../../src/sandbox/Protocol.ts"
import type { Evidence, FinalOperation } from "./Evidence.ts"
import { brokenIn } from "./Figure.ts"
import { judgeSpending } from "./Spending.ts"

const operation = (id: string, limit_amount: string | null, last: Partial<FinalOperation> = {}) => ({
  id,
  key: `key-of-${id}`,
  state: "succeeded",
  grant_id: "grant",
  created_at: new Date("2026-01-10T12:00:00Z"),
  limit_amount,
  limit_currency: limit_amount === null ? null : "USD",
  ...last
})

/** The budget is 150.00 USD a day, of Berlin. */
const correct = {
  acceptances: [{ key: "refused", ids: new Set(), created: 0, refused: true }],
  operations: [
    operation("a", "100.00"),
    operation("b", "50.00", { state: "indeterminate" }),
    operation("c", "150.00", { state: "failed" }),
    operation("d", "150.00", { created_at: new Date("2026-01-10T23:00:00Z") }),
    operation("e", "150.00", { grant_id: "another" })
  ],
  truths: [{ key: SubmissionKey.make("a"), status: "succeeded" }]
} as unknown as Evidence

const found = { overAtAnInstant: [], wrongRests: [] }

const broken = (evidence: Partial<Evidence>, more: Partial<Parameters<typeof judgeSpending>[1]> = {}) =>
  brokenIn(judgeSpending({ ...correct, ...evidence }, { ...found, ...more }))

const withOperation = (...last: Parameters<typeof operation>) => ({
  operations: [...correct.operations, operation(...last) as FinalOperation]
})

describe("the judge of spending", () => {
  it("accepts a run that kept every budget", () => {
    assert.deepStrictEqual(broken({}), [])
  })

  it("finds a cent too much, in each currency, also of an operation whose outcome is uncertain", () => {
    assert.deepStrictEqual(broken(withOperation("f", "0.01", { state: "indeterminate" })), ["overspent"])
    assert.deepStrictEqual(broken(withOperation("f", "20001", { limit_currency: "JPY" })), ["overspent"])
    assert.deepStrictEqual(broken(withOperation("f", "300.01", { limit_currency: "EUR" })), ["overspent"])
  })

  it("finds what the provider paid although the ledger gave it back", () => {
    const truths = ["a", "c"].map((key) => ({ ...correct.truths[0]!, key: SubmissionKey.make(key) }))
    assert.deepStrictEqual(broken({ truths }), ["overpaid"])
  })

  it("finds an operation without an amount, and one that was refused", () => {
    assert.deepStrictEqual(broken(withOperation("f", null)), ["unlimited"])
    assert.deepStrictEqual(broken(withOperation("f", "0", { key: "refused" })), ["refusedAndKept"])
  })

  it("finds what was seen during the run", () => {
    assert.deepStrictEqual(broken({}, { overAtAnInstant: ["grant"] }), ["overAtAnInstant"])
    assert.deepStrictEqual(broken({}, { wrongRests: ["grant"] }), ["wrongRests"])
  })
})
