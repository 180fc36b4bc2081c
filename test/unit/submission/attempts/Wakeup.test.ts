/**
 * An announced acceptance is submitted at once, any other within the poll interval.
 * The tests run the worker on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Queue, Stream } from "effect"
import { TestClock } from "effect/testing"
import { ProviderName } from "../../../../src/domain/Grant.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { bank, makeWorld, until } from "../../../fixtures/submission/World.ts"

const other = ProviderName.make("another-bank")

/** A worker that has polled once, and the queue of its announcements. */
const waiting = Effect.gen(function*() {
  const announcements = yield* Queue.unbounded<ProviderName>()
  const claimed: Array<ProviderName> = []
  const world = yield* makeWorld({
    signal: { announced: Stream.fromQueue(announcements) },
    providers: [other],
    queue: (queue) => ({
      claim: (provider, ...args) => {
        claimed.push(provider)
        return queue.claim(provider, ...args)
      }
    })
  })
  yield* world.start(SubmissionWorker.layer)
  yield* TestClock.adjust("1 milli")
  claimed.length = 0
  return { announcements, claimed, world }
})

describe("An acceptance", () => {
  it.effect("that is announced is submitted at once, and wakes only the poller of its provider", () =>
    Effect.gen(function*() {
      const { announcements, claimed, world } = yield* waiting
      const id = yield* world.acceptOne
      yield* Queue.offer(announcements, bank)
      yield* until(() => world.recordOf(id).operation.state === "submitted")
      assert.deepStrictEqual([...new Set(claimed)], [bank])
    }))

  it.effect("that is not announced is submitted within the poll interval", () =>
    Effect.gen(function*() {
      const { world } = yield* waiting
      const id = yield* world.acceptOne
      yield* TestClock.adjust(Duration.times(world.policy.pollInterval, 0.45))
      assert.strictEqual(yield* world.stateOf(id), "accepted")
      yield* TestClock.adjust(world.policy.pollInterval)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  it.effect("that is announced for an unknown provider has no effect on a worker", () =>
    Effect.gen(function*() {
      const { announcements, claimed, world } = yield* waiting
      const id = yield* world.acceptOne
      yield* Queue.offer(announcements, ProviderName.make("unknown-bank"))
      yield* Queue.offer(announcements, other)
      yield* until(() => claimed.length > 0)
      assert.deepStrictEqual(claimed, [other])
      assert.strictEqual(yield* world.stateOf(id), "accepted")
    }))
})

describe("An acceptance for a provider without an adapter", () => {
  it.effect("is logged once for each name, with the names that have adapters", () =>
    Effect.gen(function*() {
      const { announcements, claimed, world } = yield* waiting
      const unknown = ["unknown-bank", "bnak"].map((name) => ProviderName.make(name))
      yield* Queue.offerAll(announcements, [...unknown, ...unknown, other])
      yield* until(() => claimed.length > 0)
      const lines = world.logs.filter(({ message }) => String(message).startsWith("Accepted operations of a provider"))
      assert.deepStrictEqual(
        lines.map(({ annotations, level }) => [level, annotations]),
        unknown.map((provider) => ["WARN", { provider, adapters: [bank, other] }])
      )
    }))
})
