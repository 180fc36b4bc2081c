/**
 * A worker returns its claim where nothing was sent, and does not return one that it no longer holds. The tests run a worker over the ledger in memory, on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { CircuitBreaker } from "effect/persistence"
import { TestClock } from "effect/testing"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { NotSent, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { away, bank, makeWorld, neverOpen, workFor, type World } from "../../../fixtures/submission/World.ts"

const wrongKey = Effect.fail(new NotSent({ reason: "401: the key is wrong", isLocal: true, isRefused: true }))

describe("A claim is returned", () => {
  const returned = (world: World, id: OperationId, reason: RegExp) =>
    Effect.gen(function*() {
      assert.strictEqual(yield* world.stateOf(id), "submitting")
      assert.match(world.recordOf(id).return_reason ?? "", reason)
    })

  it.effect("when there is no adapter for its provider", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      const other = "another-bank" as typeof bank
      const { grant } = yield* world.issue({ provider: other })
      const [id] = yield* world.acceptMany(1, grant)
      yield* world.inside(world.worker.runOnce(other, 1))
      yield* returned(world, id!, /^there is no adapter for another-bank$/)
    }))

  it.effect("when the circuit of its provider let no attempt through", () =>
    Effect.gen(function*() {
      const circuit = CircuitBreaker.layer({ tripPolicy: CircuitBreaker.consecutive(1), openDuration: "1 hour" })
      const world = yield* makeWorld({
        circuit: Layer.provide(circuit, CircuitBreaker.layerStoreMemory()),
        submit: () => Effect.fail(new Uncertain({ reason: "reset" }))
      })
      yield* world.acceptOne
      yield* world.work
      const id = yield* world.acceptOne
      yield* workFor(world, world.policy.sendWithin)
      yield* returned(world, id, /^the circuit of the provider let nothing through: CircuitOpen$/)
    }))

  it.effect("when the worker is interrupted between two attempts", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        circuit: neverOpen,
        submit: () => Effect.fail(new NotSent({ reason: "connection refused" }))
      })
      const id = yield* world.acceptOne
      const working = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("10 millis")
      yield* Fiber.interrupt(working)
      yield* returned(world, id, /^the worker was stopped before it sent anything$/)
      const line = world.logs.find(({ message }) => String(message).startsWith("Could not send an operation"))
      assert.strictEqual(line?.level, "WARN")
      assert.deepStrictEqual(line?.annotations, {
        provider: bank,
        operation_id: id,
        reason: "the worker was stopped before it sent anything"
      })
    }))

  it.effect("again and again while the database is unavailable, until it has it", () =>
    Effect.gen(function*() {
      let tries = 0
      const world = yield* makeWorld({
        submit: () => wrongKey,
        queue: (queue) => ({
          returnClaim: (...args) => Effect.suspend(() => ++tries < 4 ? away : queue.returnClaim(...args))
        })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, "10 seconds")
      assert.strictEqual(tries, 4)
      yield* returned(world, id, /^401/)
    }))
})
