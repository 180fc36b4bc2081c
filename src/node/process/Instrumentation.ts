/** The metrics of a process, for its exporter and its admin listener. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as HttpMetrics from "../../metrics/HttpMetrics.ts"
import * as LedgerMetrics from "../../metrics/LedgerMetrics.ts"
import * as PoolMetrics from "../../metrics/PoolMetrics.ts"
import * as ProcessMetrics from "../../metrics/ProcessMetrics.ts"
import { type ProcessSource, quantiles } from "../../metrics/ProcessMetrics.ts"
import * as SubmissionMetrics from "../../metrics/SubmissionMetrics.ts"
import { LedgerFigures } from "../../services/operators/LedgerFigures.ts"
import type { Database } from "../postgres/Database.ts"
import { FiguresPool } from "../postgres/Pools.ts"
import { manifest } from "./Invocation.ts"

/** Milliseconds between two samples of the event loop. */
const resolution = 20

/** Milliseconds. A shorter period would leave too few samples to scrapers that follow one another. */
const shortestPeriod = 10_000

const measureEventLoop = (): ProcessSource["eventLoopDelay"] => {
  const histogram = monitorEventLoopDelay({ resolution })
  histogram.enable()
  const measure = () => new Map(quantiles.map((quantile) => [quantile, histogram.percentile(quantile * 100)]))
  let since = performance.now()
  let measured: ReadonlyMap<number, number> | null = null
  return (quantile) => {
    if (performance.now() - since >= shortestPeriod) {
      measured = measure()
      histogram.reset()
      since = performance.now()
    }
    // Node measures the whole time between two samples, in nanoseconds.
    return Math.max(0, ((measured ?? measure()).get(quantile) ?? 0) / 1e9 - resolution / 1000)
  }
}

/** The process by Node. The event loop is measured from the call on, by a timer. */
const makeProcessSource = (): ProcessSource => ({
  version: manifest.version,
  residentMemoryBytes: () => process.memoryUsage.rss(),
  cpuSeconds: () => {
    const { system, user } = process.cpuUsage()
    return (system + user) / 1e6
  },
  startedAt: performance.timeOrigin / 1000,
  eventLoopDelay: measureEventLoop()
})

/** Whether an exporter reads the metrics of this process (`Observability`). */
const isExported = Effect.map(Config.option(Config.String("OTEL_EXPORTER_OTLP_ENDPOINT")), Option.isSome)

/** Milliseconds. `Otlp.layer` exports as often. */
const exportInterval = 10_000

/** Reads the figures of the ledger as often as the exporter sends them. */
const RefreshForExport = Layer.effectDiscard(Effect.gen(function*() {
  const refresh = yield* LedgerMetrics.LedgerMetrics
  if (refresh !== null) {
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(refresh, Effect.sleep(exportInterval))))
  }
}))

const Figures = LedgerMetrics.layer(LedgerFigures.use(({ now }) => now)).pipe(
  Layer.provide(Layer.provide(LedgerFigures.layer, FiguresPool))
)

const Counting = Figures.pipe(
  Layer.provideMerge(Layer.mergeAll(
    HttpMetrics.layer,
    HttpMetrics.verificationLayer,
    PoolMetrics.layer,
    SubmissionMetrics.layer,
    HttpMetrics.feedLayer,
    Layer.unwrap(Effect.sync(() => ProcessMetrics.layer(makeProcessSource())))
  ))
)

/**
 * Counts if the process has an admin listener, or exports its metrics. `Admin` is the listener, null if there is none. `Reader` is the
 * database of the figures.
 */
export const layer = <EA, RA, ED, RD>(
  Admin: Layer.Layer<never, EA, RA> | null,
  Reader: Layer.Layer<Database, ED, RD>
) =>
  Layer.unwrap(Effect.map(isExported, (isOn) => {
    const Counted = isOn || Admin !== null ? Layer.provide(Counting, Reader) : null
    return (Admin ?? Layer.empty as Exclude<typeof Admin, null>).pipe(
      Layer.merge(isOn ? RefreshForExport : Layer.empty),
      Layer.provideMerge(Counted ?? Layer.empty as Exclude<typeof Counted, null>)
    )
  }))
