/**
 * `npm run bench:memory`: the memory of the gateway's command `serve` under a long mixed load of reads, conditional
 * reads, lists, filtered lists, health checks, missing operations, refused tokens and aborted requests.
 *
 *     npm run bench:memory -- --requests 1000000
 *
 * Growth is the difference between the first and the last fifth of the time after the warm-up: of the median of the
 * resident memory, and of the least used heap. Exits with 1 if one of them is above the tolerance, or if a response had
 * an unexpected status. Linux only.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import type { ChildProcess } from "node:child_process"
import * as path from "node:path"
import type { MixedLoad, Progress as Load } from "./memory/mixedLoad.ts"
import { grows, growthOf, type MemoryReport, type Sample, thinOut, toTable } from "./memory/report.ts"
import { commandOf, commandOptions, shippedCommand } from "./shared/command.ts"
import { benchDatabase, databaseAddress, prepareReaders } from "./shared/database.ts"
import { type Gateway, startGateway } from "./shared/gateway.ts"
import { ask } from "./shared/probing.ts"
import { peakMemoryOf } from "./shared/proc.ts"
import { startProcess } from "./shared/processes.ts"
import { type Progress, withProgress } from "./shared/progress.ts"
import { machine, print, say } from "./shared/report.ts"
import { flag, number, readOptions, whole } from "./shared/usage.ts"

const values = readOptions(import.meta.url, {
  requests: whole("Requests in all", { from: 1, to: 1e12, default: 10_000_000 }),
  minutes: number("Ends after this time, even with fewer requests", { from: 0.01, to: 100_000, default: 120 }),
  "warm-up": number("Seconds at the start that the verdict ignores", { from: 0, to: 100_000, default: 60 }),
  tolerance: number("The most growth in MiB after the warm-up that passes", { from: 0, to: 100_000, default: 16 }),
  json: flag("Prints the report as JSON"),
  ...commandOptions
})

/** Operations of the only owner. */
const counts = [100_000]

const plan = {
  requests: values.requests,
  minutes: values.minutes,
  warmUpSeconds: values["warm-up"],
  tolerance: values.tolerance,
  keep: values.keep === null ? null : path.resolve(values.keep)
}

const given = commandOf(values)
const command = given === null ? shippedCommand : Effect.succeed(given)

/** Samples the memory each second until the load is done. */
const sampleUntilDone = Effect.fnUntraced(function*(
  gateway: Gateway,
  load: ChildProcess,
  latest: () => Load | null,
  progress: Progress
) {
  const samples: Array<Sample> = []
  const startedAt = performance.now()
  while (latest()?.isDone !== true) {
    if (load.exitCode !== null) return yield* Effect.die(new Error("the load generator ended early"))
    yield* Effect.sleep("1 second")
    const { heapUsed, rss } = yield* ask(gateway.pid)
    const seconds = (performance.now() - startedAt) / 1000
    const sample = { seconds, requests: latest()?.requests ?? 0, rss, heapUsed }
    samples.push(sample)
    progress.update(sample.requests, `${rss.toFixed(0)} MiB, heap ${heapUsed.toFixed(0)}`)
  }
  return samples
})

const benchmark = Effect.gen(function*() {
  const file = yield* command
  const [reader] = yield* prepareReaders(plan.keep, counts)
  const gateway = yield* startGateway({
    database: yield* databaseAddress,
    command: file,
    isProbed: true
  })
  const job: MixedLoad = {
    port: gateway.port,
    token: reader!.token,
    ids: reader!.ids.slice(0, 5000),
    requests: plan.requests,
    duration: plan.minutes * 60_000,
    connections: 64
  }
  const load = yield* startProcess("memory/mixedLoad.ts", { arguments: [JSON.stringify(job)], pinned: true })
  let progress: Load | null = null
  load.on("message", (message) => {
    progress = message as Load
  })
  const samples = yield* withProgress(
    { label: "Measuring", unit: "requests", total: plan.requests },
    (bar) => sampleUntilDone(gateway, load, () => progress, bar)
  )
  return {
    machine: machine(),
    command: path.relative(process.cwd(), file),
    progress: progress!,
    samples,
    peakMemory: peakMemoryOf(gateway.pid),
    warmUpSeconds: plan.warmUpSeconds,
    growth: growthOf(samples, plan.warmUpSeconds),
    tolerance: plan.tolerance
  } satisfies MemoryReport
})

const main = Effect.gen(function*() {
  const report: MemoryReport = yield* Effect.provide(Effect.scoped(benchmark), benchDatabase(plan.keep, counts))
  print(values.json, { ...report, samples: thinOut(report.samples, 300) }, () => toTable(report))
  const { firstUnexpected, unexpected } = report.progress
  if (unexpected > 0) yield* say(`${unexpected} unexpected responses, the first: ${firstUnexpected}`)
  if (unexpected > 0 || grows(report)) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
