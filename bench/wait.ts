/**
 * `npm run bench:wait`: clients that wait for their operations (`Prefer: wait`) on one process of `serve`.
 *
 *     npm run bench:wait -- --waiters 500 --seconds 5
 *
 * It measures the time from the commit of a change to the response of its waiter, the statements a second for several
 * numbers of waiters, the memory of a waiter, and the throughput of single reads beside the waiters. Linux only.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import type { ChildProcess } from "node:child_process"
import * as path from "node:path"
import { withProgress } from "../src/cli/ProgressBar.ts"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import type { LoadJob, LoadResult } from "./reads/load.ts"
import { commandOptions, shippedCommand } from "./shared/command.ts"
import { BenchDatabase } from "./shared/database.ts"
import { type Gateway, startGateway } from "./shared/gateway.ts"
import { ask } from "./shared/probing.ts"
import { nextMessage, startProcess, startReady } from "./shared/processes.ts"
import { say } from "./shared/progress.ts"
import { median } from "./shared/statistics.ts"
import { machine } from "./shared/table.ts"
import { flag, number, readOptions, whole } from "./shared/usage.ts"
import { missedGoals, toJson, toTable, type WaitReport } from "./wait/report.ts"
import { type Commits, makeMove, setScene, type Waiter } from "./wait/scene.ts"
import type { Notice, Unexpected, WaitersJob, WaitersReady } from "./wait/waiters.ts"

const plan = readOptions(import.meta.url, {
  waiters: whole("Waiting clients, each with a connection and an operation", { from: 1, to: 4000, default: 2000 }),
  changes: number("Changes a second while they wait", { from: 1, to: 1000, default: 20 }),
  seconds: number("Duration of each measurement", { from: 1, to: 600, default: 15 }),
  rounds: whole("Rounds of single reads with and without the waiters", { from: 1, to: 100, default: 5 }),
  json: flag("Prints the report as JSON"),
  command: commandOptions.command,
  check: flag("Exits with 1 if a goal is missed")
})

/** The process of the waiters, and what it has told. */
const startWaiters = Effect.fnUntraced(function*(port: number, waiters: ReadonlyArray<Waiter>) {
  const { child } = yield* startReady<WaitersReady>("wait/waiters.ts", { port })
  const notices: Array<Notice> = []
  const failures: Array<string> = []
  child.on("message", (message) => {
    const told = message as Notice | Unexpected | WaitersReady
    if ("unexpected" in told) failures.push(told.unexpected)
    if ("at" in told) notices.push(told)
  })
  /** Lets this many of them wait. */
  const resize = (count: number) =>
    Effect.callback<void>((resume) => {
      const onMessage = (message: unknown) => {
        if (!("waiting" in (message as object))) return
        child.off("message", onMessage)
        resume(Effect.void)
      }
      child.on("message", onMessage)
      child.send({ waiters: waiters.slice(0, count) } satisfies WaitersJob)
    })
  return { notices, failures, resize }
})

type Waiters = Effect.Success<ReturnType<typeof startWaiters>>

/** Moves operations at the planned pace until it is interrupted. */
const change = <E>(ids: ReadonlyArray<string>, move: (id: string) => Effect.Effect<void, E>): Effect.Effect<never, E> =>
  Effect.gen(function*() {
    const startedAt = performance.now()
    for (let n = 1;; n++) {
      yield* move(ids[Math.floor(Math.random() * ids.length)]!)
      yield* Effect.sleep(Math.max(0, startedAt + n * 1000 / plan.changes - performance.now()))
    }
  })

/** Statements a second in the database of the gateway, each in a transaction of its own, while nothing changes. */
const statementRate = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const count = Effect.map(
    sql<{ readonly count: number }>`
      SELECT xact_commit::float8 AS count FROM pg_stat_database WHERE datname = current_database()`,
    ([row]) => row!.count
  )
  // Idle sessions report their statistics within ten seconds.
  yield* Effect.sleep("11 seconds")
  const startedAt = performance.now()
  const from = yield* count
  yield* Effect.sleep(`${plan.seconds} seconds`)
  const to = yield* count
  return (to - from) / ((performance.now() - startedAt) / 1000)
})

/** The least memory of several samples, in MiB. */
const memoryOf = Effect.fnUntraced(function*({ pid }: Gateway) {
  const samples = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.delay(ask(pid), "250 millis"))
  return {
    rss: Math.min(...samples.map(({ rss }) => rss)),
    heap: Math.min(...samples.map(({ heapUsed }) => heapUsed))
  }
})

