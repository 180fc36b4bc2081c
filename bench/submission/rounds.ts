/**
 * Rounds of the submission benchmark. Each starts processes of its own, warms them up, and ends with a check: every
 * submission succeeded, and the provider received each exactly once.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ChildProcess } from "node:child_process"
import type { Grant } from "../../src/domain/Grant.ts"
import { cpuOf, cpuOfChildren } from "../shared/proc.ts"
import { type DatabaseAddress, nextMessage, startReady } from "../shared/processes.ts"
import { median } from "../shared/statistics.ts"
import type { AcceptorConfig, Instants, SandboxConfig, SystemName, WorkerConfig } from "./config.ts"
import { type Contestant, systems } from "./contestants.ts"
import type { Queue } from "./queue.ts"

export interface Setting {
  readonly database: DatabaseAddress
  readonly grant: Grant
  /** Process id of the PostgreSQL server. */
  readonly postmaster: number
  /** The queues of the systems that are measured. */
  readonly queues: ReadonlyMap<SystemName, Queue>
  /** Writes a CPU profile of each worker to the working directory. */
  readonly profile: boolean
}

interface ThroughputPlan {
  /** Operations for each worker. */
  readonly warmUp: number
  readonly operations: number
  /** Milliseconds that the provider takes for each submission. */
  readonly delay: number
}

/** The figures of every round. */
interface Round {
  /** Median time of a commit before the round, in milliseconds. It rises if other processes write to the disk. */
  readonly commit: number
  readonly errors: ReadonlyArray<string>
}

/** CPU times in microseconds an operation. */
export interface Throughput extends Round {
  readonly operationsPerSecond: number
  readonly workerCpu: number
  readonly databaseCpu: number
  readonly sandboxCpu: number
  /** Bytes of write-ahead log an operation. */
  readonly wal: number
}

interface LatencyPlan {
  readonly perSecond: number
  /** Operations. */
  readonly warmUp: number
  /** Seconds. */
  readonly duration: number
}

export interface Latency extends Round {
  /** Milliseconds from the return of the acceptance to the start of the submission. */
  readonly latencies: ReadonlyArray<number>
}

let rounds = 0

const startWorkers = (setting: Setting, contestant: Contestant, sandboxUrl: string, timed: boolean) => {
  const { database, profile } = setting
  const { limit, listens, system, workers } = contestant
  const config: WorkerConfig = { database, sandboxUrl, listens, timed, ...limit === undefined ? {} : { limit } }
  const flags = profile ? ["--cpu-prof"] : []
  return Effect.all(Array.from({ length: workers }, () => startReady(systems[system].script, config, flags)))
}

const startSandbox = (delay: number) =>
  startReady<{ readonly url: string }>("submission/sandbox.ts", { delay } satisfies SandboxConfig)

const queueOf = ({ queues }: Setting, { system }: Contestant) => queues.get(system)!

/** Vacuums the dead rows of earlier rounds, which would slow the next one down. Then measures the time of a commit. */
const prepare = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe("VACUUM (ANALYZE)").unprepared
  const commits: Array<number> = []
  while (commits.length < 50) {
    const startedAt = performance.now()
    yield* sql`SELECT pg_logical_emit_message(true, 'bench', '')::text`
    commits.push(performance.now() - startedAt)
  }
  return median(commits)
}).pipe(Effect.orDie)

/** Waits until the queue is done. Dies after two minutes, because a job must have been lost. */
const untilDone = (queue: Queue, { name }: Contestant) =>
  Effect.gen(function*() {
    while (!(yield* queue.isDone)) yield* Effect.sleep("20 millis")
  }).pipe(
    Effect.timeoutOrElse({
      duration: "2 minutes",
      orElse: () => Effect.die(new Error(`${name} did not finish its work`))
    })
  )

const receiptsOf = Effect.fnUntraced(function*(sandboxUrl: string) {
  const text = yield* Effect.promise(() => fetch(`${sandboxUrl}/record`).then((response) => response.text()))
  const receipts = new Map<string, number>()
  for (const line of text.split("\n")) {
    if (line === "") continue
    const { key, outcome } = JSON.parse(line) as { readonly key: string; readonly outcome: string }
    // Any outcome other than `accepted` is an error.
    receipts.set(key, (receipts.get(key) ?? 0) + (outcome === "accepted" ? 1 : Infinity))
  }
  return receipts
})

