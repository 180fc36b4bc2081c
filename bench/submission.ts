/**
 * `npm run bench:submission`: measures the throughput of workers, and the delay from acceptance to submission. The peer
 * is a hand-written job queue on the same database and against the same sandbox provider, in alternating rounds.
 *
 *     npm run bench:submission -- --quick
 *
 * Exits with 1 if an operation did not succeed, or if the provider did not receive it exactly once. Linux only: CPU time
 * is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as os from "node:os"
import { type Progress, withProgress } from "../src/cli/ProgressBar.ts"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import * as PgAcceptanceSignal from "../src/node/PgAcceptanceSignal.ts"
import { Grants } from "../src/services/Grants.ts"
import { migrate } from "../src/services/Migrations.ts"
import { BenchDatabase, grantFor, postmasterPid } from "./shared/database.ts"
import { say } from "./shared/progress.ts"
import { median } from "./shared/statistics.ts"
import { flag, readOptions } from "./shared/usage.ts"
import { distance } from "./submission/config.ts"
import { ageLedger, makeLedgerQueue, makePeerQueue, type Queue } from "./submission/queues.ts"
import { errorsOf, type Rounds, toJson, toTable } from "./submission/report.ts"
import {
  type Contestant,
  type Latency,
  latencyRound,
  type Setting,
  type Throughput,
  throughputRound
} from "./submission/rounds.ts"

const options = readOptions(import.meta.url, {
  quick: flag("Fewer and shorter rounds, for rough figures"),
  json: flag("Prints the report as JSON"),
  profile: flag("Writes CPU profiles of the gateway's workers to the working directory, too")
})

const plan = options.quick
  ? {
    rounds: 1,
    throughput: { warmUp: 1000, operations: 4000 },
    distant: { warmUp: 500, operations: 1500 },
    latency: { perSecond: 100, warmUp: 1, duration: 5 }
  }
  : {
    rounds: 3,
    throughput: { warmUp: 3000, operations: 12_000 },
    distant: { warmUp: 1000, operations: 3000 },
    latency: { perSecond: 100, warmUp: 2, duration: 10 }
  }

/** Rounds of all contestants in turn, so that other load on the machine affects each. The order alternates. */
const alternate = Effect.fnUntraced(function*<Round, E, R>(
  contestants: ReadonlyArray<Contestant>,
  run: (contestant: Contestant) => Effect.Effect<Round, E, R>,
  figure: (round: Round) => string,
  progress: Progress
) {
  const all = contestants.map((contestant) => ({ contestant, rounds: [] as Array<Round> }))
  for (let round = 1; round <= plan.rounds; round++) {
    for (const { contestant, rounds } of round % 2 === 1 ? all : all.toReversed()) {
      const found = yield* run(contestant)
      yield* say(
        `${contestant.name}, round ${round} of ${plan.rounds}: ${figure(found)}; load ${os.loadavg()[0]!.toFixed(1)}`
      )
      rounds.push(found)
      progress.advance()
    }
  }
  return all.map(({ contestant, rounds }): Rounds<Round> => ({ name: contestant.name, rounds }))
})

const perSecond = (round: Throughput) => `${round.operationsPerSecond.toFixed(0)} operations/s`
const typical = (round: Latency) => `${median(round.latencies).toFixed(2)} ms`

const benchmark = Effect.gen(function*() {
  yield* migrate
  const { grant } = yield* (yield* Grants).issue(grantFor("payer"))
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const address = { database, port, socketDirectory, username }
  const setting: Setting = {
    database: address,
    grant,
    postmaster: yield* postmasterPid,
    profile: options.profile
  }
  const queue = yield* makeLedgerQueue(grant)
  yield* ageLedger(queue, 20_000)
  const peer = yield* makePeerQueue(20_000)
  return yield* withProgress(
    { label: "Measuring", unit: "rounds", total: plan.rounds * 10 },
    (progress) => measure(setting, queue, peer, progress)
  )
})

/** Ten contestants: four of the throughput, three of the throughput at a distance, and three of the latency. */
const measure = Effect.fnUntraced(function*(setting: Setting, queue: Queue, peer: Queue, progress: Progress) {
  const one: Contestant = { name: "one worker", queue, workers: 1, answer: "at once", listens: true, delay: 0 }
  const peers: Contestant = { ...one, name: "peer", queue: peer }
  const throughput = yield* alternate(
    [
      one,
      { ...one, name: "two workers", workers: 2 },
      { ...one, name: "one worker, acknowledged, then read", answer: "acknowledged" },
      peers
    ],
    (contestant) => throughputRound(setting, contestant, plan.throughput),
    perSecond,
    progress
  )
  const distant = yield* alternate(
    [
      { ...one, delay: distance },
      { ...one, name: "two workers", workers: 2, delay: distance },
      { ...peers, delay: distance }
    ],
    (contestant) => throughputRound(setting, contestant, plan.distant),
    perSecond,
    progress
  )
  const latency = yield* alternate(
    [
      { ...one, name: "one worker, notified" },
      { ...one, name: "one worker, polling alone", listens: false },
      { ...peers, name: "peer, notified" }
    ],
    (contestant) => latencyRound(setting, contestant, plan.latency),
    typical,
    progress
  )
  return { throughput, distant, latency }
})

const main = Effect.gen(function*() {
  const report = yield* benchmark.pipe(
    Effect.scoped,
    Effect.provide(PgAcceptanceSignal.layer),
    Effect.provide(BenchDatabase)
  )
  process.stdout.write(options.json ? toJson(report) : toTable(report))
  const errors = errorsOf(report)
  for (const error of errors) yield* say(error)
  if (errors.length > 0) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
