/**
 * `npm run bench:writes`: measures what the statements of a submission cost PostgreSQL: accept, claim and record.
 *
 *     npm run bench:writes -- --clients 8
 *
 * One session accepts operations one by one, claims them in batches, and records the outcomes of each batch. The figures are the
 * CPU time of its backend and the WAL, for each operation. Linux only: CPU time is read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, References } from "effect"
import { withProgress } from "../src/cli/ProgressBar.ts"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { OperationLedger } from "../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../src/services/SubmissionQueue.ts"
import { BenchDatabase } from "./shared/database.ts"
import { flag, readOptions, whole } from "./shared/usage.ts"
import { prepareLedger } from "./writes/ledger.ts"
import { toJson, toTable } from "./writes/report.ts"
import { measureRounds } from "./writes/rounds.ts"

const options = readOptions(import.meta.url, {
  age: whole("Settled operations of the ledger before the first round", { from: 0, to: 10_000_000, default: 20_000 }),
  batch: whole("Operations of a claim and of a recording", { from: 1, to: 1000, default: 32 }),
  clients: whole("Clients of the provider: a claim visits each", { from: 1, to: 1000, default: 1 }),
  rounds: whole("Rounds, 7 or with --quick 3", { from: 1, to: 1000, default: null }),
  operations: whole("Operations in a round", { from: 10, to: 1_000_000, default: 640 }),
  quick: flag("Fewer rounds, for rough figures"),
  json: flag("Prints the report as JSON")
})

/** The services on one connection, so that one backend does all the work. */
const services = Layer.mergeAll(OperationLedger.layer, SubmissionQueue.layer).pipe(
  Layer.provideMerge(Layer.unwrap(Effect.map(
    LocalPostgres,
    ({ database, port, socketDirectory, username }) =>
      PgClient.layer({ host: socketDirectory, port, username, database, maxConnections: 1 })
  )))
)

const benchmark = Effect.gen(function*() {
  const identities = yield* withProgress(
    { label: "Preparing the ledger", unit: "operations", total: options.age },
    (progress) => prepareLedger(options.clients, options.age, progress)
  )
  const rounds = options.rounds ?? (options.quick ? 3 : 7)
  return yield* withProgress(
    { label: "Measuring", unit: "rounds", total: rounds },
    (progress) => measureRounds(identities, { ...options, rounds }, progress).pipe(Effect.provide(services))
  )
})

const main = Effect.gen(function*() {
  const report = yield* benchmark.pipe(Effect.scoped, Effect.provide(BenchDatabase))
  process.stdout.write(options.json ? toJson(report) : toTable(report))
})

NodeRuntime.runMain(Effect.provideService(main, References.TracerEnabled, false))
