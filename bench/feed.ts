/**
 * `npm run bench:feed`: measures what the change feed costs writers. The same writers work on two databases of one server, in
 * alternating rounds: one has the feed, the other has neither its indexes nor its part of the triggers.
 *
 *     npm run bench:feed -- --quick
 *
 * Linux only: CPU time is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, References } from "effect"
import * as os from "node:os"
import { type Progress, withProgress } from "../src/cli/ProgressBar.ts"
import { makeLedgers } from "./feed/ledgers.ts"
import { type FeedRounds, toJson, toTable } from "./feed/report.ts"
import { type Contestant, type FeedRound, runRound } from "./feed/rounds.ts"
import { BenchDatabase, postmasterPid } from "./shared/database.ts"
import { say } from "./shared/progress.ts"
import { flag, readOptions, whole } from "./shared/usage.ts"

const options = readOptions(import.meta.url, {
  rounds: whole("Rounds of each contestant, 7 or with --quick 3", { from: 1, to: 1000, default: null }),
  operations: whole("Operations in a round, 1500 or with --quick 500", { from: 10, to: 1_000_000, default: null }),
  age: whole("Settled operations of each ledger before the first round", { from: 0, to: 10_000_000, default: 20_000 }),
  quick: flag("Fewer and shorter rounds, for rough figures"),
  json: flag("Prints the report as JSON")
})

const rounds = options.rounds ?? (options.quick ? 3 : 7)
const operations = options.operations ?? (options.quick ? 500 : 1500)
const { age } = options

const benchmark = Effect.gen(function*() {
  const { withFeed, without } = yield* withProgress(
    { label: "Preparing two ledgers", unit: "operations", total: 2 * age },
    (progress) => makeLedgers(age, progress)
  )
  const postmaster = yield* postmasterPid
  const contestants: ReadonlyArray<Contestant> = [
    { name: "without the feed", ledger: without, isRead: false },
    { name: "with the feed", ledger: withFeed, isRead: false },
    { name: "with one reader of the ledger feed at 20 reads/s", ledger: withFeed, isRead: true }
  ]
  return yield* withProgress(
    { label: "Measuring", unit: "rounds", total: rounds * contestants.length },
    (progress) => measure(contestants, postmaster, progress)
  )
})

const measure = Effect.fnUntraced(function*(
  contestants: ReadonlyArray<Contestant>,
  postmaster: number,
  progress: Progress
) {
  const all = contestants.map((contestant) => ({ contestant, rounds: [] as Array<FeedRound> }))
  for (let round = 1; round <= rounds; round++) {
    // The order alternates, so that other load on the machine affects each.
    for (const { contestant, rounds: found } of round % 2 === 1 ? all : all.toReversed()) {
      const figures = yield* runRound(contestant, operations, postmaster)
      progress.advance()
      yield* say(
        `${contestant.name}, round ${round} of ${rounds}: ${figures.operationsPerSecond.toFixed(0)} operations/s; `
          + `load ${os.loadavg()[0]!.toFixed(1)}`
      )
      found.push(figures)
    }
  }
  return all.map(({ contestant, rounds }): FeedRounds => ({ name: contestant.name, rounds }))
})

const main = Effect.gen(function*() {
  const report = yield* benchmark.pipe(Effect.scoped, Effect.provide(BenchDatabase))
  process.stdout.write(options.json ? toJson(report) : toTable(report))
})

NodeRuntime.runMain(Effect.provideService(main, References.TracerEnabled, false))
