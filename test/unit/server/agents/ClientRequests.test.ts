/**
 * A call that asks its client holds no slot and has an end. The tests use the requests of a process on the test clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { ClientId, GrantId, PairwiseSubject } from "../../../../src/domain/Grant.ts"
import { longestAnswer } from "../../../../src/mcp/HumanConfirmation.ts"
import type { JsonRpcMessage } from "../../../../src/mcp/JsonRpc.ts"
import { makeClientRequests } from "../../../../src/server/agents/ClientRequests.ts"
import { Lifecycle } from "../../../../src/server/gate/Lifecycle.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const grant = {
  grant_id: GrantId.make("00000000-0000-4000-8000-000000000001"),
  client_id: ClientId.make("client"),
  subject: PairwiseSubject.make("subject")
}

const question = { jsonrpc: "2.0", id: 1, method: "elicitation/create", params: {} } as const

const withLimits = (options: Parameters<typeof Lifecycle.layer>[0]) => Layer.merge(Lifecycle.layer(options), Platform)

/** A running call, what it sent to its client, and what it received. */
const startCall = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const fiber = yield* Effect.forkScoped(Effect.never)
  const sent: Array<JsonRpcMessage> = []
  const received: Array<JsonRpcMessage> = []
  const call = {
    grant,
    slot: lifecycle.admit(fiber)!,
    id: 7,
    send: (message: JsonRpcMessage) => Effect.sync(() => void sent.push(message)),
    receive: (message: JsonRpcMessage) => Effect.sync(() => void received.push(message))
  }
  return { call, fiber, received, sent, idSent: () => (sent[0] as { readonly id: string }).id }
})

describe("A call that asks its client", () => {
  it.effect("frees its slot and outlives the deadline while it waits, and has both again after the answer", () =>
    Effect.gen(function*() {
      const lifecycle = yield* Lifecycle
      const requests = yield* makeClientRequests
      const { call, fiber, idSent, received } = yield* startCall
      yield* requests.ask(call, question, true, yield* Effect.scope)
      const other = lifecycle.admit(fiber)
      assert.isNotNull(other, "the only slot is free")
      lifecycle.leave(other!)
      yield* TestClock.adjust("1 minute")
      assert.isUndefined(fiber.pollUnsafe())
      const result = { action: "decline" }
      assert.isTrue(yield* requests.answer(grant, { jsonrpc: "2.0", id: idSent(), result }))
      assert.deepStrictEqual(received, [{ jsonrpc: "2.0", id: 1, result }])
      assert.isNull(lifecycle.admit(fiber))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.await(fiber))._tag, "Failure")
    }).pipe(Effect.provide(withLimits({ maxInFlight: 1 }))))

  it.effect("gets an error after five minutes, tells the client, and takes no later answer", () =>
    Effect.gen(function*() {
      const requests = yield* makeClientRequests
      const { call, idSent, received, sent } = yield* startCall
      yield* requests.ask(call, question, true, yield* Effect.scope)
      yield* TestClock.adjust(`${longestAnswer - 1} seconds`)
      assert.lengthOf(received, 0)
      yield* TestClock.adjust("1 second")
      assert.nestedPropertyVal(received[0], "error.message", "No answer came in time")
      assert.nestedPropertyVal(sent[1], "params.requestId", idSent())
      assert.isFalse(yield* requests.answer(grant, { jsonrpc: "2.0", id: idSent(), result: {} }))
      assert.lengthOf(received, 1)
    }).pipe(Effect.provide(withLimits({}))))

  it.effect("gets an error at once if too many calls wait, or the client reads no events", () =>
    Effect.gen(function*() {
      const requests = yield* makeClientRequests
      const first = yield* startCall
      yield* requests.ask(first.call, question, true, yield* Effect.scope)
      for (const takesEvents of [true, false]) {
        const { call, received, sent } = yield* startCall
        yield* requests.ask(call, question, takesEvents, yield* Effect.scope)
        assert.deepStrictEqual([sent.length, received.length], [0, 1])
        assert.nestedPropertyVal(received[0], "error.message", "The gateway does not let the call wait")
      }
    }).pipe(Effect.provide(withLimits({ maxWaiting: 1 }))))

  it.effect("takes no answer once it ended, from another grant, or under the id of the server", () =>
    Effect.gen(function*() {
      const requests = yield* makeClientRequests
      const { call, idSent, received } = yield* startCall
      yield* requests.ask(call, question, true, yield* Effect.scope)
      const answer = { jsonrpc: "2.0", id: idSent(), result: { action: "accept" } } as const
      const others = [
        { ...grant, subject: PairwiseSubject.make("other") },
        { ...grant, client_id: ClientId.make("other") },
        { ...grant, grant_id: GrantId.make("00000000-0000-4000-8000-000000000002") }
      ]
      for (const other of others) assert.isFalse(yield* requests.answer(other, answer))
      assert.isFalse(yield* requests.answer(grant, { ...answer, id: 1 }))
      requests.end(call)
      assert.isFalse(yield* requests.answer(grant, answer))
      assert.lengthOf(received, 0)
    }).pipe(Effect.provide(withLimits({}))))

  it.effect("ends with the shutdown", () =>
    Effect.gen(function*() {
      const lifecycle = yield* Lifecycle
      const requests = yield* makeClientRequests
      const { call, received } = yield* startCall
      yield* requests.ask(call, question, true, yield* Effect.scope)
      const drained = yield* Effect.forkScoped(lifecycle.drain)
      yield* TestClock.adjust("1 second")
      assert.nestedPropertyVal(received[0], "error.message", "The gateway is shutting down")
      lifecycle.leave(call.slot)
      yield* Fiber.join(drained)
    }).pipe(Effect.provide(withLimits({}))))

  it.effect("is cancelled by a notification of its own grant alone", () =>
    Effect.gen(function*() {
      const requests = yield* makeClientRequests
      const { call, received } = yield* startCall
      yield* requests.ask(call, question, true, yield* Effect.scope)
      const cancelled = (requestId: number) =>
        ({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } }) as const
      yield* requests.cancel({ ...grant, subject: PairwiseSubject.make("other") }, cancelled(7))
      yield* requests.cancel(grant, cancelled(8))
      assert.lengthOf(received, 0)
      yield* requests.cancel(grant, cancelled(7))
      assert.deepStrictEqual(received, [cancelled(7)])
    }).pipe(Effect.provide(withLimits({}))))

  it.effect("is not cancelled by a notification that names several calls", () =>
    Effect.gen(function*() {
      const requests = yield* makeClientRequests
      const [first, second] = [yield* startCall, yield* startCall]
      for (const { call } of [first, second]) yield* requests.ask(call, question, true, yield* Effect.scope)
      const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } } as const
      yield* requests.cancel(grant, cancelled)
      assert.deepStrictEqual([first.received, second.received], [[], []])
      requests.end(first.call)
      yield* requests.cancel(grant, cancelled)
      assert.deepStrictEqual([first.received, second.received], [[], [cancelled]])
    }).pipe(Effect.provide(withLimits({}))))
})
