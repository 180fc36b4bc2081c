/** The conformance kit wants a payload in a currency without decimals, if the schema of the adapter accepts one. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import * as SandboxProvider from "../../../src/submission/http/SandboxProvider.ts"
import { ProviderAdapter } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { sandboxContract, sandboxRequest } from "../../fixtures/testing/sandboxContract.ts"

const name = "payloads: a currency without decimals that the schema accepts has an expected request"

const sent = (amount: string, currency: string, creditor = "Landlord") => sandboxRequest({ amount, currency, creditor })

/** The failure of the case, for an adapter that takes these currencies. */
const failureFor = (currency: Schema.Codec<string>, ...more: ReadonlyArray<ReturnType<typeof sent>>) => {
  const payloads = { payment: Schema.Struct({ amount: Schema.String, currency, creditor: Schema.String }) }
  const kit = ProviderContract.cases({
    ...sandboxContract,
    adapter: (baseUrl) =>
      Layer.effect(
        ProviderAdapter,
        Effect.map(
          SandboxProvider.make({ baseUrl, credentials: () => Effect.succeed({ authorization: Redacted.make("t") }) }),
          (adapter) => ({ ...adapter, payloads })
        )
      ),
    terms: ({ amount, creditor, currency }: { amount: string; creditor: string; currency: string }) => ({
      amount,
      currency,
      payee: creditor
    }),
    expects: [sent("12.00", "EUR"), sent("1.15", "EUR"), sent("12.00", "EUR", "Other"), ...more],
    invalidPayloads: [{ amount: "12.00", currency: "XXX", creditor: "Landlord" }]
  })
  return Effect.map(
    Effect.exit(kit.find((one) => one.name === name)!.run),
    (exit) => exit._tag === "Success" ? null : String(exit.cause)
  )
}

describe("The conformance kit", () => {
  it.effect("wants a payload in yen from an adapter that takes yen, and from no other", () =>
    Effect.gen(function*() {
      const iso = Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/u))
      assert.include(
        yield* failureFor(iso),
        "has no payload in a currency without decimals, and the schema accepts JPY"
      )
      assert.include(yield* failureFor(Schema.Literals(["EUR", "KRW"])), "the schema accepts KRW")
      assert.isNull(yield* failureFor(iso, sent("750", "JPY")))
      assert.isNull(yield* failureFor(Schema.Literals(["EUR", "KWD"])))
    }))
})
