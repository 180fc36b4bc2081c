import { monitorEventLoopDelay } from "node:perf_hooks"
import { type ProcessSource, quantiles } from "../../metrics/ProcessMetrics.ts"
import { manifest } from "./Invocation.ts"

/** Milliseconds between two samples of the event loop. */
const resolution = 20

/** Milliseconds. A shorter period would leave too few samples to scrapers that follow one another. */
const shortestPeriod = 10_000

/** Measures how late the event loop runs, from now on. */
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
export const makeProcessSource = (): ProcessSource => ({
  version: manifest.version,
  residentMemoryBytes: () => process.memoryUsage.rss(),
  cpuSeconds: () => {
    const { system, user } = process.cpuUsage()
    return (system + user) / 1e6
  },
  startedAt: performance.timeOrigin / 1000,
  eventLoopDelay: measureEventLoop()
})