const readsOf = (load: ChildProcess, job: LoadJob) =>
  Effect.gen(function*() {
    load.send(job)
    const result = yield* nextMessage<LoadResult>(load)
    if (result.errors > 0) return yield* Effect.die(new Error(`${result.errors} reads failed: ${result.firstError}`))
    return result.requestsPerSecond
  })

/** Throughput of reads with all waiters as a ratio to that without, in alternating rounds. The changes go on in both. */
const readRatios = Effect.fnUntraced(function*({ port }: Gateway, waiters: Waiters, [reader]: ReadonlyArray<Waiter>) {
  const load = yield* startProcess("reads/load.ts", { pinned: true })
  const job: LoadJob = {
    port,
    token: reader!.token,
    paths: [`/v1/operations/${reader!.id}`],
    connections: 32,
    duration: plan.seconds * 1000
  }
  yield* readsOf(load, { ...job, duration: 2000 })
  const ratios: Array<number> = []
  const round = Effect.gen(function*() {
    yield* waiters.resize(0)
    const alone = yield* readsOf(load, job)
    yield* waiters.resize(plan.waiters)
    const beside = yield* readsOf(load, job)
    ratios.push(beside / alone)
    yield* say(`Reads: ${alone.toFixed(0)}/s alone, ${beside.toFixed(0)}/s beside ${plan.waiters} waiters`)
  })
  yield* withProgress(
    { label: "Reading", unit: "rounds", total: plan.rounds },
    (progress) =>
      Effect.forEach(
        Array.from({ length: plan.rounds }),
        () => Effect.tap(round, () => Effect.sync(progress.advance)),
        {
          discard: true
        }
      )
  )
  return ratios
})

const latencyOf = (commits: Commits, notices: ReadonlyArray<Notice>) => {
  const latencies = notices.flatMap(({ at, id, tag }) => {
    const committed = commits.get(`${id} ${tag}`)
    return committed === undefined ? [] : [Number(BigInt(at) - committed) / 1e6]
  }).toSorted((a, b) => a - b)
  const at = (share: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0
  return { count: latencies.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

const benchmark = Effect.gen(function*() {
  const command = plan.command === null ? yield* shippedCommand : path.resolve(plan.command)
  const scene = yield* setScene(plan.waiters)
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const gateway = yield* startGateway({
    database: { database, port, socketDirectory, username },
    command,
    isProbed: true
  })
  const waiters = yield* startWaiters(gateway.port, scene)
  const ids = scene.map(({ id }) => id)
  const move = yield* makeMove

  const statements: Array<WaitReport["statements"][number]> = []
  const idle = yield* memoryOf(gateway)
  for (const count of [0, Math.ceil(plan.waiters / 10), plan.waiters]) {
    yield* waiters.resize(count)
    statements.push({ waiters: count, perSecond: yield* statementRate })
    yield* say(`${count} waiters: ${statements.at(-1)!.perSecond.toFixed(1)} statements a second`)
  }
  const full = yield* memoryOf(gateway)

  const commits: Commits = new Map()
  waiters.notices.length = 0
  yield* Effect.timeoutOption(change(ids, (id) => move(id, commits)), `${plan.seconds} seconds`)
  yield* Effect.sleep("1 second")
  const latency = latencyOf(commits, waiters.notices)
  // An operation that changed twice before its waiter asked again is told once, in its last state.
  const told = new Set(waiters.notices.map(({ id, tag }) => `${id} ${tag}`))
  const last = new Map([...commits.keys()].map((key) => [key.split(" ")[0]!, key]))
  const missed = [...last.values()].filter((key) => !told.has(key)).length

  const changes = yield* Effect.forkChild(change(ids, (id) => move(id, new Map())))
  const rounds = yield* readRatios(gateway, waiters, scene)
  yield* Fiber.interrupt(changes)
  if (waiters.failures.length > 0) {
    return yield* Effect.die(new Error(`${waiters.failures.length} waits failed, the first: ${waiters.failures[0]}`))
  }
  return {
    machine: machine(),
    command: path.relative(process.cwd(), command),
    waiters: plan.waiters,
    changesPerSecond: plan.changes,
    latency,
    missed,
    statements,
    memory: {
      rss: (full.rss - idle.rss) * 1024 / plan.waiters,
      heap: (full.heap - idle.heap) * 1024 / plan.waiters
    },
    reads: { rounds, ratio: median(rounds) }
  } satisfies WaitReport
})

const main = Effect.gen(function*() {
  const report: WaitReport = yield* Effect.provide(Effect.scoped(benchmark), BenchDatabase)
  process.stdout.write(plan.json ? toJson(report) : toTable(report))
  if (plan.check && missedGoals(report).length > 0) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
