/**
 * `npm run bench:figures`: measures what figures about the ledger cost its readers and its writers.
 *
 *   --sizes N,N     operations of the ledger that is read (default 10000,100000,1000000); a tenth of them is unsettled
 *   --rounds N      rounds of each kind of writers (default 7)
 *   --operations N  operations in a round (default 1500)
 *   --age N         settled operations of the writers' ledgers before the first round (default 20000)
 *   --quick         sizes up to 100,000, and 3 rounds of 500 operations, for rough figures
 *   --json          the report as JSON on stdout
 *   --help          this text
 *
 * Writers work in alternating rounds on three databases of one server: without the indexes and triggers of the figures, with the
 * indexes alone, and with both and a fold every five seconds. Linux only: CPU time is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, References } from "effect"
import * as os from "node:os"
import { measureReads } from "./figures/reads.ts"
import { toJson, toTable } from "./figures/report.ts"
import { makeContestants, runRound, type WriterRound } from "./figures/writers.ts"
import { BenchDatabase, postmasterPid } from "./shared/database.ts"
import { say } from "./shared/progress.ts"
import { readNumber, readOptions } from "./shared/usage.ts"

const options = readOptions(import.meta.url, {
  sizes: { type: "string", default: "10000,100000,1000000" },
  rounds: { type: "string", default: "7" },
  operations: { type: "string", default: "1500" },
  age: { type: "string", default: "20000" },
  quick: { type: "boolean", default: false },
  json: { type: "boolean", default: false }
})

const sizes = (options.quick ? "10000,100000" : options.sizes).split(",")
  .map((size) => Math.round(readNumber("--sizes", size, 1000, 10_000_000)))
  .toSorted((a, b) => a - b)
const rounds = options.quick ? 3 : readNumber("--rounds", options.rounds, 1, 1000)
const age = readNumber("--age", options.age, 0, 10_000_000)
const operations = options.quick ? 500 : readNumber("--operations", options.operations, 10, 1_000_000)

const benchmark = Effect.gen(function*() {
  const contestants = yield* makeContestants(age)
  const postmaster = yield* postmasterPid
  const all = contestants.map((contestant) => ({ contestant, rounds: [] as Array<WriterRound> }))
  for (let round = 1; round <= rounds; round++) {
    // The order alternates, so that other load on the machine affects each.
    for (const { contestant, rounds: found } of round % 2 === 1 ? all : all.toReversed()) {
      const figures = yield* runRound(contestant, operations, postmaster)
      yield* say(
        `${contestant.name}, round ${round} of ${rounds}: ${
          figures.databaseCpu.toFixed(0)
        } us of the database an operation; `
          + `load ${os.loadavg()[0]!.toFixed(1)}`
      )
      found.push(figures)
    }
  }
  const reads = yield* measureReads(sizes)
  return { writers: all.map(({ contestant: { name }, rounds }) => ({ name, rounds })), reads }
})

const main = Effect.gen(function*() {
  const report = yield* benchmark.pipe(Effect.scoped, Effect.provide(BenchDatabase))
  process.stdout.write(options.json ? toJson(report) : toTable(report))
})

NodeRuntime.runMain(Effect.provideService(main, References.TracerEnabled, false))
