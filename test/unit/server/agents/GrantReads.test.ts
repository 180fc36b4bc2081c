/**
 * The read of an agent that waits for the next form of an operation ends with a change of that operation, and with nothing else.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { CurrentGrant } from "../../../../src/api/Middleware.ts"
import { RequestId } from "../../../../src/domain/RequestId.ts"
import { makeGrantReads } from "../../../../src/server/agents/GrantReads.ts"
import { CurrentSlot } from "../../../../src/server/gate/Admission.ts"
import { BaseUrl } from "../../../../src/server/gate/BaseUrl.ts"
import { Lifecycle } from "../../../../src/server/gate/Lifecycle.ts"
import { Problems } from "../../../../src/server/gate/ProblemResponses.ts"
import { CurrentRequest } from "../../../../src/server/gate/RequestContext.ts"
import { ChangeWatcher } from "../../../../src/server/waits/ChangeWatcher.ts"
import { topicOfOperation, type Waiter } from "../../../../src/server/waits/Waiters.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { emptyFeed, fixedIdentity, operationWith, storeOf } from "../../../fixtures/http/HttpFixed.ts"
import { baseUrl } from "../../../fixtures/http/HttpProblem.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

/** An operation that a test changes, a watcher that the test controls, and a wait for the next form, in a slot as the gate gives it. */
const startWait = Effect.gen(function*() {
  const known = operationWith()
  const scene = { current: known, waiters: [] as Array<Waiter> }
  const change = () => {
    scene.current = { ...known, revision: known.revision + 1, state: "submitting", submission_uncertain: true }
  }
  const store = storeOf({
    find: () => Effect.sync(() => scene.current),
    list: () => Effect.die("not used")
  })
  const watcher = ChangeWatcher.of({
    during: (waiter, effect) =>
      Effect.suspend(() => {
        scene.waiters.push(waiter)
        return effect
      }),
    isWatching: () => false,
    count: () => scene.waiters.length
  })
  const layer = Layer.mergeAll(
    Layer.succeed(OperationStore, store),
    Layer.succeed(ChangeWatcher, watcher),
    Lifecycle.layer(),
    Problems.layer.pipe(Layer.provide(BaseUrl.layer(baseUrl))),
    emptyFeed,
    Platform
  )
  const waiting = Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    const grantReads = yield* makeGrantReads
    return yield* Effect.withFiber((fiber) =>
      grantReads.pipe(
        Effect.flatMap(({ reads }) => reads.next(known, 50)),
        Effect.provideService(CurrentGrant, fixedIdentity),
        Effect.provideService(CurrentSlot, lifecycle.admit(fiber))
      )
    )
  })
  const fiber = yield* Effect.forkChild(Effect.provide(waiting, layer))
  yield* TestClock.adjust(0)
  return { scene, known, change, fiber }
})

describe("The wait of an agent for the next form of an operation", () => {
  it.effect("ends with a change, and neither with the known form nor with a wake-up without news", () =>
    Effect.gen(function*() {
      const { change, fiber, known, scene } = yield* startWait
      const [waiter] = scene.waiters
      assert.strictEqual(waiter!.topic, topicOfOperation(known.id))
      assert.isFalse(waiter!.concerns!(known))
      waiter!.wake()
      yield* TestClock.adjust(0)
      assert.isUndefined(fiber.pollUnsafe())
      change()
      assert.isTrue(waiter!.concerns!(scene.current))
      waiter!.wake()
      assert.deepStrictEqual(yield* Fiber.join(fiber), scene.current)
    }))
})

describe("A read of an agent", () => {
  const broken = operationWith({ revision: 0 })
  const store = storeOf({
    find: () => Effect.succeed(broken),
    list: () => Effect.succeed({ operations: [operationWith(), broken], next: null })
  })
  const services = Layer.mergeAll(
    Layer.succeed(OperationStore, store),
    Lifecycle.layer(),
    Problems.layer.pipe(Layer.provide(BaseUrl.layer(baseUrl))),
    emptyFeed,
    Platform
  )

  it.effect("fails for an operation that breaks the contract, by its id and in a list", () =>
    Effect.gen(function*() {
      const { reads } = yield* Effect.flatten(makeGrantReads)
      for (const read of [Effect.asVoid(reads.get(broken.id)), Effect.asVoid(reads.list({}))]) {
        assert.strictEqual((yield* Effect.flip(read)).code, "response_contract_failed")
      }
    }).pipe(
      Effect.provideService(CurrentGrant, fixedIdentity),
      Effect.provideService(CurrentRequest, { id: RequestId.make("agent-read-1"), path: "/mcp", scheme: "Bearer" }),
      Effect.provide(Layer.provideMerge(ChangeWatcher.layer, services))
    ))
})
