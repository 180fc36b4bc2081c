/** A client reads what remains of its limits. The tests accept operations of a grant with limits, and read by HTTP. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { AuthorizationDetails } from "../../../src/domain/AuthorizationDetails.ts"
import { Scope } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { Gateway, postgresGateway, refuses } from "../../fixtures/http/HttpGateway.ts"
import { issue } from "../../fixtures/http/HttpScene.ts"
import { json } from "../../fixtures/http/HttpWire.ts"

const details: AuthorizationDetails = [{
  type: "financial_operations",
  operation_types: ["payment"],
  max_amount: [{ currency: "EUR", amount: "100.00" }],
  budgets: [
    { currency: "EUR", amount: "150.00", per: "day", rolling: true },
    { currency: "EUR", amount: "900.00", per: "month", time_zone: "Europe/Berlin" }
  ]
}]

const read = (token: string) => Gateway.use(({ send }) => send("/v1/limits", { token }))

layer(postgresGateway({ way: "both" }), { excludeTestServices: true })("GET /v1/limits", (it) => {
  it.effect("returns each limit in its form, with what remains and when the next window begins", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity, token } = yield* issue({ authorization_details: details })
      const terms = { amount: "60.00", currency: "EUR", payee: "Landlord" }
      yield* ledger.accept(identity, { type: "payment", key: IdempotencyKey.make("rent"), payload: terms, terms })
      const answer = yield* read(token)
      assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual(answer.headers["cache-control"], "private, no-cache")
      const { limits } = json(answer) as { readonly limits: ReadonlyArray<{ readonly resets_at: string | null }> }
      const [{ budgets: [day, month] = [], max_amount: [most] = [] }] = details as [AuthorizationDetails[number]]
      const operation_types = ["payment"]
      assert.deepStrictEqual<unknown>(limits, [
        { operation_types, limit: most, remaining: "100.00", resets_at: null },
        { operation_types, limit: day, remaining: "90.00", resets_at: null },
        { operation_types, limit: month, remaining: "840.00", resets_at: limits[2]!.resets_at }
      ])
      // Midnight in Berlin, as the gateway writes each instant.
      assert.match(limits[2]!.resets_at!, /^\d{4}-\d\d-\d\dT2[23]:00:00\.000Z$/)
      assert.isAbove(Date.parse(limits[2]!.resets_at!), Date.now())
    }))

  it.effect("is empty for a grant without limits, and refuses a grant that may not read", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual<unknown>(json(yield* read((yield* issue()).token)), { limits: [] })
      const { token } = yield* issue({ scopes: [Scope.make("payments:write")] })
      yield* refuses("insufficient_scope", [["/v1/limits", { token }]])
    }))
})
