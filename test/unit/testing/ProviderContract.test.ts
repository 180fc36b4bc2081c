/**
 * Adapters that follow the contract pass every case of the conformance kit. The tests run it against the adapter for the
 * sandbox.
 */
import { describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as SandboxProvider from "../../../src/submission/SandboxProvider.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { sandboxContract } from "../../fixtures/testing/sandboxContract.ts"

describe("The adapter for the sandbox follows the contract:", () => {
  for (
    const { name, run } of ProviderContract.cases({
      ...sandboxContract,
      adapter: (baseUrl) =>
        SandboxProvider.layer({
          baseUrl,
          credentials: () => Effect.succeed({ authorization: Redacted.make("Bearer secret-of-the-sandbox") })
        })
    })
  ) it.effect(name, () => run)
})
