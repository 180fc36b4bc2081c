/**
 * The workers submit a transfer once, also if the bank's answer is lost, and a status read settles it. The test runs them in memory under
 * a test clock, where an hour of status reads takes a millisecond.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { Grants } from "financial-agents-gateway/services/Grants"
import { MemoryLedger } from "financial-agents-gateway/services/MemoryLedger"
import { IdempotencyKey, OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { ProviderAdapter, StatusAnswer, Uncertain } from "financial-agents-gateway/submission/ProviderAdapter"
import { Providers } from "financial-agents-gateway/submission/Providers"
import * as Submission from "financial-agents-gateway/submission/SubmissionProcesses"
import { bankName } from "../src/Bank.ts"
import { issueGrant } from "../src/Invitation.ts"
import { exampleTransfer } from "../src/Transfer.ts"

/** A bank that takes each transfer and loses its answer. From the third status read on it knows the transfer. */
const makeBank = () => {
  const submitted: Array<string> = []
  let reads = 0
  const layer = Layer.succeed(ProviderAdapter, {
    promises: { readByOperationId: "yes" },
    submit: ({ id }) => {
      submitted.push(id)
      return Effect.fail(new Uncertain({ reason: "the connection was lost" }))
    },
    readStatus: ({ id }) => {
      const names = { reference: null, operation_id: id }
      return Effect.succeed(
        ++reads < 3
          ? StatusAnswer.NotFound({ names, evidence: { code: "not_found" } })
          : StatusAnswer.Proven({ state: "succeeded", names, evidence: { status: "booked" } })
      )
    }
  })
  return { layer, submitted }
}

const Ledger = Layer.mergeAll(
  Grants.layerMemory,
  OperationLedger.layerMemory,
  Submission.SubmissionQueue.layerMemory
).pipe(
  Layer.provideMerge(MemoryLedger.layer),
  Layer.provide(NodeCrypto.layer)
)

it.effect("a transfer whose answer was lost is submitted once, and settled by a status read", () =>
  Effect.gen(function*() {
    const bank = makeBank()
    const workers = Submission.layer.pipe(Layer.provide(Providers.layer({ [bankName]: bank.layer })))
    yield* Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { grant } = yield* issueGrant
      const { operation } = yield* ledger.accept(grant, {
        type: "transfer",
        key: IdempotencyKey.make("rent-of-may"),
        payload: exampleTransfer
      })
      yield* Effect.forkScoped(Layer.launch(workers))

      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* ledger.show(operation.id)).state, "indeterminate")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual((yield* ledger.show(operation.id)).state, "succeeded")
      assert.deepStrictEqual(bank.submitted, [operation.id])
    }).pipe(Effect.provide(Ledger))
  }))
