/** The database of a benchmark: the services issue the grants, and SQL inserts a million operations directly. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { LocalPostgres } from "../../src/node/embedded/LocalPostgres.ts"
import { type GrantRequest, Grants, type IssuedGrant } from "../../src/services/Grants.ts"
import { migrate } from "../../src/services/Migrations.ts"
import type { DatabaseAddress } from "./processes.ts"
import { type Progress, withProgress } from "./progress.ts"

/** A million rows with their indexes take about 0.7 GB; the default of 128 MB would measure the disk. */
const defaultSettings = { shared_buffers: "1GB", max_wal_size: "4GB", maintenance_work_mem: "256MB" }

const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "gateway-bench-"))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
)

const databaseOn = (dataDirectory: string, settings: Readonly<Record<string, string>> = defaultSettings) => {
  const Client = Layer.unwrap(
    Effect.map(
      LocalPostgres,
      ({ database, port, socketDirectory, username }) =>
        PgClient.layer({ host: socketDirectory, port, username, database })
    )
  )
  return Grants.layer.pipe(
    Layer.provideMerge(Client),
    Layer.provideMerge(LocalPostgres.layer({ dataDirectory, settings })),
    Layer.provideMerge(Layer.merge(NodeServices.layer, NodeCrypto.layer))
  )
}

/** The directory of a kept database: one for each list of numbers of operations. */
const keptDirectory = (keep: string, counts: ReadonlyArray<number>) => path.join(keep, `operations-${counts.join("-")}`)

const readersFile = (keep: string, counts: ReadonlyArray<number>) =>
  path.join(keptDirectory(keep, counts), "readers.json")

/** The data directory of a kept database. What an interrupted seed left is removed. */
const keptData = (keep: string, counts: ReadonlyArray<number>) =>
  Effect.sync(() => {
    const directory = keptDirectory(keep, counts)
    if (!fs.existsSync(readersFile(keep, counts))) fs.rmSync(directory, { recursive: true, force: true })
    fs.mkdirSync(directory, { recursive: true })
    return path.join(directory, "data")
  })

/**
 * PostgreSQL with these settings for as long as it is used, `SqlClient` as its superuser, and the services that issue grants. Its
 * data stays in the directory, or goes at the end if there is none.
 */
export const databaseWith = (settings: Readonly<Record<string, string>>, keep: string | null = null) =>
  Layer.unwrap(
    Effect.map(
      keep === null ? temporaryDirectory : Effect.succeed(path.join(keep, "data")),
      (directory) => databaseOn(directory, settings)
    )
  )

export const BenchDatabase = databaseWith(defaultSettings)

/** The same. If `keep` is a directory, the database stays there for later runs with the same numbers of operations. */
export const benchDatabase = (keep: string | null, counts: ReadonlyArray<number>) =>
  keep === null ? BenchDatabase : Layer.unwrap(Effect.map(keptData(keep, counts), (directory) => databaseOn(directory)))

/** The address of that database, for processes. */
export const databaseAddress = LocalPostgres.use(({ database, port, socketDirectory, username }) =>
  Effect.succeed<DatabaseAddress>({ database, port, socketDirectory, username })
)

/** A reading client, and the operations that it can read. */
export interface Reader {
  readonly token: string
  /** Ids of up to 20,000 operations of the reader, spread over the table. */
  readonly ids: ReadonlyArray<string>
}

/** The owner of this number of operations. */
export const ownerOf = (count: number): string => `owner-of-${count}`

/** A grant of an owner at the provider `bank`. It outlives a kept database's use. */
export const grantFor = (owner: string) =>
  ({
    resource_owner: owner,
    subject: `subject-of-${owner}`,
    client_id: "agent",
    provider: "bank",
    scopes: ["operations:read"],
    expires_in: Duration.days(365)
  }) as unknown as GrantRequest

/**
 * One operation every 30 seconds until now; 95 % succeeded. The constraints of the table hold for each row. Keys are
 * unique for the subject, and ids are as old as their operations.
 */
