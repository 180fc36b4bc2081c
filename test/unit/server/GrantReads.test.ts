/**
 * The reads of an agent that wait among several operations look at all of them again, unless a change told which one to read.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import { CurrentGrant } from "../../../src/api/Middleware.ts"
import type { Operation, OperationId } from "../../../src/domain/Operation.ts"
import { CurrentSlot } from "../../../src/server/Admission.ts"
import { BaseUrl } from "../../../src/server/BaseUrl.ts"
import { ChangeWatcher } from "../../../src/server/ChangeWatcher.ts"
import { makeGrantReads } from "../../../src/server/GrantReads.ts"
import { Lifecycle } from "../../../src/server/Lifecycle.ts"
import { Problems } from "../../../src/server/ProblemResponses.ts"
import type { Waiter } from "../../../src/server/Waiters.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { idOf } from "../../fixtures/AgentModel.ts"
import { emptyFeed, fixedIdentity, operationWith, storeOf } from "../../fixtures/HttpFixed.ts"
import { baseUrl } from "../../fixtures/HttpProblem.ts"
import { Platform } from "../../fixtures/TestDatabase.ts"

/** Operations that a test changes, and a watcher that the test controls. */
const makeScene = (count: number) => {
  const operations = Array.from({ length: count }, (_, number) => operationWith({ id: idOf(number) }))
  const reads: Array<OperationId> = []
  const waiters: Array<Waiter> = []
  const scene = {
    operations,
    reads,
    waiters,
    /** Runs when the watcher starts, which takes a statement. */
    onStart: () => {},
    change: (number: number): Operation => {
      const { revision } = operations[number]!
      operations[number] = { ...operations[number]!, revision: revision + 1, state: "submitting" }
      return operations[number]
    }
  }
  const store = storeOf({
    find: (_, id) =>
      Effect.sync(() => {
        reads.push(id)
        return operations.find((operation) => operation.id === id)!
      }),
    list: () => Effect.die("not used")
  })
  const watcher = ChangeWatcher.of({
    during: (waiter, effect) =>
      Effect.suspend(() => {
        waiters.push(waiter)
        scene.onStart()
        return effect
      }),
    isWatching: () => false,
    count: () => waiters.length
  })
  const layer = Layer.mergeAll(
    Layer.succeed(OperationStore, store),
    Layer.succeed(ChangeWatcher, watcher),
    Lifecycle.layer(),
    Problems.layer.pipe(Layer.provide(BaseUrl.layer(baseUrl))),
    emptyFeed,
    Platform
  )
  return { scene, layer }
}

/** Starts a wait for changes of all operations, in a slot as the gate gives it. */
const startWait = (scene: ReturnType<typeof makeScene>["scene"]) =>
  Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    const grantReads = yield* makeGrantReads
    const waiting = Effect.withFiber((fiber) =>
      grantReads.pipe(
        Effect.flatMap(({ reads }) => reads.nextAmong([...scene.operations], 50)),
        Effect.provideService(CurrentGrant, fixedIdentity),
        Effect.provideService(CurrentSlot, lifecycle.admit(fiber))
      )
    )
    const fiber = yield* Effect.forkChild(waiting)
    yield* TestClock.adjust(0)
    return {
      /** The numbers of the operations that the wait returned; null while it waits. */
      found: Effect.gen(function*() {
        yield* TestClock.adjust(0)
        const exit = fiber.pollUnsafe()
        return exit === undefined ? null : Exit.isSuccess(exit) ? exit.value.map(({ id }) => id) : exit
      })
    }
  })

describe("a wait among several operations", () => {
  it.effect("finds a change of each operation that commits between its first read and the start of the watcher", () =>
    Effect.gen(function*() {
      for (const number of [0, 1, 2]) {
        const { layer, scene } = makeScene(3)
        scene.onStart = () => void scene.change(number)
        const { found } = yield* Effect.provide(startWait(scene), layer)
        assert.deepStrictEqual(yield* found, [idOf(number)])
      }
    }))

  it.effect("finds a change of each operation that the watcher missed, when it wakes all requests", () =>
    Effect.gen(function*() {
      for (const number of [0, 1, 2]) {
        const { layer, scene } = makeScene(3)
        const { found } = yield* Effect.provide(startWait(scene), layer)
        assert.isNull(yield* found)
        scene.change(number)
        scene.waiters[0]!.wake()
        assert.deepStrictEqual(yield* found, [idOf(number)])
      }
    }))

  it.effect("reads only the operation that a change names", () =>
    Effect.gen(function*() {
      const { layer, scene } = makeScene(3)
      const { found } = yield* Effect.provide(startWait(scene), layer)
      assert.isNull(yield* found)
      scene.reads.length = 0
      const changed = scene.change(1)
      assert.isTrue(scene.waiters[0]!.concerns!(changed))
      scene.waiters[0]!.wake()
      assert.deepStrictEqual(yield* found, [idOf(1)])
      assert.deepStrictEqual(scene.reads, [idOf(1)])
    }))
})
