/**
 * Subscriptions of a connection of version 2025-11-25: a client that reads after each update has the latest state.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { isTerminal } from "../../../src/domain/Operation.ts"
import { AgentReads, ReadRefused } from "../../../src/mcp/AgentReads.ts"
import { maxFollowed } from "../../../src/mcp/FollowedOperations.ts"
import { makeResourceSubscriptions } from "../../../src/mcp/ResourceSubscriptions.ts"
import { AgentModel, idOf } from "../../fixtures/AgentModel.ts"

const uriOf = (number: number) => `operation://${idOf(number)}`

/** Lets the time pass that reads and the pauses between them take. */
const pass = Effect.replicateEffect(TestClock.adjust("1 second"), 12, { discard: true })

/** A connection to a model with some operations, and the URIs that it was told of. */
const connect = Effect.fnUntraced(function*(count: number) {
  const model = new AgentModel(count, [10])
  const updates: Array<unknown> = []
  const { subscribe, unsubscribe } = yield* makeResourceSubscriptions(({ method, params }) =>
    Effect.sync(() => {
      assert.strictEqual(method, "notifications/resources/updated")
      updates.push(params?.["uri"])
    })
  )
  const run = Effect.fnUntraced(function*(method: typeof subscribe, uri: unknown) {
    const fiber = yield* Effect.forkChild(
      Effect.provideService(method({ uri }), AgentReads, model.reads("separate waits"))
    )
    yield* TestClock.adjust("1 second")
    return yield* Effect.exit(Fiber.join(fiber))
  })
  return {
    model,
    updates,
    subscribe: (uri: unknown) => run(subscribe, uri),
    unsubscribe: (uri: unknown) => run(unsubscribe, uri)
  }
})

const codeOf = (exit: Exit.Exit<unknown, { readonly code: number | string }>) =>
  Exit.isFailure(exit) ? exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error.code : null

/** What happens to an operation. Then time passes, or not. */
const action = fc.record({
  kind: fc.constantFrom("step" as const, "subscribe" as const, "unsubscribe" as const),
  number: fc.nat(2),
  choice: fc.nat(9),
  passes: fc.boolean()
})

type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

/** Lets a client read after each update, and compares what it read with the operations in the end. */
const follow = Effect.fnUntraced(function*(actions: ReadonlyArray<Action>) {
  const { model, subscribe, unsubscribe, updates } = yield* connect(3)
  /** What the client read last of the operations that it is subscribed to. */
  const copy = new Map<number, unknown>()
  const readUpdated = () => {
    for (const uri of updates.splice(0)) {
      const updated = [0, 1, 2].find((number) => uriOf(number) === uri)!
      assert.isTrue(copy.has(updated), "not subscribed")
      copy.set(updated, model.current(idOf(updated)))
    }
  }
  for (const { choice, kind, number, passes } of actions) {
    if (kind === "step") yield* model.step(idOf(number), choice)
    else if (kind === "subscribe") {
      assert.isTrue(Exit.isSuccess(yield* subscribe(uriOf(number))))
      copy.set(number, model.current(idOf(number)))
    } else {
      assert.isTrue(Exit.isSuccess(yield* unsubscribe(uriOf(number))))
      readUpdated()
      copy.delete(number)
    }
    if (passes) yield* pass
    readUpdated()
  }
  yield* pass
  readUpdated()
  for (const [number, read] of copy) assert.deepStrictEqual(read, model.current(idOf(number)))
})

