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
import type { AcceptorConfig, Instants, SandboxConfig, WorkerConfig } from "./config.ts"
import type { Answer, Queue } from "./queues.ts"

export interface Contestant {
  readonly name: string
  readonly queue: Queue
  readonly workers: number
  readonly answer: Answer
  /** Whether the workers listen for acceptances. */
  readonly listens: boolean
  /** Milliseconds that the provider takes for each submission. */
  readonly delay: number
}

export interface Setting {
  readonly database: DatabaseAddress
  readonly grant: Grant
  /** Process id of the PostgreSQL server. */
  readonly postmaster: number
  /** Writes a CPU profile of each worker of the gateway to the working directory. */
  readonly profile: boolean
}

export interface ThroughputPlan {
  /** Operations for each worker. */
  readonly warmUp: number
  readonly operations: number
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
}

export interface LatencyPlan {
  readonly perSecond: number
  /** Seconds. */
  readonly warmUp: number
  readonly duration: number
}

export interface Latency extends Round {
  /** Milliseconds from the return of the acceptance to the start of the submission. */
  readonly latencies: ReadonlyArray<number>
}

let rounds = 0

const startWorkers = (setting: Setting, contestant: Contestant, sandboxUrl: string, timed: boolean) => {
  const { database, profile } = setting
  const { listens, queue, workers } = contestant
  const config: WorkerConfig = { database, sandboxUrl, listens, timed }
  return queue.name === "peer"
    ? Effect.all(Array.from({ length: workers }, () => startReady("submission/peer.ts", config)))
    : Effect.all(
      Array.from({ length: workers }, () => startReady("submission/worker.ts", config, profile ? ["--cpu-prof"] : []))
    )
}

const startSandbox = ({ delay }: Contestant) =>
  startReady<{ readonly url: string }>("submission/sandbox.ts", { delay } satisfies SandboxConfig)

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
const untilDone = (queue: Queue) =>
  Effect.gen(function*() {
    while (!(yield* queue.isDone)) yield* Effect.sleep("20 millis")
  }).pipe(
    Effect.timeoutOrElse({
      duration: "2 minutes",
      orElse: () => Effect.die(new Error(`the ${queue.name} did not finish its work`))
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
const verdict = Effect.fnUntraced(function*({ name, queue }: Contestant, ids: ReadonlyArray<string>, url: string) {
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

/** Measures how fast the workers empty a full queue. */
export const throughputRound = Effect.fnUntraced(
  function*(setting: Setting, contestant: Contestant, { operations, warmUp }: ThroughputPlan) {
    const { answer, queue, workers: processes } = contestant
    const prefix = `round-${++rounds}-`
    const commit = yield* prepare
    const sandbox = yield* startSandbox(contestant)
    const workers = yield* startWorkers(setting, contestant, sandbox.message.url, false)
    const ids = [...yield* queue.fill(`${prefix}warm-up-`, warmUp * processes, answer)]
    yield* queue.announce
    yield* untilDone(queue)
    const cpu = () => ({
      worker: workers.reduce((sum, { pid }) => sum + cpuOf(pid), 0),
      database: cpuOfChildren(setting.postmaster),
      sandbox: cpuOf(sandbox.pid)
    })
    ids.push(...yield* queue.fill(prefix, operations, answer))
    const [startedAt, before] = [performance.now(), cpu()]
    yield* queue.announce
    yield* untilDone(queue)
    const [endedAt, after] = [performance.now(), cpu()]
    return {
      commit,
      operationsPerSecond: operations * 1000 / (endedAt - startedAt),
      workerCpu: (after.worker - before.worker) / operations,
      databaseCpu: (after.database - before.database) / operations,
      sandboxCpu: (after.sandbox - before.sandbox) / operations,
      errors: yield* verdict(contestant, ids, sandbox.message.url)
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
    const { listens, queue } = contestant
    const commit = yield* prepare
    const sandbox = yield* startSandbox(contestant)
    const workers = yield* startWorkers(setting, contestant, sandbox.message.url, true)
    const { client_id, grant_id, subject } = setting.grant
    const acceptor = yield* startReady(
      "submission/acceptor.ts",
      {
        database: setting.database,
        into: queue.name,
        identity: { client_id, grant_id, subject },
        prefix: `round-${++rounds}-`,
        count: perSecond * (warmUp + duration),
        perSecond,
        announces: listens
      } satisfies AcceptorConfig
    )
    const { accepted } = yield* askFor<{ readonly accepted: Instants }>(acceptor.child, "start")
    yield* untilDone(queue)
    const begun = new Map<string, number>()
    for (const { child } of workers) {
      const answer = yield* askFor<{ readonly begun: Instants }>(child, "report")
      for (const [id, at] of answer.begun) begun.set(id, at)
    }
    return {
      commit,
      latencies: accepted.slice(perSecond * warmUp).map(([id, at]) => (begun.get(id)! - at) / 1_000_000),
      errors: yield* verdict(contestant, accepted.map(([id]) => id), sandbox.message.url)
    } satisfies Latency
  },
  Effect.scoped
)
