/**
 * `npm run storm`: 100,000 acceptances by 1,000 concurrent callers, on a PostgreSQL of its own.
 *
 *     npm run storm -- --accepts 100000 --callers 1000
 *
 * Exits with 1 if a key got two operations, or a conflict was not refused.
 */
import { NodeCrypto, NodeRuntime, NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Console, Duration, Effect, FileSystem, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { readOptions, whole } from "../../../../bench/shared/usage.ts"
import { withProgress } from "../../../../src/cli/ProgressBar.ts"
import { ClientId, operationsRead, PairwiseSubject, ProviderName, ResourceOwner } from "../../../../src/domain/Grant.ts"
import { LocalPostgres } from "../../../../src/node/embedded/LocalPostgres.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { migrate } from "../../../../src/services/Migrations.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { storm } from "./Storm.ts"

const values = readOptions(import.meta.url, {
  accepts: whole("Acceptances in all", { from: 1, to: 10_000_000, default: 100_000 }),
  callers: whole("Concurrent callers", { from: 1, to: 100_000, default: 1000 }),
  repetitions: whole("Acceptances of each key", { from: 1, to: 100_000, default: 20 })
})

const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)

const Database = Layer.unwrap(Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  return LocalPostgres.layer({ dataDirectory: yield* fs.makeTempDirectoryScoped() })
}))

/** Connections of one process. */
const Pool = Layer.unwrap(
  LocalPostgres.use(({ database, port, socketDirectory, username }) =>
    Effect.succeed(
      PgClient.layer({ host: socketDirectory, port, username, database, multiplex: true, maxConnections: 4 })
    )
  )
)

const issue = Grants.use((grants) =>
  grants.issue({
    resource_owner: ResourceOwner.make("owner"),
    subject: PairwiseSubject.make("subject"),
    client_id: ClientId.make("client"),
    provider: ProviderName.make("bank"),
    scopes: [operationsRead],
    expires_in: Duration.days(1)
  })
)

const processes = 4

const main = Effect.gen(function*() {
  const database = yield* Layer.build(Layer.fresh(Pool))
  const sql = yield* SqlClient.SqlClient.pipe(Effect.provideContext(database))
  yield* Effect.provideContext(migrate, database)
  const { grant } = yield* issue.pipe(
    Effect.provide(Grants.layer.pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, sql))))
  )
  const { grant_id, client_id, subject } = grant
  const ledgers = yield* Effect.all(
    Array.from({ length: processes }, () => Layer.build(Layer.fresh(OperationLedger.layer.pipe(Layer.provide(Pool)))))
  )
  const result = yield* withProgress(
    { label: "Accepting", unit: "acceptances", total: values.accepts },
    (progress) =>
      storm({
        ...values,
        processes: ledgers,
        grant: { grant_id, client_id, subject },
        onAnswer: () => progress.advance()
      })
  )
  const [stored] = yield* sql<{ readonly operations: number; readonly payloads: number }>`
    SELECT (SELECT count(*)::int FROM operations) AS operations,
      (SELECT count(*)::int FROM operation_payloads) AS payloads`
  const { created, conflicts, keys, p50, p99, replayed, seconds, violations } = result
  const isWhole = stored!.operations === keys && stored!.payloads === keys && violations.length === 0
  yield* Console.log([
    `${values.accepts} acceptances by ${values.callers} concurrent callers, through ${processes} connection pools`,
    `  keys                 ${keys}`,
    `  operations created   ${created} (${stored!.operations} stored)`,
    `  repetitions          ${replayed}, each with the operation of its key`,
    `  conflicts            ${conflicts}, each refused`,
    `  time                 ${seconds.toFixed(1)} s, ${Math.round(values.accepts / seconds)} a second`,
    `  of one acceptance    p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`,
    isWhole ? "  violations           none" : `  VIOLATIONS\n${violations.slice(0, 20).join("\n")}`
  ].join("\n"))
  if (!isWhole) process.exitCode = 1
}).pipe(Effect.provide(Database), Effect.scoped, Effect.provide(Platform))

NodeRuntime.runMain(main)
