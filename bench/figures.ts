/**
 * `npm run bench:figures`: measures what figures about the ledger cost its readers and its writers.
 *
 *     npm run bench:figures -- --quick
 *
 * Writers work in alternating rounds on three databases of one server: without the indexes and triggers of the figures, with the
 * indexes alone, and with both and a fold every five seconds. Linux only: CPU time is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, References } from "effect"
import * as os from "node:os"
import { withProgress } from "../src/cli/ProgressBar.ts"
import { measureReads } from "./figures/reads.ts"
import { toJson, toTable } from "./figures/report.ts"
import { makeContestants, runRound, type WriterRound } from "./figures/writers.ts"
import { BenchDatabase, postmasterPid } from "./shared/database.ts"
import { say } from "./shared/progress.ts"
import { flag, readOptions, text, whole } from "./shared/usage.ts"

const isSize = (size: string) => /^[0-9]{4,8}$/.test(size) && Number(size) <= 10_000_000

const options = readOptions(import.meta.url, {
  sizes: text("Operations of the ledgers that are read; a tenth of them is unsettled", {
    takes: "N,N",
    default: "10000,100000,1000000",
    problem: (sizes) =>
      sizes.split(",").every(isSize) ? null : "must be numbers from 1,000 to 10,000,000, separated by commas"
  }),
  rounds: whole("Rounds of each kind of writers, 7 or with --quick 3", { from: 1, to: 1000, default: null }),
  operations: whole("Operations in a round, 1500 or with --quick 500", { from: 10, to: 1_000_000, default: null }),
  age: whole("Settled operations of the writers' ledgers before the first round", {
    from: 0,
    to: 10_000_000,
    default: 20_000
  }),
  quick: flag("Sizes up to 100,000, and fewer and shorter rounds, for rough figures"),
  json: flag("Prints the report as JSON")
})

const sizes = (options.quick ? "10000,100000" : options.sizes).split(",").map(Number).toSorted((a, b) => a - b)
const rounds = options.rounds ?? (options.quick ? 3 : 7)
const operations = options.operations ?? (options.quick ? 500 : 1500)
const { age } = options

const benchmark = Effect.gen(function*() {
  const contestants = yield* withProgress(
    { label: "Preparing three ledgers", unit: "operations", total: 3 * age },
    (progress) => makeContestants(age, progress)
  )
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
