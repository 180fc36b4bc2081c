/**
 * Figures about the whole ledger, as the last read found them. Reads follow the scrapes: at most one at a time, and none while the
 * last one is recent. Without a database the figures disappear, so that no panel shows old ones.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Metric from "effect/Metric"
import type { ProviderName } from "../domain/Grant.ts"
import { type LedgerFiguresNow, workerSeenWithin } from "../domain/operators/FiguresForm.ts"
import { type Family, type Labels, makeSeries } from "./Series.ts"

const families = {
  operations: { name: "gateway_operations", help: "Operations of the ledger, by provider and state." },
  held: { name: "gateway_operations_held", help: "Held operations, by provider." },
  unauthorized: {
    name: "gateway_operations_unauthorized",
    help:
      "Accepted operations that are not sent, because no live grant, no active client or no connected provider allows it, by provider. 1000 stands for 1000 or more."
  },
  keyless: {
    name: "gateway_operations_keyless",
    help:
      "Accepted operations that are not sent, because the workers lack the key of their payload, by provider. 1000 stands for 1000 or more."
  },
  unread: {
    name: "gateway_operations_unread",
    help:
      "Operations whose status is not read, because no live grant, no active client or no connected provider allows it, by provider. 1000 stands for 1000 or more."
  },
  underReview: { name: "gateway_operations_under_review", help: "Operations under review, by provider." },
  oldest: {
    name: "gateway_oldest_operation_age_seconds",
    help:
      "For how long the oldest operation in the condition has been in its state. When a hold or a review began is not stored."
  },
  due: {
    name: "gateway_due_operations",
    help: "Operations whose next action is due, by provider and work. 1000 stands for 1000 or more."
  },
  lag: { name: "gateway_due_lag_seconds", help: "For how long the first of them has been due." },
  workers: {
    name: "gateway_workers_seen",
    help: "Processes with workers that reported themselves in the last 30 seconds."
  },
  up: { name: "gateway_ledger_figures_up", help: "1 if the last read of the ledger's figures succeeded, else 0." },
  duration: { name: "gateway_ledger_figures_duration_seconds", help: "How long the last read of the figures took." }
}

/** A read that is older is repeated before a scrape. */
const freshFor = Duration.seconds(5)

/** How long a scrape waits for a read. */
const patience = Duration.seconds(3)

interface Reading {
  readonly family: Family
  readonly labels: Labels
  readonly value: number
}

const secondsSince = (now: DateTime.Utc, since: DateTime.Utc): number =>
  Math.max(0, DateTime.toEpochMillis(now) - DateTime.toEpochMillis(since)) / 1000

/** A count for each provider, 0 where the read has none. */
const countsOf = (family: Family, providers: Iterable<ProviderName>, counts: LedgerFiguresNow["held"]) =>
  [...providers].map((provider): Reading => ({
    family,
    labels: { provider },
    value: counts.find((count) => count.provider === provider)?.count ?? 0
  }))

const readingsOf = (figures: LedgerFiguresNow): ReadonlyArray<Reading> => {
  const { at, due, held, keyless, oldest, operations, unauthorized, under_review, unread, workers } = figures
  const providers = new Set(operations.map(({ provider }) => provider))
  const seen = workers.filter(({ seen_at }) => secondsSince(at, seen_at) <= Duration.toSeconds(workerSeenWithin))
  return [
    ...operations.map(({ count, provider, state }) => ({
      family: families.operations,
      labels: { provider, state },
      value: count
    })),
    ...countsOf(families.held, providers, held),
    ...countsOf(families.unauthorized, providers, unauthorized),
    ...countsOf(families.keyless, providers, keyless),
    ...countsOf(families.unread, providers, unread),
    ...countsOf(families.underReview, providers, under_review),
    ...oldest.map(({ condition, provider, since }) => ({
      family: families.oldest,
      labels: { provider, condition },
      value: secondsSince(at, since)
    })),
    ...due.flatMap(({ count, provider, since, work }) => [
      { family: families.due, labels: { provider, work }, value: count },
      { family: families.lag, labels: { provider, work }, value: secondsSince(at, since) }
    ]),
    { family: families.workers, labels: {}, value: seen.length }
  ]
}

/** Reads the figures before a scrape, if the last read is not recent. It waits for 3 seconds at most, and never fails. */
type RefreshLedgerMetrics = Effect.Effect<void>

/** Null: the process has no figures of the ledger. */
export const LedgerMetrics: Context.Reference<RefreshLedgerMetrics | null> = Context.Reference<
  RefreshLedgerMetrics | null
>("financial-agents-gateway/metrics/LedgerMetrics", { defaultValue: () => null })

/** Runs the read in a fiber of its own: a database that is stopped may not even answer a cancellation. */
const detached = <A, E>(read: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(
    Effect.forkDetach(read, { startImmediately: true }),
    (fiber) => Effect.onInterrupt(Fiber.join(fiber), () => Effect.sync(() => fiber.interruptUnsafe()))
  )

const make = Effect.fnUntraced(function*(now: Effect.Effect<LedgerFiguresNow, unknown>) {
  const series = yield* makeSeries
  const clock = yield* Clock.Clock
  const monotonic = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  let isUp = 0
  let seconds = 0
  let registered: ReadonlyArray<Metric.Registration> = []
  series.gauge(families.up, () => isUp)
  series.gauge(families.duration, () => seconds)

  /** Replaces all values. Series that are not among them end. */
  const show = (readings: ReadonlyArray<Reading>): void => {
    for (const { remove } of registered) remove()
    registered = readings.map(({ family, labels, value }) => series.gauge(family, () => value, labels))
  }

  const read = Effect.gen(function*() {
    const begin = monotonic()
    const figures = yield* Effect.option(Effect.timeout(detached(now), patience)).pipe(
      Effect.catchDefect(() => Effect.succeedNone)
    )
    seconds = (monotonic() - begin) / 1000
    isUp = figures._tag === "Some" ? 1 : 0
    show(figures._tag === "Some" ? readingsOf(figures.value) : [])
  })
  return yield* Effect.cachedWithTTL(Effect.withTracerEnabled(read, false), freshFor)
})

/** Registers the series. `now` reads the figures. */
export const layer = <R>(now: Effect.Effect<LedgerFiguresNow, unknown, R>): Layer.Layer<never, never, R> =>
  Layer.effect(
    LedgerMetrics,
    Effect.flatMap(Effect.context<R>(), (context) => make(Effect.provideContext(now, context)))
  )
