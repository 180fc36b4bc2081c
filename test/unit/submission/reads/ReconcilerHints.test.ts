/**
 * A hint leads to a status read at once, in this process or in another one, and only the read changes a state. The tests run the
 * reconciler against a scripted provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Metric, Queue, Stream } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import { ProviderName } from "../../../../src/domain/Grant.ts"
import * as SubmissionMetrics from "../../../../src/metrics/SubmissionMetrics.ts"
import { HintSignal } from "../../../../src/services/WorkSignals.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { parseScrape } from "../../../fixtures/metrics/Scrape.ts"
import {
  bank,
  makeWorld,
  reference,
  type Script,
  succeeded,
  until,
  type World
} from "../../../fixtures/submission/World.ts"

/** A submitted operation whose status is read in an hour. Polls come once a day, so that only a wake-up leads to a read. */
const scene = Effect.fnUntraced(function*(script: Script = {}) {
  const world = yield* makeWorld({ ...script, policy: { pollInterval: Duration.days(1), ...script.policy } })
  const id = yield* world.acceptOne
  yield* world.work
  world.memory.operations.set(id, { ...world.recordOf(id), due_at: 3_600_000 })
  return { world, id }
})

/** The reconciler of a process, and the announcements between it and others. */
const start = Effect.fnUntraced(function*(world: World, layer: typeof Reconciler.layer | typeof Reconciler.layerHints) {
  const heard = yield* Queue.unbounded<ProviderName>()
  const announced: Array<ProviderName> = []
  const signal = {
    announce: (provider: ProviderName) => Effect.sync(() => void announced.push(provider)),
    announced: Stream.fromQueue(heard)
  }
  const context = yield* world.inside(Layer.build(layer)).pipe(Effect.provideService(HintSignal, signal))
  yield* TestClock.adjust("1 milli")
  const reconciler = Context.get(context, Reconciler)
  return { ...reconciler, announced, hear: (provider: ProviderName) => Queue.offer(heard, provider) }
})

