/**
 * `npm run bench:growth`: measures what each call costs PostgreSQL as the ledger grows, and while an old snapshot is open.
 *
 *     npm run bench:growth -- --quick
 *
 * Ledgers of several sizes stand in one server, and take turns in each round. Then a transaction stays open on a small ledger
 * while ten minutes of work pass: PostgreSQL cannot remove the dead rows of that time. The costs are CPU time of the backend,
 * buffers and WAL of a call. Linux and PostgreSQL 18 only. A size of 10,000,000 takes about 25 GB in the temporary directory.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, References } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as os from "node:os"
import { kindsOf, measureRound } from "./growth/calls.ts"
import { openLedger, warm } from "./growth/ledger.ts"
import { summarize, toTable } from "./growth/report.ts"
import { measureSnapshot } from "./growth/snapshot.ts"
import { databaseWith } from "./shared/database.ts"
import { machine, print, say } from "./shared/report.ts"
import { alternate } from "./shared/rounds.ts"
import { fail, flag, readOptions, text, whole } from "./shared/usage.ts"

const isSize = (size: string) => /^[0-9]{4,8}$/.test(size) && Number(size) >= 1000 && Number(size) <= 20_000_000

const options = readOptions(import.meta.url, {
  sizes: text("Operations of the ledgers, the first of which is the base of the ratios", {
    takes: "N,N",
    default: "10000,100000,1000000,10000000",
    problem: (sizes) =>
      sizes.split(",").every(isSize) ? null : "must be numbers from 1,000 to 20,000,000, separated by commas"
  }),
  rounds: whole("Rounds of each ledger, 9 or with --quick 5", { from: 1, to: 1000, default: null }),
  operations: whole("Operations of a round, 300 or with --quick 200", { from: 10, to: 100_000, default: null }),
  seconds: whole("Seconds of work while a transaction is open, 600 or with --quick 120", {
    from: 1,
    to: 86_400,
    default: null
  }),
  rate: whole("Operations in a second of that work", { from: 10, to: 10_000, default: 200 }),
  buffers: text("Memory of PostgreSQL for pages (shared_buffers)", {
    takes: "SIZE",
    default: "1GB",
    problem: (size) => /^[0-9]{1,4}(MB|GB)$/.test(size) ? null : "must be a size such as 128MB or 4GB"
  }),
  warm: flag("Reads the ledgers into that memory before the rounds, so that no call waits for the disk"),
  keep: text("Directory in which the seeded ledgers stay, so that later runs need no seed", {
    takes: "DIRECTORY",
    default: null
  }),
  quick: flag("Sizes up to 100,000, and fewer and shorter rounds, for rough figures"),
  json: flag("Prints the report as JSON")
})

const sizes = [...new Set((options.quick ? "10000,100000" : options.sizes).split(",").map(Number))]
  .toSorted((a, b) => a - b)
const rounds = options.rounds ?? (options.quick ? 5 : 9)
const operations = options.operations ?? (options.quick ? 200 : 300)
const seconds = options.seconds ?? (options.quick ? 120 : 600)

const measureSizes = Effect.gen(function*() {
  const ledgers = yield* Effect.forEach(sizes, (size) => openLedger(`ledger_${size}`, size))
  if (options.warm) yield* Effect.forEach(ledgers, warm)
  const measured = yield* alternate("Measuring", rounds + 1, ledgers, (ledger) => measureRound(ledger, operations))
  // The first round is a warm-up.
  return summarize(measured.map(({ contestant: { size }, rounds }) => ({ ...size, rounds: rounds.slice(1) })))
}).pipe(Effect.scoped)

/** PostgreSQL takes huge pages if Linux has as many: `sysctl vm.nr_hugepages=8000` are 16 GB. */
const usesHugePages = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly huge_pages_status: string }>`SHOW huge_pages_status`
  return row!.huge_pages_status === "on"
})

const benchmark = Effect.gen(function*() {
  const grown = yield* measureSizes
  yield* say(`Opening a snapshot for ${seconds} seconds of work …`)
  const snapshot = yield* measureSnapshot({ operations, rate: options.rate, rounds, seconds, size: sizes[0]! })
  return {
    machine: machine(),
    sharedBuffers: options.buffers,
    warm: options.warm,
    hugePages: yield* usesHugePages,
    rounds,
    operations,
    kinds: kindsOf,
    grown,
    snapshot
  }
})

/** Bytes of an operation with its history, its indexes and the WAL of the seed. Measured on a ledger of ten million. */
const bytesOfOperation = 2600
/** WAL, temporary files of index builds, and the rows of the rounds. */
const spare = 6e9

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(0)

/** What is lacking for this many operations. Null: nothing. */
const checkDisk = (directory: string, operations: number): string | null => {
  const { bavail, bsize } = fs.statfsSync(directory)
  const [free, needed] = [bavail * bsize, operations * bytesOfOperation + spare]
  return free >= needed
    ? null
    : `${operations.toLocaleString("en")} operations need ${gigabytes(needed)} GB in ${directory}, and ${
      gigabytes(free)
    } GB are free: choose smaller --sizes, or another directory with TMPDIR or --keep`
}

const main = Effect.gen(function*() {
  const isKept = options.keep !== null && fs.existsSync(options.keep)
  if (options.keep !== null) fs.mkdirSync(options.keep, { recursive: true })
  const seeded = isKept ? 0 : sizes.reduce((sum, size) => sum + size, 0)
  const lacking = checkDisk(options.keep ?? os.tmpdir(), seeded)
  if (lacking !== null) return fail(lacking)
  const settings = {
    shared_buffers: options.buffers,
    max_wal_size: "20GB",
    checkpoint_timeout: "1h",
    maintenance_work_mem: "1GB",
    // It would begin by chance in some rounds. The benchmark vacuums once, after the seed.
    autovacuum: "off"
  }
  const report = yield* benchmark.pipe(Effect.scoped, Effect.provide(databaseWith(settings, options.keep)))
  print(options.json, report, toTable)
})

NodeRuntime.runMain(Effect.provideService(main, References.TracerEnabled, false))
