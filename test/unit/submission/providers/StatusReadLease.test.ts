/**
 * The lease of a status read lasts until its end is recorded, however slow the database is. The tests use the ledger in memory and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { ProviderLimit } from "../../../../src/domain/ProviderLimit.ts"
import { StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { makeWorld, reference } from "../../../fixtures/submission/World.ts"

describe("the lease of a status read", () => {
  const slowly: ProviderLimit = { requests: 100, interval: "1 minute", burst: 40, slack: "30 seconds" }
  for (const [name, limit] of [["without a limit", {}], ["with a limit", { limit: slowly }]] as const) {
    it.effect(`lasts until its end is recorded, ${name}, though statements take half of storeTimeout`, () =>
      Effect.gen(function*() {
        let isSlow = false
        let reservations = 0
        const slowed = <A, E>(effect: Effect.Effect<A, E>) =>
          Effect.suspend(() => isSlow ? Effect.tap(effect, () => Effect.sleep(2400)) : effect)
        const none = { permits: [], again: 50 }
        const world = yield* makeWorld({
          ...limit,
          read: () =>
            Effect.delay(
              Effect.succeed(
                StatusAnswer.Proven({ state: "succeeded", names: { reference, operation_id: null }, evidence: {} })
              ),
              14_900
            ),
          queue: (inner) => ({
            takeReads: (...args) => slowed(inner.takeReads(...args)),
            // The first statement finds no permit.
            reservePermits: (...args) =>
              slowed(
                isSlow && ++reservations === 1
                  ? Effect.succeed({ submissions: none, reads: none })
                  : inner.reservePermits(...args)
              ),
            // Another transaction has locked the rows.
            recordAll: (records) => slowed(Effect.succeed(records.map(() => false))),
            record: (...args) => Effect.suspend(() => Effect.delay(inner.record(...args), isSlow ? 2400 : 0))
          })
        })
        const ids = yield* world.acceptMany(4)
        const sent = yield* Effect.forkChild(world.work)
        for (let second = 0; second < 30; second++) yield* TestClock.adjust("1 second")
        yield* Fiber.join(sent)
        isSlow = true
        for (let second = 0; second < 60; second++) {
          yield* Effect.forkChild(world.reconcile)
          yield* TestClock.adjust("1 second")
        }
        for (const id of ids) assert.strictEqual(yield* world.stateOf(id), "succeeded")
        assert.sameMembers(world.reads.map(({ id }) => id), ids)
      }))
  }
})