const insertOperations = `
  INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
    request_digest, state, revision, created_at, updated_at, completed_at, failure_code, failure_message, provider,
    due_at, timeline, change_position)
  SELECT uuidv7(o.created_at - clock_timestamp()), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id,
    CASE n % 10 WHEN 0 THEN 'payment.refund' WHEN 1 THEN 'transfer' ELSE 'payment' END, 'key-' || n,
    sha256(convert_to(n::text, 'UTF8')), o.state,
    CASE o.state WHEN 'accepted' THEN 1 WHEN 'submitting' THEN 2 WHEN 'cancelled' THEN 2 ELSE 4 END,
    o.created_at, o.updated_at,
    CASE WHEN o.state IN ('succeeded', 'failed', 'cancelled') THEN o.updated_at END,
    CASE o.state WHEN 'failed' THEN 'account_closed' END,
    CASE o.state WHEN 'failed' THEN 'The account of the recipient is closed.' END,
    p.provider, CASE WHEN o.state NOT IN ('succeeded', 'failed', 'cancelled') THEN now() END,
    (SELECT ledger_timeline()), 1
  FROM grants g
  JOIN provider_connections p ON p.id = g.provider_connection_id
  CROSS JOIN generate_series($2::int, $3::int, -1) AS n
  CROSS JOIN LATERAL (
    SELECT date_trunc('milliseconds', now() - n * interval '30.017 seconds') AS created_at,
      date_trunc('milliseconds', now() - n * interval '30.017 seconds' + interval '12.345 seconds') AS updated_at,
      CASE
        WHEN n % 100 < 95 THEN 'succeeded'
        WHEN n % 100 < 97 THEN 'failed'
        ELSE (ARRAY['accepted', 'submitting', 'submitted', 'indeterminate', 'cancelled'])[1 + n / 100 % 5]
      END AS state
  ) AS o
  WHERE g.id = $1`

const sampleIds = "SELECT id FROM operations WHERE grant_id = $1 AND (random() < 0.02 OR $2) LIMIT 20000"

/** Disables the triggers of a table for a seed. Those of operations would set the dates and write the history. */
export const withoutTriggers = <A, E, R>(effect: Effect.Effect<A, E, R>, table = "operations") =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const always = yield* sql<{ readonly name: string }>`
      SELECT tgname AS name FROM pg_trigger WHERE tgrelid = ${table}::regclass AND tgenabled = 'A'`
    yield* sql`ALTER TABLE ${sql(table)} DISABLE TRIGGER ALL`
    yield* effect
    yield* sql`ALTER TABLE ${sql(table)} ENABLE TRIGGER ALL`
    for (const { name } of always) yield* sql`ALTER TABLE ${sql(table)} ENABLE ALWAYS TRIGGER ${sql(name)}`
  })

/** Rows of one statement of the seed: its progress moves in such steps. */
const seedBatch = 25_000

/** Inserts the operations of an owner, the oldest first. */
const seed = (grantId: string, count: number, progress: Progress) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    for (let oldest = count; oldest > 0; oldest -= seedBatch) {
      yield* sql.unsafe(insertOperations, [grantId, oldest, Math.max(1, oldest - seedBatch + 1)])
      progress.advance(Math.min(oldest, seedBatch))
    }
  })

/** Applies the migrations and seeds one owner for each number of operations. */
export const prepareDatabase = Effect.fnUntraced(function*(counts: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  const grants = yield* Grants
  yield* migrate
  const issued: Array<readonly [IssuedGrant, number]> = []
  for (const count of counts) issued.push([yield* grants.issue(grantFor(ownerOf(count))), count])
  const total = counts.reduce((sum, count) => sum + count, 0)
  yield* withProgress(
    { label: "Seeding", unit: "operations", total },
    (progress) =>
      sql.withTransaction(withoutTriggers(
        Effect.forEach(issued, ([{ grant }, count]) => seed(grant.grant_id, count, progress), { discard: true })
      ))
  )
  yield* sql.unsafe("VACUUM (ANALYZE)").unprepared
  return yield* Effect.forEach(issued, ([{ access_token, grant }, count]) =>
    Effect.map(
      sql.unsafe<{ readonly id: string }>(sampleIds, [grant.grant_id, count <= 20_000]),
      (rows): Reader => ({ token: Redacted.value(access_token), ids: rows.map(({ id }) => id) })
    ))
})

/**
 * The readers of a `benchDatabase` with one owner for each number of operations. A kept database is seeded once; later
 * runs only apply new migrations.
 */
export const prepareReaders = Effect.fnUntraced(function*(keep: string | null, counts: ReadonlyArray<number>) {
  const file = keep === null ? null : readersFile(keep, counts)
  if (file !== null && fs.existsSync(file)) {
    yield* migrate
    return JSON.parse(fs.readFileSync(file, "utf8")) as ReadonlyArray<Reader>
  }
  const readers = yield* prepareDatabase(counts)
  // It holds access tokens.
  if (file !== null) fs.writeFileSync(file, JSON.stringify(readers), { mode: 0o600 })
  return readers
})

/** Process id of the PostgreSQL server: the first line of its `postmaster.pid`. */
export const postmasterPid = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ readonly data_directory: string }>("SHOW data_directory")
  return Number.parseInt(fs.readFileSync(`${row!.data_directory}/postmaster.pid`, "utf8"), 10)
})
