import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { OperationState } from "../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { Backstage, type Keys } from "../../fixtures/Backstage.ts"
import { accept, conformance, drive, newKey, outcome } from "../../fixtures/Ledger.ts"
import {
  claimIds,
  claimTerms,
  failOver,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  recording
} from "../../fixtures/Queue.ts"

const hasPayload = (id: Parameters<typeof inspect>[0]) => Effect.map(inspect(id), ({ payload }) => payload !== null)

/** Every way to an end: through the ledger, as an operator moves operations, and through the queue. */
const ends: ReadonlyArray<{ readonly from: OperationState; readonly to: OperationState }> = [
  { from: "accepted", to: "failed" },
  { from: "accepted", to: "cancelled" },
  ...(["submitting", "submitted", "indeterminate"] as const).flatMap((from) =>
    (["succeeded", "failed"] as const).map((to) => ({ from, to }))
  )
]

conformance("the payload of an operation", (it) => {
  for (const state of ["accepted", "submitting", "submitted", "indeterminate"] as const) {
    it.effect(`is there while the operation is ${state}, as it was bound`, () =>
      Effect.gen(function*() {
        const { id } = yield* queued(yield* issueAtNewProvider(), state)
        const { payload } = yield* inspect(id)
        assert.strictEqual(payload!.key_id, null)
        assert.strictEqual(new TextDecoder().decode(payload!.bytes), "{\"amount\":\"10.00\"}")
      }))
  }

  for (const { from, to } of ends) {
    it.effect(`is erased with the end of the operation: ${from} -> ${to} by hand`, () =>
      Effect.gen(function*() {
        const operation = yield* queued(yield* issueAtNewProvider(), from)
        assert.isTrue(yield* hasPayload(operation.id))
        yield* drive(operation, [to])
        assert.isFalse(yield* hasPayload(operation.id))
      }))

    if (from === "accepted") continue
    it.effect(`is erased with the end of the operation: ${from} -> ${to} as a worker records it`, () =>
      Effect.gen(function*() {
        const queue = yield* SubmissionQueue
        const { id, revision } = yield* queued(yield* issueAtNewProvider(), from)
        yield* queue.record(id, revision, outcome(to), recording())
        assert.isFalse(yield* hasPayload(id))
      }))
  }

  it.effect("is erased with the end of the operation: by cancellation", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id } = yield* queued(yield* issueAtNewProvider(), "accepted")
      yield* ledger.cancel(id, null)
      assert.isFalse(yield* hasPayload(id))
    }))

  it.effect("is erased with the end of the operation: of a held one, as a status read proves it", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      for (const to of ["succeeded", "failed"] as const) {
        const { id } = yield* queued(yield* issueAtNewProvider(), "accepted")
        yield* failOver
        yield* queue.recordHeld(id, 1, outcome(to), recording())
        assert.isFalse(yield* hasPayload(id))
      }
    }))

  it.effect("does not end the binding: the same request returns the settled operation, another one is refused", () =>
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
      assert.isFalse(yield* hasPayload(operation.id), "and the repetition brings no payload back")
    }))

  it.effect("of a repeated request is stored once, as it came first", () =>
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

/** Runs as a process that has these keys. */
const having = <A, E, R>(keys: Keys, effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Effect.flatMap(Backstage, (backstage) => backstage.processWith(keys)),
    (context) => Effect.provideContext(effect, context)
  )

conformance("an encrypted payload", (it) => {
  const secret = { account: "DE00 1234 5678", memo: "nobody's business" }

  it.effect("lies there as ciphertext, with the name of its key, and is what the worker reads", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity, { payload: secret }))
      const { payload } = yield* inspect(operation.id)
      assert.isTrue(payload!.key_id!.startsWith(`${first.id}~`))
      const bytes = Buffer.from(payload!.bytes)
      for (const part of ["account", "DE00", "business"]) assert.isFalse(bytes.includes(part), part)
      const [claim] = yield* having(
        [second, first],
        Effect.flatMap(SubmissionQueue, (queue) => queue.claim(grant.provider, 1, claimTerms))
      )
      assert.deepStrictEqual(yield* claim!.payload, secret)
    }))

  it.effect("waits for a worker that has its key, and nothing else waits with it", () =>
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

  it.effect("is put under review when no worker with its key comes for long", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity))
      yield* pass("2 hours")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      assert.deepInclude(yield* ledger.show(operation.id), { state: "accepted", under_review: true })
    }))

  it.effect("whose key was replaced under the same name waits for the right one, and is not lost", () =>
    Effect.gen(function*() {
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity, { payload: secret }))
      assert.deepStrictEqual(yield* having([key(first.id, 9)], claimIds(provider)), [])
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* having([first], claimIds(provider)), [operation.id])
    }))

  it.effect("is bound by what it says, not by how it lies there: another key of the process changes no binding", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const request = { key: newKey(), payload: secret }
      const { operation } = yield* having([first], accept(identity, request))
      for (const again of [accept(identity, request), having([second], accept(identity, request))]) {
        assert.deepStrictEqual(yield* again, { operation, created: false })
      }
    }))

  it.effect("is erased with the end of the operation", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* having([first], accept(identity))
      yield* ledger.cancel(operation.id, null)
      assert.isFalse(yield* hasPayload(operation.id))
    }))
})
