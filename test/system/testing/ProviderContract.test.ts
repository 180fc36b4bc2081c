/**
 * Adapters that follow the contract pass every case of the conformance kit. The tests run it against the adapter for the
 * sandbox, over each HTTP client, and against the adapter of the payments example.
 */
import { describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { paymentTerms } from "../../../examples/payments/Api.ts"
import * as Bank from "../../../examples/payments/Bank.ts"
import * as SandboxProvider from "../../../src/submission/http/SandboxProvider.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { clients } from "../../fixtures/submission/HttpProviderServer.ts"
import { sandboxContract, sandboxRequest } from "../../fixtures/testing/sandboxContract.ts"

describe.each(clients)("Over %s, the adapter for the sandbox follows the contract:", (client, layer) => {
  const cases = ProviderContract.cases({
    ...sandboxContract,
    client: layer(),
    adapter: (baseUrl) =>
      SandboxProvider.layer({
        baseUrl,
        credentials: () => Effect.succeed({ authorization: Redacted.make("Bearer secret-of-the-sandbox") })
      })
  })
  // The fetch standard repeats a request after 421, and an adapter cannot prevent that.
  for (const { name, run } of cases) if (client !== "fetch" || !name.includes("421")) it.effect(name, () => run)
})

const creditor = { name: "Landlord of May", iban: "DE89370400440532013000" }
const payment = { amount: "750.00", currency: "EUR", creditor }

describe("The adapter of the payments example follows the contract:", () => {
  const cases = ProviderContract.cases({
    ...sandboxContract,
    adapter: (baseUrl) => Bank.layer(baseUrl, Redacted.make("token-of-the-example")),
    terms: paymentTerms,
    expects: [payment, { ...payment, amount: "1.15" }, {
      ...payment,
      creditor: { ...creditor, iban: "FR1420041010050500013M02606" }
    }]
      .map(sandboxRequest),
    invalidPayloads: [{ ...payment, currency: "USD" }]
  })
  for (const { name, run } of cases) it.effect(name, () => run)
})
