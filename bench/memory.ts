/**
 * `npm run bench:memory`: the memory of the gateway's command `serve` under a long mixed load of reads, conditional
 * reads, lists, filtered lists, health checks, missing operations, refused tokens and aborted requests.
 *
 *   --requests N      requests in all; 10,000,000 by default
 *   --minutes M       stop after this time, even with fewer requests; 120 by default
 *   --warm-up S       seconds at the start that the verdict ignores; 60 by default
 *   --tolerance MIB   the most growth after the warm-up that passes; 16 by default
 *   --json            the report as JSON on stdout
 *   --sources         run src/main.ts instead of the shipped command, which is built first if its sources are newer
 *   --command FILE    run this file instead
 *   --keep DIRECTORY  keep the seeded database there, and use it again in the next run
 *   --help            this text
 *
 * Growth is the difference between the first and the last fifth of the time after the warm-up: of the median of the
 * resident memory, and of the least used heap. Exits with 1 if one of them is above the tolerance, or if a response had
 * an unexpected status. Linux only.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import type { ChildProcess } from "node:child_process"
import * as path from "node:path"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { growthOf, type Sample } from "./memory/growth.ts"
import type { MixedLoad, Progress } from "./memory/mixedLoad.ts"
import { grows, type MemoryReport, toJson, toTable } from "./memory/report.ts"
import { shippedCommand, sourceCommand } from "./shared/command.ts"
import { benchDatabase, prepareReaders } from "./shared/database.ts"
import { type Gateway, startGateway } from "./shared/gateway.ts"
import { ask } from "./shared/probing.ts"
import { peakMemoryOf } from "./shared/proc.ts"
import { startProcess } from "./shared/processes.ts"
import { say } from "./shared/progress.ts"
import { machine } from "./shared/table.ts"
import { fail, readNumber, readOptions } from "./shared/usage.ts"

const values = readOptions(import.meta.url, {
  requests: { type: "string", default: "10000000" },
  minutes: { type: "string", default: "120" },
  "warm-up": { type: "string", default: "60" },
  tolerance: { type: "string", default: "16" },
  json: { type: "boolean", default: false },
  sources: { type: "boolean", default: false },
  command: { type: "string" },
  keep: { type: "string" }
})
if (values.sources && values.command !== undefined) fail("specify at most one of --sources and --command")

/** Operations of the only owner. */
const counts = [100_000]

const plan = {
  requests: Math.round(readNumber("--requests", values.requests, 1, 1e12)),
  minutes: readNumber("--minutes", values.minutes, 0.01, 100_000),
  warmUpSeconds: readNumber("--warm-up", values["warm-up"], 0, 100_000),
  tolerance: readNumber("--tolerance", values.tolerance, 0, 100_000),
  keep: values.keep === undefined ? null : path.resolve(values.keep)
}

const command = values.sources
  ? Effect.succeed(sourceCommand)
  : values.command === undefined
  ? shippedCommand
  : Effect.succeed(path.resolve(values.command))

/** Samples the memory each second until the load is done. */
const sampleUntilDone = Effect.fnUntraced(function*(
  gateway: Gateway,
  load: ChildProcess,
  latest: () => Progress | null
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
    if (samples.length % 10 !== 0) continue
    yield* say(
      `${seconds.toFixed(0)} s: ${sample.requests} requests, ${rss.toFixed(0)} MiB, heap ${heapUsed.toFixed(0)}`
    )
  }
  return samples
})

const benchmark = Effect.gen(function*() {
  const file = yield* command
  const [reader] = yield* prepareReaders(plan.keep, counts)
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const gateway = yield* startGateway({
    database: { database, port, socketDirectory, username },
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
  let progress: Progress | null = null
  load.on("message", (message) => {
    progress = message as Progress
  })
  const samples = yield* sampleUntilDone(gateway, load, () => progress)
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
  process.stdout.write(values.json ? toJson(report) : toTable(report))
  const { firstUnexpected, unexpected } = report.progress
  if (unexpected > 0) yield* say(`${unexpected} unexpected responses, the first: ${firstUnexpected}`)
  if (unexpected > 0 || grows(report)) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
