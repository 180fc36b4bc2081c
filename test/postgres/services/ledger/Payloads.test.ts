/**
 * A payload stays bound after its end, and is encrypted where keys are given. `QueueModel` has its end with each operation. The
 * tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { having } from "../../../fixtures/ledger/Backstage.ts"
import { accept, conformance, newKey } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, claimTerms, inspect, isAbout, issueAtNewProvider, pass } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

const hasPayload = (id: Parameters<typeof inspect>[0]) => Effect.map(inspect(id), ({ payload }) => payload !== null)

conformance("the payload of an operation", (it) => {
  it.effect("is erased without ending the request binding: the same request returns the operation, another one is refused", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      const key = newKey()
      const { operation } = yield* accept(identity, { key, payload: "bound" })
      const cancelled = yield* ledger.cancel(operation.id, null)
      assert.deepStrictEqual(yield* accept(identity, { key, payload: "bound" }), {
        operation: cancelled,
        created: false
      })
      assert.strictEqual((yield* Effect.flip(accept(identity, { key, payload: "other" })))._tag, "BindingConflict")
      assert.isFalse(yield* hasPayload(operation.id), "the repetition stores no payload again")
    }))

  it.effect("of a repeated request is stored once, as first accepted", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const key = newKey()
      const { operation } = yield* accept(identity, { key, payload: { a: 1 } })
      const before = yield* inspect(operation.id)
      yield* accept(identity, { key, payload: { a: 1 } })
      assert.deepStrictEqual((yield* inspect(operation.id)).payload, before.payload)
    }))
})

const key = (id: string, byte: number) => ({ id, key: Redacted.make(new Uint8Array(32).fill(byte)) })
const [first, second] = [key("2026-01", 1), key("2026-02", 2)]

conformance("an encrypted payload", (it) => {
  const secret = { account: "DE00 1234 5678", memo: "a private matter" }

  it.effect("is stored as ciphertext with the name of its key, and the worker reads the plain text", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity, { payload: secret }))
      const { payload } = yield* inspect(operation.id)
      assert.isTrue(payload!.key_id!.startsWith(`${first.id}~`))
      const bytes = Buffer.from(payload!.bytes)
      for (const part of ["account", "DE00", "business"]) assert.isFalse(bytes.includes(part), part)
      const [claim] = yield* having(
        [second, first],
        Effect.flatMap(Queue, (queue) => queue.claim(grant.provider, 1, claimTerms))
      )
      assert.deepStrictEqual(yield* claim!.payload, secret)
    }))

  it.effect("waits for a worker that has its key, and delays no other operation", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const old = yield* having([first], accept(identity))
      const recent = yield* having([second, first], accept(identity))
      const plain = yield* accept(identity)
      const ids = [old, recent, plain].map(({ operation }) => operation.id)

      assert.deepStrictEqual(yield* claimIds(grant.provider), [ids[2]!], "a worker without keys")
      isAbout((yield* inspect(ids[0]!)).due_in, claimTerms.idle)
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* having([second], claimIds(grant.provider)), [ids[1]!])
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* having([key("unknown", 1)], claimIds(grant.provider)), [])
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* having([second, first], claimIds(grant.provider)), [ids[0]!])
    }))

  it.effect("is put under review when no worker with its key claims it for long", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity))
      yield* pass("2 hours")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      assert.deepInclude(yield* ledger.show(operation.id), { state: "accepted", under_review: true })
    }))

  it.effect("whose key was replaced under the same name waits for the right key, and is not lost", () =>
    Effect.gen(function*() {
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity, { payload: secret }))
      assert.deepStrictEqual(yield* having([key(first.id, 9)], claimIds(provider)), [])
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* having([first], claimIds(provider)), [operation.id])
    }))

  it.effect("is bound by its plain text: another key of the process changes no request binding", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const request = { key: newKey(), payload: secret }
      const { operation } = yield* having([first], accept(identity, request))
      for (const again of [accept(identity, request), having([second], accept(identity, request))]) {
        assert.deepStrictEqual(yield* again, { operation, created: false })
      }
    }))
})
