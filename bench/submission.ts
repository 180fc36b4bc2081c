/**
 * `npm run bench:submission`: measures the throughput of workers, and the delay from acceptance to submission. The peers
 * are graphile-worker, pg-boss and a hand-written job queue, on the same database and against the same sandbox provider,
 * in alternating rounds. Ratios need the contestant `one-worker`.
 *
 *     npm run bench:submission -- --quick
 *     npm run bench:submission -- --quick --measure throughput --only one-worker --only pg-boss
 *
 * Exits with 1 if an operation did not succeed, or if the provider did not receive it exactly once. Linux only: CPU time
 * is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as os from "node:os"
import { PgAcceptanceSignal } from "../src/node/postgres/PgAcceptanceSignal.ts"
import { Grants } from "../src/services/Grants.ts"
import { migrate } from "../src/services/Migrations.ts"
import { BenchDatabase, databaseAddress, grantFor, postmasterPid } from "./shared/database.ts"
import { print, say } from "./shared/report.ts"
import { alternate } from "./shared/rounds.ts"
import { median } from "./shared/statistics.ts"
import { choices, fail, flag, readOptions } from "./shared/usage.ts"
import { distance, type SystemName } from "./submission/config.ts"
import {
  argumentOf,
  type Contestant,
  contestantArguments,
  type MeasurementName,
  measurementNames,
  measurements,
  systems
} from "./submission/contestants.ts"
import type { Queue } from "./submission/queue.ts"
import { type Rounds, summarize, toTable } from "./submission/report.ts"
import { type Latency, latencyRound, type Setting, type Throughput, throughputRound } from "./submission/rounds.ts"

const options = readOptions(import.meta.url, {
  measure: choices("Measures only this", measurementNames),
  only: choices("Measures only this contestant", contestantArguments),
  quick: flag("Fewer and shorter rounds, for rough figures"),
  json: flag("Prints the report as JSON"),
  profile: flag("Writes CPU profiles of the workers to the working directory, too")
})

const plan = options.quick
  ? {
    rounds: 1,
    throughput: { warmUp: 3000, operations: 4000, delay: 0 },
    distant: { warmUp: 500, operations: 1500, delay: distance },
    latency: { perSecond: 100, warmUp: 2000, duration: 5 }
  }
  : {
    rounds: 3,
    throughput: { warmUp: 3000, operations: 12_000, delay: 0 },
    distant: { warmUp: 1000, operations: 3000, delay: distance },
    latency: { perSecond: 100, warmUp: 3000, duration: 10 }
  }

/** The contestants of a measurement that the options select. */
const selected = (name: MeasurementName): ReadonlyArray<Contestant> =>
  options.measure.includes(name)
    ? measurements[name].filter((contestant) => options.only.includes(argumentOf(contestant)))
    : []

const contestants = measurementNames.flatMap(selected)
if (contestants.length === 0) fail("--measure and --only must select a contestant of one measurement")

/** The rounds of the contestants of a measurement that the options select. */
const measured = Effect.fnUntraced(function*<Round, E, R>(
  name: MeasurementName,
  run: (contestant: Contestant) => Effect.Effect<Round, E, R>,
  figure: (round: Round) => string
) {
  const all = yield* alternate(
    `Measuring ${name}`,
    plan.rounds,
    selected(name),
    (contestant, round) =>
      Effect.tap(
        run(contestant),
        (found) =>
          say(
            `${contestant.name}, round ${round} of ${plan.rounds}: ${figure(found)}; load ${
              os.loadavg()[0]!.toFixed(1)
            }`
          )
      )
  )
  return all.map(({ contestant, rounds }): Rounds<Round> => ({ name: contestant.name, rounds }))
})

const perSecond = (round: Throughput) => `${round.operationsPerSecond.toFixed(0)} operations/s`
const typical = (round: Latency) => `${median(round.latencies).toFixed(2)} ms`

/** Settled submissions in each queue at the start. */
const age = 20_000

const benchmark = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // A checkpoint, by time or by size, would add images of pages to the write-ahead log of its round.
  yield* sql.unsafe("ALTER SYSTEM SET checkpoint_timeout = '1d'").unprepared
  yield* sql.unsafe("ALTER SYSTEM SET max_wal_size = '32GB'").unprepared
  yield* sql`SELECT pg_reload_conf()`
  yield* migrate
  const { grant } = yield* (yield* Grants).issue(grantFor("payer"))
  const address = yield* databaseAddress
  const queues = new Map<SystemName, Queue>()
  for (const name of new Set(contestants.map(({ system }) => system))) {
    queues.set(name, yield* systems[name].prepare(address, grant, age))
  }
  const setting: Setting = {
    database: address,
    grant,
    postmaster: yield* postmasterPid,
    queues,
    profile: options.profile
  }
  const throughput = (name: "throughput" | "distant") =>
    measured(name, (contestant) => throughputRound(setting, contestant, plan[name]), perSecond)
  return summarize({
    throughput: yield* throughput("throughput"),
    distant: yield* throughput("distant"),
    latency: yield* measured("latency", (contestant) => latencyRound(setting, contestant, plan.latency), typical)
  })
})

const main = Effect.gen(function*() {
  const report = yield* benchmark.pipe(
    Effect.scoped,
    Effect.provide(PgAcceptanceSignal),
    Effect.provide(BenchDatabase)
  )
  print(options.json, report, toTable)
  for (const error of report.errors) yield* say(error)
  if (report.errors.length > 0) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
