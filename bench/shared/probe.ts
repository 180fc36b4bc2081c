/**
 * Loaded into a Node server by `--import`: answers each message of the parent process with the memory of the process
 * and the time that it has spent on garbage collection. It is not loaded in measured rounds.
 */
import { PerformanceObserver } from "node:perf_hooks"

export interface ProbeAnswer {
  /** Milliseconds of garbage collection in the main thread since the start. */
  readonly garbage: number
  /** MiB. */
  readonly rss: number
  readonly heapUsed: number
}

let garbage = 0
const add = (entries: ReadonlyArray<{ readonly duration: number }>) => {
  for (const { duration } of entries) garbage += duration
}

const observer = new PerformanceObserver((list) => add(list.getEntries()))
observer.observe({ entryTypes: ["gc"] })

process.on("message", () => {
  add(observer.takeRecords())
  const { heapUsed, rss } = process.memoryUsage()
  process.send?.({ garbage, rss: rss / 2 ** 20, heapUsed: heapUsed / 2 ** 20 } satisfies ProbeAnswer)
})
// The channel does not keep the process alive.
process.channel?.unref()
