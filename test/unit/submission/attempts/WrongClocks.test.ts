/**
 * A worker whose clock differs from the clock of the database by more than five seconds sends nothing and ends no operation, and
 * operators learn why. The tests run a worker over the ledger in memory, whose clock is that of the test.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import * as SubmissionMetrics from "../../../../src/metrics/SubmissionMetrics.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent, SendDeadline, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { parseScrape } from "../../../fixtures/metrics/Scrape.ts"
import { skewedClock } from "../../../fixtures/submission/SkewedClock.ts"
import {
  acknowledged,
  away,
  bank,
  makeWorld,
  neverOpen,
  neverReceived,
  type Script,
  workFor,
  type World
} from "../../../fixtures/submission/World.ts"

/** Long after 1970, so that no clock of the tests is before it. */
const begin = TestClock.setTime(Date.UTC(2026, 0))

const makeSkewed = Effect.fnUntraced(function*(skew: number, script: Script = {}) {
  yield* begin
  const clock = skewedClock(skew)
  const world = yield* makeWorld({ ...script, clock: clock.over })
  return { clock, world }
})

const linesOf = (world: World, start: string) =>
  world.logs.filter(({ message }) => String(message).startsWith(start)).map(({ annotations, level }) =>
    ({ level, ...annotations }) as Record<string, unknown>
  )

const clockLines = (world: World) =>
  world.logs.filter(({ message }) => String(message).startsWith("The clock")).map(({ annotations, level }) => [
    level,
    annotations["clock"]
  ])

/** In steps, so that the worker has done all that is due before the clock moves on. */
const twoMinutes = Effect.repeat(TestClock.adjust("1 second"), { times: 119 })

const reasonOf = (world: World, id: Parameters<World["recordOf"]>[0]) => world.recordOf(id).return_reason

const wrong: ReadonlyArray<readonly [string, number, string]> = [
  ["60 seconds behind", -60_000, "60.0 s behind the clock of the database"],
  ["an hour ahead", 3_600_000, "3600.0 s ahead of the clock of the database"],
  ["5.1 seconds behind", -5100, "5.1 s behind the clock of the database"]
]

describe("A worker whose clock is", () => {
  for (const [name, skew, shown] of wrong) {
    it.effect(`${name} sends nothing, returns its claims, and says why to operators`, () =>
      Effect.gen(function*() {
        const { world } = yield* makeSkewed(skew)
        const ids = yield* world.acceptMany(5)
        yield* world.work
        assert.isEmpty(world.attempts)
        for (const id of ids) {
          assert.strictEqual(yield* world.stateOf(id), "submitting")
          assert.strictEqual(reasonOf(world, id), `the clock of this worker is ${shown}`)
        }
        assert.deepStrictEqual(clockLines(world), [["WARN", shown]])
        const reason = `the clock of this worker is ${shown}`
        assert.deepStrictEqual(linesOf(world, "Paused a provider"), [{ level: "WARN", provider: bank, reason }])
        assert.isEmpty(linesOf(world, "Could not send an operation"), "the line of the pause tells it")
        const { find } = parseScrape(yield* PrometheusMetrics.format())
        assert.deepStrictEqual(find("gateway_clock_skew_seconds").map(({ value }) => value), [skew / 1000])
      }).pipe(Effect.provide(SubmissionMetrics.layer), Effect.provideService(Metric.MetricRegistry, new Map())))
  }

  it.effect("wrong for two minutes claims one operation at a time, and sends all of them once it is right", () =>
    Effect.gen(function*() {
      const { clock, world } = yield* makeSkewed(-60_000)
      const ids = yield* world.acceptMany(50)
      yield* world.start(SubmissionWorker.layer)
      yield* twoMinutes
      assert.isEmpty(world.attempts)
      assert.lengthOf(clockLines(world), 1, "it is logged once")
      clock.skew = 0
      yield* twoMinutes
      assert.sameMembers(world.attempts.map(({ id }) => id), ids)
      for (const id of ids) assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
      assert.lengthOf(world.logs.filter(({ message }) => String(message).startsWith("The clocks of this worker")), 1)
      assert.isEmpty(linesOf(world, "Could not send an operation"))
      const resumed = linesOf(world, "Resumed a provider")
      assert.lengthOf(resumed, 1)
      const claims = Number(resumed[0]!.returned_claims)
      assert.isAbove(claims, 1)
      assert.isAtMost(claims, world.policy.providerConcurrency + 15, "the first claim, and a probe after each pause")
    }))

  it.effect("wrong does not send a claim that it took over either", () =>
    Effect.gen(function*() {
      const { clock, world } = yield* makeSkewed(0, {
        submit: () => Effect.fail(new NotSent({ reason: "no credentials", isLocal: true }))
      })
      const id = yield* world.acceptOne
      yield* world.work
      clock.skew = -60_000
      yield* TestClock.adjust("10 seconds")
      yield* world.work
      assert.lengthOf(world.attempts, 1)
      assert.match(reasonOf(world, id)!, /^the clock of this worker is 60\.0 s behind/)
    }))

  it.effect("set between two attempts makes no second one", () =>
    Effect.gen(function*() {
      for (const set of [-60_000, 20_000]) {
        const { clock, world } = yield* makeSkewed(0, {
          circuit: neverOpen,
          submit: () => {
            clock.skew = set
            return Effect.fail(new NotSent({ reason: "connection refused" }))
          }
        })
        const id = yield* world.acceptOne
        yield* workFor(world, "30 seconds")
        assert.lengthOf(world.attempts, 1)
        assert.strictEqual(yield* world.stateOf(id), "submitting")
        assert.match(reasonOf(world, id)!, /^the clock of this worker was set after the claim/)
      }
    }))

  it.effect("3 seconds wrong sends, with one warning", () =>
    Effect.gen(function*() {
      const { world } = yield* makeSkewed(-3000)
      for (let n = 0; n < 3; n++) {
        yield* world.acceptOne
        yield* world.work
      }
      assert.lengthOf(world.attempts, 3)
      assert.deepStrictEqual(clockLines(world), [["WARN", "3.0 s behind the clock of the database"]])
    }))
})

