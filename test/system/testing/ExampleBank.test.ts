/**
 * The adapter of the payments example follows the contract of adapters. The tests run every case of the conformance kit.
 */
import { describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import * as Bank from "../../../examples/payments/Bank.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { sandboxContract } from "../../fixtures/testing/sandboxContract.ts"

describe("The adapter of the payments example follows the contract:", () => {
  const cases = ProviderContract.cases({
    ...sandboxContract,
    adapter: (baseUrl) => Bank.layer(baseUrl, Redacted.make("token-of-the-example")),
    payload: {
      amount: "750.00",
      currency: "EUR",
      creditor: { name: "Landlord of May", iban: "DE89370400440532013000" }
    }
  })
  for (const { name, run } of cases) it.effect(name, () => run)
})
