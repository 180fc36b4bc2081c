/** The work of a worker is counted by how it ended, against a scripted provider on the test's clock. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import { Distribution } from "../../../src/metrics/Series.ts"
import * as SubmissionMetrics from "../../../src/metrics/SubmissionMetrics.ts"
import { SubmissionWorker } from "../../../src/submission/attempts/SubmissionWorker.ts"
import { layerCircuitBreaker } from "../../../src/submission/providers/Circuit.ts"
import {
  namesNothing,
  NotSent,
  StatusAnswer,
  SubmissionAnswer as Answer,
  Uncertain
} from "../../../src/submission/providers/ProviderAdapter.ts"
import { parseScrape } from "../../fixtures/metrics/Scrape.ts"
import { acknowledged, makeWorld, type Script, unclear, unreachable, workFor } from "../../fixtures/submission/World.ts"

const read = Effect.map(PrometheusMetrics.format(), parseScrape)

const counting = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  test.pipe(
    Effect.provide(SubmissionMetrics.layer),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )

const named = { names: namesNothing, evidence: null }
const uncertain = Effect.fail(new Uncertain({ reason: "the connection was reset" }))

const ends: ReadonlyArray<readonly [outcome: string, submit: NonNullable<Script["submit"]>, returned: number]> = [
  ["submitted", () => Effect.succeed(acknowledged), 0],
  ["succeeded", () => Effect.succeed(Answer.Succeeded(named)), 0],
  ["failed", () => Effect.succeed(Answer.Rejected({ code: "no", ...named })), 0],
  ["indeterminate", () => uncertain, 0],
  ["not_sent", () => Effect.fail(new NotSent({ reason: "no credentials", isLocal: true })), 1],
  ["not_sent", () => Effect.fail(new NotSent({ reason: "it cannot be encoded", isPermanent: true })), 0]
]

it("A value on a bound of a histogram counts in its bucket", () => {
  const distribution = new Distribution([1, 2])
  for (const value of [0.5, 1, 1.5, 2, 3]) distribution.record(value)
  assert.deepStrictEqual(distribution.state().buckets, [[1, 2], [2, 4]])
})

describe("The metrics of submissions", () => {
  it.effect.each(ends)(
    "count a claim, and a submission that ended as %s",
    ([outcome, submit, returned]) =>
      counting(Effect.gen(function*() {
        const world = yield* makeWorld({ submit })
        yield* world.acceptOne
        yield* workFor(world, "1 minute")
        const { find, total } = yield* read
        assert.strictEqual(total("gateway_claims_total", { provider: "bank" }), 1)
        assert.strictEqual(total("gateway_sends_total", { provider: "bank", outcome }), 1)
        assert.lengthOf(find("gateway_sends_total"), 5, "the other outcomes are there, with 0")
        assert.strictEqual(total("gateway_sends_total"), 1)
        assert.strictEqual(total("gateway_claims_returned_total"), returned)
        assert.strictEqual(total("gateway_send_duration_seconds_count"), 1)
      }))
  )

  it.effect.each<readonly [string, StatusAnswer]>([
    ["unreachable", unreachable],
    ["not_proven", unclear],
    ["proven", StatusAnswer.Proven({ state: "succeeded", ...named })]
  ])("count a status read as %s", ([outcome, answer]) =>
    counting(Effect.gen(function*() {
      const world = yield* makeWorld({ read: () => Effect.succeed(answer) })
      yield* world.acceptOne
      yield* world.work
      yield* TestClock.adjust("1 day")
      assert.strictEqual(yield* world.reconcile, 1)
      const { total } = yield* read
      assert.strictEqual(total("gateway_status_reads_total", { provider: "bank", outcome }), 1)
      assert.strictEqual(total("gateway_status_reads_total"), 1)
    })))

  it.effect("count the claims that the rescuer moved", () =>
    counting(Effect.gen(function*() {
      const world = yield* makeWorld()
      yield* world.acceptMany(3)
      yield* world.queue.claim(world.grant.provider, 3, {
        send_within: Duration.seconds(1),
        rescue_after: Duration.seconds(2),
        idle: Duration.days(1),
        review_after: Duration.days(1),
        worker: null
      })
      yield* TestClock.adjust("1 hour")
      yield* world.rescue
      assert.strictEqual((yield* read).total("gateway_rescues_total"), 3)
    })))

  const causes = ["circuit", "local_failure", "undeclared_answers"] as const
  const failures = {
    circuit: uncertain,
    local_failure: Effect.fail(new NotSent({ reason: "401", isLocal: true })),
    undeclared_answers: Effect.fail(new Uncertain({ reason: "404", isUndeclared: true }))
  }
  for (const cause of causes) {
    it.effect(`show that a provider is paused, with the cause ${cause}`, () =>
      counting(Effect.gen(function*() {
        const paused = Effect.map(
          read,
          ({ total }) => causes.filter((cause) => total("gateway_provider_paused", { provider: "bank", cause }) === 1)
        )
        const world = yield* makeWorld({ submit: () => failures[cause], circuit: layerCircuitBreaker })
        yield* world.start(SubmissionWorker.layer)
        assert.deepStrictEqual(yield* paused, [])
        yield* world.acceptMany(5)
        yield* TestClock.adjust("500 millis")
        assert.deepStrictEqual(yield* paused, [cause])
      })))
  }
})