/** The errors of a round. A round with errors is invalid. */
const verdict = Effect.fnUntraced(function*(name: string, queue: Queue, ids: ReadonlyArray<string>, url: string) {
  const receipts = yield* receiptsOf(url)
  const notOnce = ids.filter((id) => receipts.get(id) !== 1).length
  const unsuccessful = yield* queue.unsuccessful(ids)
  const known = new Set(ids)
  const others = [...receipts.keys()].filter((key) => !known.has(key)).length
  return [
    ...notOnce === 0 ? [] : [`${name}: ${notOnce} operations were not received exactly once`],
    ...unsuccessful === 0 ? [] : [`${name}: ${unsuccessful} operations did not succeed`],
    ...others === 0 ? [] : [`${name}: ${others} received keys were never submitted`]
  ]
})

const walPosition = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly bytes: number }>`
    SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 AS bytes`
  return row!.bytes
})

/** Instant in milliseconds, CPU times in microseconds, and position in bytes. */
interface Usage {
  readonly at: number
  readonly worker: number
  readonly database: number
  readonly sandbox: number
  readonly wal: number
}

/** Measures how fast the workers empty a full queue. */
export const throughputRound = Effect.fnUntraced(
  function*(setting: Setting, contestant: Contestant, { delay, operations, warmUp }: ThroughputPlan) {
    const sql = yield* SqlClient.SqlClient
    const queue = queueOf(setting, contestant)
    const prefix = `round-${++rounds}-`
    const commit = yield* prepare
    const sandbox = yield* startSandbox(delay)
    const workers = yield* startWorkers(setting, contestant, sandbox.message.url, false)
    const usage = Effect.map(walPosition, (wal): Usage => ({
      at: performance.now(),
      worker: workers.reduce((sum, { pid }) => sum + cpuOf(pid), 0),
      database: cpuOfChildren(setting.postmaster),
      sandbox: cpuOf(sandbox.pid),
      wal
    }))
    /** Work begins when the transaction commits: the usage before it contains the acceptances, and none of the work. */
    const work = Effect.fnUntraced(function*(name: string, count: number) {
      const [ids, before] = yield* sql.withTransaction(Effect.gen(function*() {
        const added = yield* queue.fill(name, count, contestant.answer)
        yield* sql`SET CONSTRAINTS ALL IMMEDIATE`
        return [added, yield* usage] as const
      }))
      yield* queue.announce
      yield* untilDone(queue, contestant)
      return { ids, before, after: yield* usage }
    }, Effect.orDie)
    const warm = yield* work(`${prefix}warm-up-`, warmUp * contestant.workers)
    const { after, before, ids } = yield* work(prefix, operations)
    const perOperation = (figure: "worker" | "database" | "sandbox" | "wal") =>
      (after[figure] - before[figure]) / operations
    return {
      commit,
      operationsPerSecond: operations * 1000 / (after.at - before.at),
      workerCpu: perOperation("worker"),
      databaseCpu: perOperation("database"),
      sandboxCpu: perOperation("sandbox"),
      wal: perOperation("wal"),
      errors: yield* verdict(contestant.name, queue, [...warm.ids, ...ids], sandbox.message.url)
    } satisfies Throughput
  },
  Effect.scoped
)

const askFor = <Message>(child: ChildProcess, request: string) =>
  Effect.suspend(() => {
    child.send(request)
    return nextMessage<Message>(child)
  })

/** Measures the delay from acceptance to submission, at a rate that leaves the workers idle most of the time. */
export const latencyRound = Effect.fnUntraced(
  function*(setting: Setting, contestant: Contestant, { duration, perSecond, warmUp }: LatencyPlan) {
    const { listens, system } = contestant
    const queue = queueOf(setting, contestant)
    const commit = yield* prepare
    const sandbox = yield* startSandbox(0)
    const workers = yield* startWorkers(setting, contestant, sandbox.message.url, true)
    const { client_id, grant_id, subject } = setting.grant
    const acceptor = yield* startReady(
      "submission/acceptor.ts",
      {
        database: setting.database,
        into: system,
        identity: { client_id, grant_id, subject },
        prefix: `round-${++rounds}-`,
        warmUp,
        count: perSecond * duration,
        perSecond,
        announces: listens
      } satisfies AcceptorConfig
    )
    // A slow machine works on the warm-up for longer than it takes to accept it.
    const accept = Effect.tap(
      askFor<{ readonly accepted: Instants }>(acceptor.child, "accept"),
      () => untilDone(queue, contestant)
    )
    const warm = yield* accept
    const { accepted } = yield* accept
    const begun = new Map<string, number>()
    for (const { child } of workers) {
      const answer = yield* askFor<{ readonly begun: Instants }>(child, "report")
      for (const [id, at] of answer.begun) begun.set(id, at)
    }
    return {
      commit,
      latencies: accepted.map(([id, at]) => (begun.get(id)! - at) / 1_000_000),
      errors: yield* verdict(
        contestant.name,
        queue,
        [...warm.accepted, ...accepted].map(([id]) => id),
        sandbox.message.url
      )
    } satisfies Latency
  },
  Effect.scoped
)