describe("resources/subscribe", () => {
  it("tells a client that reads after each update of the last state of each operation, and of no other operation", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(action, { maxLength: 20 }),
        (actions) => Effect.runPromise(Effect.provide(Effect.scoped(follow(actions)), TestClock.layer()))
      ),
      { numRuns: 60 }
    )
  })

  it.effect("watches nothing without subscriptions, after the last operation is final, and after the connection", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const { model, subscribe, unsubscribe, updates } = yield* Scope.provide(connect(2), scope)
      assert.strictEqual(model.waiting, 0)
      yield* subscribe(uriOf(0))
      yield* subscribe(uriOf(1))
      yield* pass
      assert.strictEqual(model.waiting, 2)
      yield* unsubscribe(uriOf(1))
      yield* pass
      assert.strictEqual(model.waiting, 1)
      yield* model.finish(idOf(0))
      yield* pass
      assert.strictEqual(model.waiting, 0)
      assert.isTrue(isTerminal(model.current(idOf(0)).state))
      assert.strictEqual(updates.at(-1), uriOf(0))
      yield* subscribe(uriOf(1))
      yield* pass
      assert.strictEqual(model.waiting, 1, "it watches again")
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(model.waiting, 0)
    }))

  it.effect("updates all operations once when reading is refused for good, and goes on after a failure that passes", () =>
    Effect.scoped(Effect.gen(function*() {
      const { model, subscribe, updates } = yield* connect(2)
      yield* subscribe(uriOf(0))
      yield* subscribe(uriOf(1))
      model.refusal = new ReadRefused({ code: "gateway_unreachable", detail: "The gateway did not answer." })
      model.wake()
      yield* pass
      assert.deepStrictEqual(updates, [])
      model.refusal = null
      yield* model.move(idOf(0), "submitting")
      yield* pass
      assert.deepStrictEqual(updates.splice(0), [uriOf(0)])
      model.refusal = new ReadRefused({ code: "grant_revoked", detail: "The grant is revoked." })
      model.wake()
      yield* pass
      assert.sameMembers(updates, [uriOf(0), uriOf(1)])
      assert.strictEqual(model.waiting, 0)
    })))

  it.effect("tells nothing of an operation that the client left while it did not read", () =>
    Effect.scoped(Effect.gen(function*() {
      const mayRead = Latch.makeUnsafe(false)
      const model = new AgentModel(2)
      const updates: Array<unknown> = []
      const { subscribe, unsubscribe } = yield* makeResourceSubscriptions(({ params }) =>
        Effect.andThen(mayRead.await, Effect.sync(() => void updates.push(params?.["uri"])))
      )
      yield* Effect.gen(function*() {
        yield* subscribe({ uri: uriOf(0) })
        yield* subscribe({ uri: uriOf(1) })
        // Both changes come with one read.
        yield* model.set({ ...model.current(idOf(0)), under_review: true })
        yield* model.set({ ...model.current(idOf(1)), under_review: true })
        yield* pass
        yield* unsubscribe({ uri: uriOf(1) })
        mayRead.openUnsafe()
        yield* pass
      }).pipe(
        Effect.provideService(AgentReads, model.reads("one wait")),
        Effect.forkChild,
        Effect.tap(() => pass),
        Effect.flatMap(Fiber.join)
      )
      assert.deepStrictEqual(updates, [uriOf(0)])
    })))

  it.effect("watches again with the next subscription after a wait ended with a defect", () =>
    Effect.scoped(Effect.gen(function*() {
      const model = new AgentModel(2)
      const updates: Array<unknown> = []
      const reads = model.reads("one wait")
      let waits = 0
      const nextAmong: AgentReads["Service"]["nextAmong"] = (known, seconds) =>
        waits++ === 0 ? Effect.die("defect") : reads.nextAmong(known, seconds)
      const { subscribe } = yield* makeResourceSubscriptions(({ params }) =>
        Effect.sync(() => void updates.push(params?.["uri"]))
      )
      const run = (number: number) =>
        Effect.provideService(subscribe({ uri: uriOf(number) }), AgentReads, { ...reads, nextAmong }).pipe(
          Effect.forkChild,
          Effect.tap(() => pass),
          Effect.flatMap(Fiber.join)
        )
      yield* run(0)
      yield* run(1)
      yield* model.move(idOf(0), "submitting")
      yield* pass
      assert.deepStrictEqual(updates, [uriOf(0)])
    })))

  it.effect("keeps to 16 operations also when subscriptions read at the same time", () =>
    Effect.scoped(Effect.gen(function*() {
      const model = new AgentModel(66, [10])
      const { subscribe } = yield* makeResourceSubscriptions(() => Effect.void)
      const all = Effect.forEach(
        Array.from({ length: 66 }, (_, number) => number),
        (number) => Effect.exit(subscribe({ uri: uriOf(number) })),
        { concurrency: "unbounded" }
      )
      const fiber = yield* Effect.forkChild(Effect.provideService(all, AgentReads, model.reads("one wait")))
      yield* pass
      assert.strictEqual((yield* Fiber.join(fiber)).filter(Exit.isSuccess).length, maxFollowed)
    })))

  it.effect("refuses URIs of no operation, operations that the grant may not read, and more than 16", () =>
    Effect.scoped(Effect.gen(function*() {
      const { model, subscribe, unsubscribe } = yield* connect(66)
      for (const uri of [undefined, 1, "", "operation://", "https://gateway.example", uriOf(1).toUpperCase()]) {
        assert.strictEqual(codeOf(yield* subscribe(uri)), -32602)
        assert.strictEqual(codeOf(yield* unsubscribe(uri)), -32602)
      }
      assert.strictEqual(codeOf(yield* subscribe(uriOf(99))), "operation_not_found")
      for (let n = 0; n < maxFollowed; n++) assert.isTrue(Exit.isSuccess(yield* subscribe(uriOf(n))))
      assert.strictEqual(codeOf(yield* subscribe(uriOf(maxFollowed))), -32602)
      assert.isTrue(Exit.isSuccess(yield* subscribe(uriOf(3))), "again")
      yield* model.finish(idOf(0))
      yield* pass
      assert.isTrue(Exit.isSuccess(yield* subscribe(uriOf(maxFollowed))), "a final operation leaves")
    })))
})
