/**
 * An upgrade of an adapter: what an earlier version sent without the key, under another key, or without a deadline, the present one cannot prove
 * unsent. No fence of the operation has begun yet. The ledger is in memory, and the bank follows a script.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { ProviderReference } from "../../../../src/domain/Submission.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import { FenceAnswer, type ProviderPromises } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { checkPromises, sentAs } from "../../../../src/submission/providers/ProviderPromises.ts"
import { optionsFor } from "../../../fixtures/submission/HttpProviderServer.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { findsById, neverReceived, succeeded } from "../../../fixtures/submission/World.ts"

const account = "bank.example 4711"
const fenced: ProviderPromises = { keys: "for_ever", readByOperationId: "yes" }
const occupied = FenceAnswer.Occupied({
  names: { reference: "fence-1" as ProviderReference, operation_id: null },
  evidence: { status: "canceled" }
})

const next: w.Act = (scene) => Effect.andThen(w.untilDue(scene), scene.world.reconcile)

/** A version loses the answer to a payment, and the next one does not find it. */
const upgrade = (from: ProviderPromises, to: ProviderPromises, meanwhile: w.Step = w.settle) => {
  const promises = {}
  const deploy = (version: ProviderPromises) =>
    w.check(() => {
      for (const name of Object.keys(promises)) Reflect.deleteProperty(promises, name)
      Object.assign(promises, version)
    })
  return [
    [w.given({ promises }), w.account(account), w.answers(w.reset), w.finds(neverReceived, neverReceived, succeeded)],
    [deploy(from), w.accept(), w.work(), meanwhile, w.pass("1 minute"), deploy(to), next]
  ]
}
const asks = [w.is("indeterminate"), w.underReview(true), next, w.is("indeterminate"), w.fenced(0)]

w.tell("An operation that another version of the adapter sent", {
  ...w.each(
    [
      { change: "the key", from: { readByOperationId: "no" } },
      { change: "keys", from: { ...findsById, keys: "none" } },
      { change: "a deadline", from: { keys: "for_ever", readByOperationId: "yes", lateRequests: "accepted" } }
    ] satisfies ReadonlyArray<{ readonly change: string; readonly from: ProviderPromises }>,
    ({ change }) => `without ${change} is never proven unsent, a person is asked, and a read that finds it settles it`,
    ({ from }) => [upgrade(from, findsById), asks, next, w.is("succeeded")]
  ),
  "is never fenced, and a person is asked": [
    w.fences(occupied),
    [upgrade({ readByOperationId: "no" }, fenced), asks]
  ],
  "in the same way is proven unsent, also with another lag": [
    upgrade({ ...findsById, readByOperationId: { lag: "1 milli" }, keys: "1 day" }, findsById),
    w.failed("provider_never_received")
  ],
  "is that of each claim from before the ledger kept how": [
    [upgrade(findsById, findsById, w.alter({ sent_as: null })), asks]
  ]
})

describe("How an adapter sends", () => {
  const adapter = { account, keyIn: "Idempotency-Key", promises: findsById }

  it("differs by the place of the key, by what a read finds, and by the deadline", () => {
    const others = [
      adapter,
      { ...adapter, keyIn: "X-Request-Id" },
      { ...adapter, promises: { ...findsById, keys: "none" } },
      { ...adapter, promises: { ...findsById, readByOperationId: "indirectly" } },
      ...(["accepted", "refused_as_stated", { header: "Valid-Until" }, { header: "Expires" }] as const)
        .map((lateRequests) => ({ ...adapter, promises: { ...findsById, lateRequests } }))
    ] as const
    assert.strictEqual(new Set(others.map(sentAs)).size, others.length)
  })

  it("is a text that each later version of the gateway writes in the same way, whatever the case of a header", () => {
    assert.strictEqual(sentAs(adapter), `["Idempotency-Key","keys","yes","refused"]`)
    const promises: ProviderPromises = { readByOperationId: { lag: "1 hour" }, lateRequests: { header: "Valid-Until" } }
    assert.strictEqual(sentAs({ account, promises }), `["","no keys","yes",{"header":"valid-until"}]`)
  })

  it.effect("differs by the base URL and the header of the key, whose name has no case", () =>
    Effect.gen(function*() {
      const options = { account, promises: { readByOperationId: "yes" } } as const
      const adapters = yield* Effect.forEach(
        [
          optionsFor("https://api.bank.example/v1/", options),
          optionsFor("https://API.bank.example/v1", { ...options, idempotencyKeyHeader: "IDEMPOTENCY-KEY" }),
          optionsFor("https://api.bank.example/v2", options),
          optionsFor("https://orders.bank.example/v1", options),
          optionsFor("https://api.bank.example/v1", { ...options, idempotencyKeyHeader: "X-Request-Id" }),
          optionsFor("https://api.bank.example/v1", { ...options, keyIn: "requestId" })
        ],
        HttpProvider.make
      )
      const [first, same, ...others] = adapters.map(sentAs)
      assert.strictEqual(first, `["https://api.bank.example/v1 idempotency-key","no keys","yes","accepted"]`)
      assert.strictEqual(same, first)
      assert.strictEqual(new Set([first, ...others]).size, others.length + 1)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it("is short: longer names are refused at the start", () => {
    const named = (length: number) => {
      const name = "x".repeat(length)
      return [{ keyIn: name, lateRequests: "refused" }, { keyIn: "Key", lateRequests: { header: name } }] as const
    }
    for (const { keyIn, lateRequests } of named(300)) checkPromises({ lateRequests }, { keyIn })
    for (const { keyIn, lateRequests } of named(301)) {
      assert.throws(() => checkPromises({ lateRequests }, { keyIn }), /^keyIn, with the base URL, and/)
    }
  })

  it("is nothing without a read by the key, or without an account, unless the read is indirect", () => {
    assert.isNull(sentAs({ ...adapter, account: undefined }))
    assert.isNull(sentAs({ ...adapter, promises: { readByOperationId: "no", keys: "for_ever" } }))
    const indirect: ProviderPromises = { readByOperationId: "indirectly", lateRequests: "refused_as_stated" }
    assert.strictEqual(sentAs({ promises: indirect }), `["","no keys","indirectly","refused_as_stated"]`)
  })
})
