/**
 * `npm run bench:feed`: measures what the change feed costs writers. The same writers work on two databases of one server, in
 * alternating rounds: one has the feed, the other has neither its indexes nor its part of the triggers.
 *
 *   --rounds N      rounds of each contestant (default 7)
 *   --operations N  operations in a round (default 1500)
 *   --age N         settled operations of each ledger before the first round (default 20000)
 *   --quick         3 rounds of 500 operations, for rough figures
 *   --json          the report as JSON on stdout
 *   --help          this text
 *
 * Linux only: CPU time is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, References } from "effect"
import * as os from "node:os"
import { makeLedgers } from "./feed/ledgers.ts"
import { type FeedRounds, toJson, toTable } from "./feed/report.ts"
import { type Contestant, type FeedRound, runRound } from "./feed/rounds.ts"
import { BenchDatabase, postmasterPid } from "./shared/database.ts"
import { say } from "./shared/progress.ts"
import { readNumber, readOptions } from "./shared/usage.ts"

const options = readOptions(import.meta.url, {
  rounds: { type: "string", default: "7" },
  operations: { type: "string", default: "1500" },
  age: { type: "string", default: "20000" },
  quick: { type: "boolean", default: false },
  json: { type: "boolean", default: false }
})

const rounds = options.quick ? 3 : readNumber("--rounds", options.rounds, 1, 1000)
const operations = options.quick ? 500 : readNumber("--operations", options.operations, 10, 1_000_000)
const age = readNumber("--age", options.age, 0, 10_000_000)

const benchmark = Effect.gen(function*() {
  yield* say("Preparing two ledgers …")
  const { withFeed, without } = yield* makeLedgers(age)
  const postmaster = yield* postmasterPid
  const contestants: ReadonlyArray<Contestant> = [
    { name: "without the feed", ledger: without, isRead: false },
    { name: "with the feed", ledger: withFeed, isRead: false },
    { name: "with one reader of the ledger feed at 20 reads/s", ledger: withFeed, isRead: true }
  ]
  const all = contestants.map((contestant) => ({ contestant, rounds: [] as Array<FeedRound> }))
  for (let round = 1; round <= rounds; round++) {
    // The order alternates, so that other load on the machine affects each.
    for (const { contestant, rounds: found } of round % 2 === 1 ? all : all.toReversed()) {
      const figures = yield* runRound(contestant, operations, postmaster)
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
