/**
 * Equal simultaneous questions share one request, but never one that was sent before them. The tests control when each
 * request leaves and ends.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { type DeduplicatedRequest, makeRequestDeduplication } from "../../../src/oauth/IntrospectionLimiter.ts"

/** Requests that leave at once or on a signal. Each is answered with its number. */
const makeScene = () => {
  const share = makeRequestDeduplication<number, string>(Duration.seconds(1))
  const answers: Array<Deferred.Deferred<number, string>> = []
  let leave: Deferred.Deferred<void> | null = null
  const question: DeduplicatedRequest<number, string> = (sent) =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<number, string>()
      answers.push(answer)
      return Effect.andThen(
        leave === null ? sent : Effect.andThen(Deferred.await(leave), sent),
        Deferred.await(answer)
      )
    })
  return {
    asked: () => answers.length,
    ask: (name = "a") => Effect.forkChild(share(name, question), { startImmediately: true }),
    answer: (index: number) => Deferred.succeed(answers[index]!, index),
    fail: (index: number) => Deferred.fail(answers[index]!, "failed"),
    hold: () => leave = Deferred.makeUnsafe<void>()
  }
}

const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

describe("Equal questions at the same time", () => {
  it.effect("that arrive after a request has left wait for its end, and share the next request", () =>
    Effect.gen(function*() {
      const { answer, ask, asked } = makeScene()
      const first = yield* ask()
      yield* settle
      const others = yield* Effect.forEach([1, 2, 3], () => ask())
      yield* settle
      assert.strictEqual(asked(), 1)
      yield* answer(0)
      assert.strictEqual(yield* Fiber.join(first), 0)
      yield* settle
      assert.strictEqual(asked(), 2)
      const late = yield* ask()
      yield* answer(1)
      for (const other of others) assert.strictEqual(yield* Fiber.join(other), 1)
      yield* settle
      assert.strictEqual(asked(), 3)
      yield* answer(2)
      assert.strictEqual(yield* Fiber.join(late), 2)
    }))

  it.effect("wait at most a second for a request that has left, and then share a new one", () =>
    Effect.gen(function*() {
      const { answer, ask, asked } = makeScene()
      const first = yield* ask()
      yield* settle
      const others = yield* Effect.forEach([1, 2, 3], () => ask())
      yield* TestClock.adjust("999 millis")
      assert.strictEqual(asked(), 1)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(asked(), 2)
      yield* answer(0)
      assert.strictEqual(yield* Fiber.join(first), 0)
      // The second is still under way, and later requests wait for it.
      const late = yield* ask()
      yield* settle
      assert.strictEqual(asked(), 2)
      yield* answer(1)
      for (const other of others) assert.strictEqual(yield* Fiber.join(other), 1)
      yield* settle
      yield* answer(2)
      assert.strictEqual(yield* Fiber.join(late), 2)
    }))

  it.effect("fail together, and the next question sends a new request", () =>
    Effect.gen(function*() {
      const { answer, ask, asked, fail, hold } = makeScene()
      const leave = hold()
      const fibers = yield* Effect.forEach([1, 2], () => ask())
      yield* settle
      yield* Deferred.succeed(leave, undefined)
      yield* fail(0)
      for (const fiber of fibers) assert.strictEqual(yield* Effect.flip(Fiber.join(fiber)), "failed")
      const next = yield* ask()
      yield* settle
      assert.strictEqual(asked(), 2)
      yield* answer(1)
      assert.strictEqual(yield* Fiber.join(next), 1)
    }))

  it.effect("that arrive before the request leaves share it, also when the first of them is interrupted", () =>
    Effect.gen(function*() {
      const { answer, ask, asked, hold } = makeScene()
      const leave = hold()
      const first = yield* ask()
      const second = yield* ask()
      yield* settle
      yield* Fiber.interrupt(first)
      yield* Deferred.succeed(leave, undefined)
      yield* answer(0)
      assert.strictEqual(yield* Fiber.join(second), 0)
      assert.strictEqual(asked(), 1)
    }))

  it.effect("are separate when their keys differ", () =>
    Effect.gen(function*() {
      const { answer, ask, asked } = makeScene()
      const one = yield* ask("a")
      const other = yield* ask("b")
      yield* settle
      assert.strictEqual(asked(), 2)
      yield* answer(1)
      assert.strictEqual(yield* Fiber.join(other), 1)
      yield* answer(0)
      assert.strictEqual(yield* Fiber.join(one), 0)
    }))
})
