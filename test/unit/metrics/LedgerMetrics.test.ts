/** Figures of the ledger: one read for all scrapers, none while the last one is recent, and no old values without a database. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Fiber, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import type { ProviderName } from "../../../src/domain/Grant.ts"
import type { LedgerFiguresNow } from "../../../src/domain/operators/FiguresForm.ts"
import * as LedgerMetrics from "../../../src/metrics/LedgerMetrics.ts"
import { parseScrape } from "../../fixtures/metrics/Scrape.ts"

const bank = (name: string) => name as ProviderName
const at = DateTime.makeUnsafe("2026-01-31T12:00:00Z")
const ago = (seconds: number) => DateTime.subtract(at, { seconds })

const worker = (seconds: number) => ({
  process_id: crypto.randomUUID(),
  worker_id: null,
  version: "1",
  started_at: ago(100),
  seen_at: ago(seconds),
  pauses: {},
  clock_skew_ms: 0
})

const figures = (provider: string): LedgerFiguresNow => ({
  at,
  operations: [{ provider: bank(provider), state: "accepted", count: 7 }],
  held: [{ provider: bank(provider), count: 2 }],
  under_review: [],
  unauthorized: [],
  keyless: [],
  unread: [],
  reversed: [],
  approval: [],
  oldest: [{ provider: bank(provider), condition: "accepted", since: ago(90) }],
  due: [{ provider: bank(provider), work: "claim", count: 5, since: ago(12.5) }],
  workers: [worker(29), worker(31)]
})

/** Runs a test with a ledger that answers as `now` does. */
const withLedger = <A, E>(
  now: Effect.Effect<LedgerFiguresNow, unknown>,
  test: (refresh: Effect.Effect<void>, read: Effect.Effect<ReturnType<typeof parseScrape>>) => Effect.Effect<A, E>
) =>
  Effect.gen(function*() {
    const refresh = yield* LedgerMetrics.LedgerMetrics
    assert.isNotNull(refresh)
    return yield* test(refresh, Effect.map(PrometheusMetrics.format(), parseScrape))
  }).pipe(
    Effect.provide(LedgerMetrics.layer(now)),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )

describe("The metrics of the ledger", () => {
  it.effect("are what the read found: ages and lags in seconds, workers of the last 30 seconds, 0 without an entry", () =>
    withLedger(Effect.succeed(figures("bank")), (refresh, read) =>
      Effect.gen(function*() {
        yield* refresh
        const { total } = yield* read
        const of = { provider: "bank" }
        assert.strictEqual(total("gateway_ledger_figures_up"), 1)
        assert.strictEqual(total("gateway_operations", { ...of, state: "accepted" }), 7)
        assert.strictEqual(total("gateway_operations_held", of), 2)
        assert.strictEqual((yield* read).find("gateway_operations_under_review", of)[0]?.value, 0)
        assert.strictEqual(total("gateway_oldest_operation_age_seconds", { ...of, condition: "accepted" }), 90)
        assert.strictEqual(total("gateway_due_operations", { ...of, work: "claim" }), 5)
        assert.strictEqual(total("gateway_due_lag_seconds", { ...of, work: "claim" }), 12.5)
        assert.strictEqual(total("gateway_workers_seen"), 1)
      })))

  it.effect("are read once for all scrapers, and again only when the last read is five seconds old", () => {
    let reads = 0
    const now = Effect.delay(Effect.sync(() => figures(`bank-${++reads}`)), "1 second")
    return withLedger(now, (refresh, read) =>
      Effect.gen(function*() {
        const scrapers = yield* Effect.forkChild(Effect.all([refresh, refresh, refresh], { concurrency: "unbounded" }))
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(scrapers)
        assert.strictEqual(reads, 1)
        yield* TestClock.adjust("4999 millis")
        yield* refresh
        assert.strictEqual(reads, 1)
        yield* TestClock.adjust("1 millis")
        const next = yield* Effect.forkChild(refresh)
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(next)
        assert.strictEqual(reads, 2)
        const { find } = yield* read
        assert.deepStrictEqual(
          find("gateway_operations").map(({ labels }) => labels["provider"]),
          ["bank-2"],
          "the series of a provider without operations is gone"
        )
      }))
  })

  it.effect.each<readonly [string, Effect.Effect<LedgerFiguresNow, unknown>]>([
    ["does not answer", Effect.never],
    ["does not even stop", Effect.uninterruptible(Effect.never)],
    ["fails", Effect.fail("down")],
    ["dies", Effect.die("down")]
  ])("disappear within three seconds if the database %s, and come back", ([, broken]) => {
    let isBroken = false
    return withLedger(Effect.suspend(() => isBroken ? broken : Effect.succeed(figures("bank"))), (refresh, read) => {
      const scrape = Effect.gen(function*() {
        const scraper = yield* Effect.forkChild(refresh)
        yield* TestClock.adjust("3 seconds")
        yield* Fiber.join(scraper)
        return yield* read
      })
      return Effect.gen(function*() {
        yield* scrape
        isBroken = true
        yield* TestClock.adjust("5 seconds")
        const { families, find } = yield* scrape
        assert.strictEqual(find("gateway_ledger_figures_up")[0]?.value, 0)
        assert.sameMembers([...families.keys()], [
          "gateway_ledger_figures_up",
          "gateway_ledger_figures_duration_seconds"
        ])
        isBroken = false
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* scrape).total("gateway_operations"), 7)
      })
    })
  })

  it.effect("are read also for the others when the first scraper leaves", () => {
    const now = Effect.delay(Effect.succeed(figures("bank")), "1 second")
    return withLedger(now, (refresh, read) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkChild(refresh)
        const second = yield* Effect.forkChild(refresh)
        yield* TestClock.adjust("10 millis")
        yield* Fiber.interrupt(first)
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(second)
        assert.strictEqual((yield* read).total("gateway_operations"), 7)
      }))
  })
})
