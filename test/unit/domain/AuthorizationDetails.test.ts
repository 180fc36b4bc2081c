import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import {
  type Budget,
  decodeAuthorizationDetails,
  type FinancialOperations
} from "../../../src/domain/AuthorizationDetails.ts"

const budget: Budget = { currency: "EUR", amount: "500.00", per: "day" }
const limits: FinancialOperations = {
  type: "financial_operations",
  operation_types: ["transfer"],
  max_amount: [{ currency: "EUR", amount: "100.00" }, { currency: "JPY", amount: "100" }],
  budgets: [{ ...budget, time_zone: "Europe/Berlin" }, { ...budget, per: "week", rolling: true }, {
    ...budget,
    per: "grant"
  }],
  payees: ["DE02120300000000202051"]
}

/** Why the objects are refused. */
const refusalOf = (details: unknown) =>
  Effect.map(Effect.flip(decodeAuthorizationDetails(details)), (error) => error.message)

describe("authorization_details", () => {
  it.effect("limits are read, and objects of other types concern other resources", () =>
    Effect.gen(function*() {
      const others = [{ type: "account_information", actions: ["read"] }]
      assert.deepStrictEqual(yield* decodeAuthorizationDetails([...others, limits]), [limits])
      assert.deepStrictEqual(yield* decodeAuthorizationDetails([{ type: "financial_operations" }]), [
        { type: "financial_operations" }
      ])
      assert.isNull(yield* decodeAuthorizationDetails(others))
      assert.isNull(yield* decodeAuthorizationDetails([]))
    }))

  const refused: ReadonlyArray<readonly [string, unknown, string]> = [
    ["no array", limits, "authorization_details"],
    ["an object without a type", [{ max_amount: [] }], "authorization_details"],
    ["an unknown member", [{ ...limits, approvals: {} }], "authorization_details.0.approvals"],
    ["an approval of nothing", [{ ...limits, approval: {} }], "authorization_details.0.approval"],
    ["an unknown approval", [{ ...limits, approval: { always: true } }], "authorization_details.0.approval.always"],
    [
      "a currency twice in above",
      [{ ...limits, approval: { above: [{ currency: "EUR", amount: "1" }, { currency: "EUR", amount: "2" }] } }],
      "authorization_details.0.approval.above"
    ],
    [
      "an unknown member of a budget",
      [{ ...limits, budgets: [{ ...budget, of: "x" }] }],
      "authorization_details.0.budgets.0.of"
    ],
    ["a currency twice in max_amount", [{
      ...limits,
      max_amount: [budget, budget].map(({ amount, currency }) => ({ amount, currency }))
    }], "authorization_details.0.max_amount"],
    [
      "an amount of zero",
      [{ ...limits, max_amount: [{ currency: "EUR", amount: "0.00" }] }],
      "authorization_details.0.max_amount.0"
    ],
    [
      "a number as amount",
      [{ ...limits, max_amount: [{ currency: "EUR", amount: 100 }] }],
      "authorization_details.0.max_amount.0.amount"
    ],
    [
      "more digits than the currency has",
      [{ ...limits, budgets: [{ ...budget, currency: "JPY" }] }],
      "authorization_details.0.budgets.0.amount"
    ],
    [
      "a time zone that does not exist",
      [{ ...limits, budgets: [{ ...budget, time_zone: "Europe/Atlantis" }] }],
      "authorization_details.0.budgets.0.time_zone"
    ],
    [
      "an offset as time zone",
      [{ ...limits, budgets: [{ ...budget, time_zone: "+01:00" }] }],
      "authorization_details.0.budgets.0.time_zone"
    ],
    [
      "a rolling window with a time zone",
      [{ ...limits, budgets: [{ ...budget, rolling: true, time_zone: "UTC" }] }],
      "authorization_details.0.budgets.0"
    ],
    [
      "a rolling life of the grant",
      [{ ...limits, budgets: [{ ...budget, per: "grant", rolling: true }] }],
      "authorization_details.0.budgets.0"
    ],
    [
      "an unknown window",
      [{ ...limits, budgets: [{ ...budget, per: "year" }] }],
      "authorization_details.0.budgets.0.per"
    ],
    ["an empty list", [{ ...limits, payees: [] }], "authorization_details.0.payees"],
    ["too many objects", Array.from({ length: 21 }, () => limits), "authorization_details"],
    [
      "too many payees",
      [{ ...limits, payees: Array.from({ length: 1001 }, String) }],
      "authorization_details.0.payees"
    ],
    [
      "too many bytes",
      [{ ...limits, payees: Array.from({ length: 200 }, () => "x".repeat(200)) }],
      "authorization_details"
    ]
  ]
  it.effect.each(refused)("%s is refused, by the path of the member", ([, details, path]) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* refusalOf(details)).split(":")[0], path)
    }))
})
