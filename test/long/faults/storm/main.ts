/**
 * `npm run storm`: 100,000 acceptances by 1,000 concurrent callers, on a PostgreSQL of its own.
 *
 *     npm run storm -- --accepts 100000 --callers 1000
 *
 * Exits with 1 if a key got two operations, or a conflict was not refused. With --control it exits with 0 if the judge found the
 * mistake, and with 1 if it found nothing.
 */
import { NodeRuntime } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { BenchDatabase, grantFor } from "../../../../bench/shared/database.ts"
import { withProgress } from "../../../../bench/shared/progress.ts"
import { choice, readOptions, whole } from "../../../../bench/shared/usage.ts"
import { LocalPostgres } from "../../../../src/node/embedded/LocalPostgres.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { migrate } from "../../../../src/services/Migrations.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { atMost, conclude, counted, table } from "../kit/Figure.ts"
import { controls, storm } from "./Storm.ts"

const values = readOptions(import.meta.url, {
  accepts: whole("Acceptances in all", { from: 1, to: 10_000_000, default: 100_000 }),
  callers: whole("Concurrent callers", { from: 1, to: 100_000, default: 1000 }),
  repetitions: whole("Acceptances of each key", { from: 1, to: 100_000, default: 20 }),
  control: choice("Builds a known mistake into the ledger, which the judge must find", ["forgotten-keys"] as const)
})

/** Connections of one process. */
const Pool = Layer.unwrap(
  LocalPostgres.use(({ database, port, socketDirectory, username }) =>
    Effect.succeed(
      PgClient.layer({ host: socketDirectory, port, username, database, multiplex: true, maxConnections: 4 })
    )
  )
)

const processes = 4

const main = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* migrate
  const { grant: { client_id, grant_id, subject } } = yield* Grants.use((grants) => grants.issue(grantFor("payer")))
  const ledgers = yield* Effect.all(
    Array.from({ length: processes }, () => Layer.build(Layer.fresh(OperationLedger.layer.pipe(Layer.provide(Pool)))))
  )
  const control = values.control === null ? null : controls[values.control]
  const result = yield* withProgress(
    { label: "Accepting", unit: "acceptances", total: values.accepts },
    (progress) =>
      storm({
        ...values,
        processes: control === null ? ledgers : ledgers.map(control.make),
        grant: { grant_id, client_id, subject },
        onAnswer: () => progress.advance()
      })
  )
  const [stored] = yield* sql<{ readonly operations: number; readonly payloads: number }>`
    SELECT (SELECT count(*)::int FROM operations) AS operations,
      (SELECT count(*)::int FROM operation_payloads) AS payloads`
  const { conflicts, created, keys, p50, p99, replayed, seconds, violations } = result
  conclude(
    {
      violations: counted("keys with two operations, and conflicts that were not refused", violations),
      stored: atMost("operations stored beyond the keys", stored!.operations - keys, 0),
      payloads: atMost("payloads stored beyond the operations", stored!.payloads - stored!.operations, 0)
    },
    [table([
      ["keys", String(keys)],
      ["operations created", String(created)],
      ["repetitions", String(replayed)],
      ["conflicts", String(conflicts)],
      ["acceptances a second", (values.accepts / seconds).toFixed(0)],
      ["p50 of an acceptance (ms)", p50.toFixed(0)],
      ["p99 of an acceptance (ms)", p99.toFixed(0)]
    ])],
    `${values.accepts} acceptances by ${values.callers} concurrent callers, through ${processes} connection pools`,
    control
  )
}).pipe(Effect.scoped, Effect.provide(BenchDatabase))

NodeRuntime.runMain(main)