describe("The deadline that a provider learns", () => {
  it.effect("is by the clock of the database, and that of the process by its own, with any difference", () =>
    Effect.gen(function*() {
      for (const skew of [-4900, 0, 4900]) {
        const deadlines: Array<number | null> = []
        const { world } = yield* makeSkewed(skew, {
          policy: { sendWithin: Duration.seconds(3) },
          submit: () =>
            Effect.flatMap(SendDeadline, (deadline) => {
              deadlines.push(deadline)
              return Effect.succeed(acknowledged)
            })
        })
        const id = yield* world.acceptOne
        const now = yield* world.queue.readClock
        yield* world.work
        assert.deepStrictEqual(world.attempts.map(({ send_before }) => send_before), [
          DateTime.add(now, { seconds: 3 })
        ])
        assert.deepStrictEqual(deadlines, [now.epochMilliseconds + skew + 3000])
        assert.strictEqual(yield* world.stateOf(id), "submitted")
      }
    }))
})

describe("A slow answer of the database", () => {
  it.effect("is not taken for a wrong clock", () =>
    Effect.gen(function*() {
      for (const [before, after] of [["20 seconds", 0], [0, "20 seconds"], ["10 seconds", "10 seconds"]] as const) {
        const { world } = yield* makeSkewed(0, {
          queue: (queue) => ({
            claim: (...args) => Effect.tap(Effect.delay(queue.claim(...args), before), Effect.sleep(after))
          })
        })
        const id = yield* world.acceptOne
        yield* workFor(world, "25 seconds")
        assert.strictEqual(yield* world.stateOf(id), "submitted")
        assert.isEmpty(clockLines(world))
      }
    }))

  it.effect("hides no wrong clock", () =>
    Effect.gen(function*() {
      for (const skew of [-9000, 9000]) {
        const { world } = yield* makeSkewed(skew, {
          queue: (queue) => ({
            claim: (...args) => Effect.tap(Effect.delay(queue.claim(...args), "5 seconds"), Effect.sleep("5 seconds"))
          })
        })
        const id = yield* world.acceptOne
        yield* workFor(world, "25 seconds")
        assert.isEmpty(world.attempts)
        assert.match(reasonOf(world, id)!, /^the clock of this worker is 9\.0 s/)
      }
    }))

  it.effect("to a claim and to the question after it returns the claim, because the clock may be wrong", () =>
    Effect.gen(function*() {
      const { world } = yield* makeSkewed(0, {
        queue: (queue) => ({
          claim: (...args) => Effect.tap(queue.claim(...args), Effect.sleep("8 seconds")),
          readClock: away
        })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, "25 seconds")
      assert.isEmpty(world.attempts)
      assert.isEmpty(clockLines(world))
      assert.match(reasonOf(world, id)!, /^the clock of this worker may differ .* by up to 8\.0 s/)
    }))
})

describe("A status read", () => {
  it.effect("begins by the clock of the database, so that no fast clock makes \"not found\" final", () =>
    Effect.gen(function*() {
      const { clock, world } = yield* makeSkewed(0, {
        submit: () => Effect.fail(new Uncertain({ reason: "the answer was lost" })),
        read: () => Effect.succeed(neverReceived)
      })
      const id = yield* world.acceptOne
      yield* world.work
      yield* TestClock.adjust("2 seconds")
      clock.skew = 3_600_000
      yield* world.reconcile
      assert.lengthOf(world.reads, 1)
      assert.strictEqual((yield* world.ledger.show(id)).state, "indeterminate")
    }))
})
