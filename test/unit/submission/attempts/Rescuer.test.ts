/** The rescuer moves stale claims to `indeterminate`, and never sends. The tests abandon claims on the test's clock. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { Rescuer } from "../../../../src/submission/attempts/Rescuer.ts"
import { away, makeWorld, type World } from "../../../fixtures/submission/World.ts"

/** Claims operations and abandons them, as a worker does that dies. */
const claimAndDie = Effect.fnUntraced(function*(world: World, count: number) {
  const ids = yield* world.acceptMany(count)
  const { idle, rescueAfter, reviewAfter, sendWithin } = world.policy
  const terms = {
    send_within: sendWithin,
    rescue_after: rescueAfter,
    idle,
    review_after: reviewAfter.accepted,
    worker: null
  }
  yield* Effect.orDie(world.queue.claim(world.grant.provider, count, terms))
  return ids
})

it.effect("A process ends approvals in time, and begins reviews of old operations, once a minute and also after a failure", () =>
  Effect.gen(function*() {
    const done = { expireApprovals: 0, reviewAged: 0 }
    const counted = (name: keyof typeof done) => () =>
      Effect.suspend(() => ++done[name] === 1 ? away : Effect.succeed(0))
    const world = yield* makeWorld({
      queue: () => ({ expireApprovals: counted("expireApprovals"), reviewAged: counted("reviewAged") })
    })
    yield* world.start(Rescuer.layer)
    yield* TestClock.adjust("3 minutes")
    assert.deepStrictEqual(done, { expireApprovals: 3, reviewAged: 3 })
  }))

describe("A claim whose holder died", () => {
  it.effect("becomes indeterminate once it is stale, and not a millisecond earlier", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      const [id] = yield* claimAndDie(world, 1)
      yield* TestClock.adjust(Duration.subtract(world.policy.rescueAfter, Duration.millis(1)))
      assert.strictEqual(yield* world.rescue, 0)
      yield* TestClock.adjust("1 milli")
      assert.strictEqual(yield* world.rescue, 1)
      assert.deepStrictEqual(yield* world.historyOf(id!), ["accepted", "submitting", "indeterminate"])
      assert.deepStrictEqual(yield* world.evidenceOf(id!), {
        by: "rescuer",
        reason: "the worker that claimed the operation did not record what became of it"
      })
      assert.strictEqual(yield* world.rescue, 0)
    }))

  it.effect("is found among any number of stale claims", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      yield* claimAndDie(world, 250)
      yield* TestClock.adjust(world.policy.rescueAfter)
      assert.strictEqual(yield* world.rescue, 250)
    }))

  it.effect("is found by polling, also after the store was unavailable", () =>
    Effect.gen(function*() {
      let isAway = true
      const world = yield* makeWorld({
        queue: (queue) => ({ rescue: (limit) => Effect.suspend(() => isAway ? away : queue.rescue(limit)) })
      })
      const [id] = yield* claimAndDie(world, 1)
      yield* world.start(Rescuer.layer)
      yield* TestClock.adjust(Duration.sum(world.policy.rescueAfter, Duration.seconds(10)))
      assert.strictEqual(yield* world.stateOf(id!), "submitting")
      isAway = false
      yield* TestClock.adjust(world.policy.rescueInterval)
      assert.strictEqual(yield* world.stateOf(id!), "indeterminate")
    }))
})
