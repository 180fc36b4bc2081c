/**
 * A receiving bank returns a transfer days after its success, by way of the simulator, the adapter, worker and reconciler, and the gateway.
 * The operation stays as its client knows it, and the ledger has the evidence of the return.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { bankDialects } from "../../../src/sandbox/banks/bankDialects.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { SubmissionWorker } from "../../../src/submission/attempts/SubmissionWorker.ts"
import { layerCircuitBreaker } from "../../../src/submission/providers/Circuit.ts"
import { Providers } from "../../../src/submission/providers/Providers.ts"
import { Reconciler } from "../../../src/submission/reads/Reconciler.ts"
import { fencedBanks, increaseAt } from "../../fixtures/banks/BankClient.ts"
import { Gateway, memoryGateway } from "../../fixtures/http/HttpGateway.ts"
import { issue } from "../../fixtures/http/HttpScene.ts"
import { accept, newProvider } from "../../fixtures/ledger/Ledger.ts"
import { start } from "../../fixtures/sandbox/SandboxHarness.ts"

const day = 86_400_000

describe("A transfer that the receiving bank returns", () => {
  it.effect("days after its success stays succeeded, byte for byte, and the ledger has the evidence", () =>
    Effect.gen(function*() {
      const sandbox = yield* start({}, bankDialects["increase"])
      const provider = newProvider()
      const engine = yield* Layer.build(
        Layer.merge(SubmissionWorker.layerManual, Reconciler.layerManual).pipe(
          Layer.provide([Providers.layer({ [provider]: increaseAt(sandbox.url) }), layerCircuitBreaker]),
          Layer.provide([ProviderHttpClient.layer(), SubmissionQueue.layerMemory])
        )
      )
      const reconcile = Context.get(engine, Reconciler).runOnce(provider, 100)
      const holder = yield* issue({ provider, expires_in: Duration.days(365) })
      const instruction = { outcome: "succeeded", settle_after_ms: 1000, return_after_ms: 3 * day }
      const payload = {
        ...fencedBanks.increase.payload,
        statement_descriptor: `sandbox ${JSON.stringify(instruction)}`
      }
      const { operation: { id } } = yield* accept(holder.identity, { type: "ach_transfer", payload })
      yield* Context.get(engine, SubmissionWorker).runOnce(provider, 1)
      yield* TestClock.adjust("1 minute")
      yield* reconcile
      const { send } = yield* Gateway
      const get = Effect.map(
        send(`/v1/operations/${id}`, { token: holder.token }),
        ({ headers, text }) => ({ text, etag: headers["etag"] })
      )
      const { operations } = yield* MemoryLedger
      const before = yield* get
      assert.include(before.text, `"state":"succeeded"`)
      yield* TestClock.adjust("1 day")
      assert.strictEqual(yield* reconcile, 1)
      assert.isNull(operations.get(id)!.reversal, "it was read, and had not been returned")
      yield* TestClock.adjust("3 days")
      assert.strictEqual(yield* reconcile, 1)
      assert.deepStrictEqual(yield* get, before)
      const { evidence } = operations.get(id)!.reversal!
      assert.deepInclude(evidence, {
        by: "status_read",
        failure: { code: "account_unknown", message: "The provider does not know an account of the operation." }
      })
      assert.include(JSON.stringify(evidence), `"return":{"return_reason_code":"no_account"}`)
      yield* TestClock.adjust("30 days")
      assert.strictEqual(yield* reconcile, 0)
    }).pipe(Effect.provide(memoryGateway())))
})
