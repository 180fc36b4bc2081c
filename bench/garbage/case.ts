/**
 * One cause in a process of its own: warms up, makes what it keeps old, and measures. Started by `bench/garbage.ts`.
 */
import { Effect } from "effect"
import { constants, PerformanceObserver } from "node:perf_hooks"
import * as v8 from "node:v8"
import { configuration, report } from "../shared/processes.ts"
import { type CaseConfig, type CaseResult, causes } from "./cases.ts"

const config = configuration<CaseConfig>()
const { count, make } = causes[config.cause]!

// The parent starts each case with `--expose-gc`.
const collect = globalThis.gc!

/** Bytes in the old generation, with those that are dead but not yet collected. */
const oldGeneration = () =>
  v8.getHeapSpaceStatistics()
    .filter(({ space_name }) => space_name === "old_space" || space_name === "large_object_space")
    .reduce((sum, { space_used_size }) => sum + space_used_size, 0)

/** Two minor collections move what is alive to the old generation; what is younger and dead disappears. */
const collectYoung = () => {
  for (let n = 0; n < 2; n++) void collect({ type: "minor" })
}

/** Node's types do not show the kind of a collection. */
const kindOf = (entry: PerformanceEntry) => (entry as PerformanceEntry & { detail: { kind: number } }).detail.kind

const measure = (run: (count: number) => Effect.Effect<void>) =>
  Effect.gen(function*() {
    for (let n = 0; n < 4; n++) yield* run(count / 4)
    void collect()
    collectYoung()
    const entries: Array<PerformanceEntry> = []
    const observer = new PerformanceObserver((list) => entries.push(...list.getEntries()))
    observer.observe({ entryTypes: ["gc"] })
    const before = oldGeneration()
    yield* run(count)
    // Node reports collections in later turns of the event loop.
    yield* Effect.sleep(10)
    observer.disconnect()
    collectYoung()
    const minor = entries.filter((entry) => kindOf(entry) === constants.NODE_PERFORMANCE_GC_MINOR)
    const result: CaseResult = {
      bytes: Math.max(0, oldGeneration() - before) / count,
      collections: minor.length,
      major: entries.filter((entry) => kindOf(entry) === constants.NODE_PERFORMANCE_GC_MAJOR).length,
      microseconds: minor.reduce((sum, { duration }) => sum + duration, 0) * 1000 / count
    }
    return result
  })

await Effect.runPromise(Effect.scoped(Effect.flatMap(make(config), measure))).then(report)