describe("A hint", () => {
  for (const about of ["operation_id", "reference"] as const) {
    it.effect(`by ${about} leads to a status read at once, which settles the operation`, () =>
      Effect.gen(function*() {
        const { id, world } = yield* scene({ read: () => Effect.succeed(succeeded) })
        const { announced, hint } = yield* start(world, Reconciler.layer)
        assert.isEmpty(world.reads)
        assert.isTrue(yield* hint(bank, about === "reference" ? { reference } : { operation_id: id }))
        yield* until(() => world.recordOf(id).operation.state === "succeeded")
        assert.lengthOf(world.reads, 1)
        assert.deepInclude(yield* world.evidenceOf(id), { by: "status_read" })
        assert.isEmpty(announced, "the poller of this process is awake")
      }))
  }

  it.effect("changes no state if the read proves nothing, and leads to one read an interval", () =>
    Effect.gen(function*() {
      const { id, world } = yield* scene({
        policy: {
          pollInterval: Duration.seconds(1),
          readSchedule: { ...defaultPolicy.readSchedule, first: Duration.hours(1) }
        }
      })
      const { hint } = yield* start(world, Reconciler.layer)
      for (let second = 0; second < 60; second++) {
        for (let n = 0; n < 20; n++) yield* hint(bank, { operation_id: id })
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
      assert.isAtMost(world.reads.length, 13)
      assert.isAtLeast(world.reads.length, 6)
    }))

  it.effect("in a process without workers wakes the reconcilers of others, and reads nothing itself", () =>
    Effect.gen(function*() {
      const { id, world } = yield* scene({ read: () => Effect.succeed(succeeded) })
      const here = yield* start(world, Reconciler.layerHints)
      const there = yield* start(world, Reconciler.layer)
      assert.strictEqual(yield* here.runOnce(bank, 10), 0)
      assert.isTrue(yield* here.hint(bank, { operation_id: id }))
      assert.deepStrictEqual(here.announced, [bank])
      assert.isEmpty(world.reads)
      yield* there.hear(ProviderName.make("unknown-bank"))
      yield* there.hear(bank)
      yield* until(() => world.recordOf(id).operation.state === "succeeded")
      // It is settled: there is nothing to announce.
      assert.isFalse(yield* here.hint(bank, { operation_id: id }))
      assert.lengthOf(here.announced, 1)
    }))

  it.effect("leads to a read soon, though the limit of the provider had no permit for the first one", () =>
    Effect.gen(function*() {
      let isTaken = false
      const { id, world } = yield* scene({
        policy: { pollInterval: Duration.seconds(1) },
        limit: { requests: 50, interval: "1 second" },
        read: () => Effect.succeed(succeeded),
        queue: (queue) => ({
          // Other processes reserve all permits that are open.
          reservePermits: (provider, demand, terms) =>
            isTaken
              ? Effect.succeed({ submissions: { permits: [], again: 60_000 }, reads: { permits: [], again: 60_000 } })
              : queue.reservePermits(provider, demand, terms)
        })
      })
      // The next read by the schedule would be in an hour.
      world.memory.operations.set(id, { ...world.recordOf(id), reads: 40 })
      isTaken = true
      const { hint } = yield* start(world, Reconciler.layer)
      assert.isTrue(yield* hint(bank, { operation_id: id }))
      yield* until(() => world.recordOf(id).reading_since !== null)
      yield* until(() => world.recordOf(id).reading_since === null)
      assert.isEmpty(world.reads)
      isTaken = false
      for (let second = 0; second < 5; second++) yield* TestClock.adjust("1 second")
      assert.lengthOf(world.reads, 1)
    }))

  it.effect("with text that no operation can have reaches no statement", () =>
    Effect.gen(function*() {
      let statements = 0
      const { world } = yield* scene({
        queue: (queue) => ({ hint: (...args) => (statements++, queue.hint(...args)) })
      })
      const { hint } = yield* start(world, Reconciler.layer)
      for (const text of ["", "\0", "x".repeat(1025), "\ud800"]) assert.isFalse(yield* hint(bank, { reference: text }))
      for (const text of ["", "1", "' OR true --", "019AA4F0-5C00-7B1E-8D2F-3A4B5C6D7E8F"]) {
        assert.isFalse(yield* hint(bank, { operation_id: text }))
      }
      assert.strictEqual(statements, 0)
      assert.isFalse(yield* hint(bank, { reference: "another" }))
      assert.strictEqual(statements, 1)
    }))

  it.effect("fails after storeTimeout if the database does not answer", () =>
    Effect.gen(function*() {
      const { id, world } = yield* scene({ queue: () => ({ hint: () => Effect.never }) })
      const { hint } = yield* start(world, Reconciler.layer)
      const hinted = yield* Effect.forkChild(Effect.flip(hint(bank, { operation_id: id })))
      yield* TestClock.adjust(world.policy.storeTimeout)
      assert.strictEqual((yield* Fiber.join(hinted))._tag, "StoreUnavailable")
    }))

  it.effect("is counted as taken or ignored, also in a process without workers", () =>
    Effect.gen(function*() {
      const { id, world } = yield* scene()
      const { hint } = yield* start(world, Reconciler.layerHints)
      yield* hint(bank, { operation_id: id })
      yield* hint(bank, { operation_id: id })
      yield* hint(bank, { operation_id: "unknown" })
      const { total } = parseScrape(yield* PrometheusMetrics.format())
      assert.strictEqual(total("gateway_hints_total", { provider: "bank", result: "taken" }), 1)
      assert.strictEqual(total("gateway_hints_total", { provider: "bank", result: "ignored" }), 2)
    }).pipe(
      Effect.provide(SubmissionMetrics.layer),
      Effect.provideService(Metric.MetricRegistry, new Map())
    ))
})
