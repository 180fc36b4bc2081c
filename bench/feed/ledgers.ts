/**
 * The two ledgers of the benchmark, in two databases of one server: as the migrations make it, and without the change feed.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Progress } from "../../src/cli/ProgressBar.ts"
import type { GrantIdentity } from "../../src/domain/Grant.ts"
import { LocalPostgres } from "../../src/node/embedded/LocalPostgres.ts"
import { Grants } from "../../src/services/Grants.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { OperationFeed } from "../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import { grantFor } from "../shared/database.ts"

/** Writers at the same time, each with a connection. */
export const writers = 8

export interface BenchLedger {
  readonly sql: SqlClient.SqlClient
  readonly ledger: OperationLedger["Service"]
  readonly feed: OperationFeed["Service"]
  readonly queue: SubmissionQueue["Service"]
  readonly grant: GrantIdentity
}

/** What the triggers do for the feed, and what they would do without it. */
const withoutPositions: ReadonlyArray<readonly [trigger: string, text: string, replacement: string]> = [
  ["operations_accept", "h.change_offset + pg_current_xact_id()::text::bigint", "1"],
  [
    "operations_transition",
    `
  SELECT change_offset + pg_current_xact_id()::text::bigint INTO NEW.change_position FROM ledger_home;
  NEW.evidence`,
    `
  NEW.evidence`
  ]
]

/** Removes the indexes of the feed, and its part of the triggers. Dies if the triggers are not as expected. */
const removeFeed = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DROP INDEX operations_by_change`
  yield* sql`DROP INDEX operations_by_owner_change`
  for (const [trigger, text, replacement] of withoutPositions) {
    const [row] = yield* sql<{ readonly definition: string }>`
      SELECT pg_get_functiondef(${trigger}::regproc) AS definition`
    const { definition } = row!
    if (!definition.includes(text)) {
      return yield* Effect.die(new Error(`${trigger} changed: adapt bench/feed/ledgers.ts to it`))
    }
    yield* sql.unsafe(definition.replace(text, () => replacement)).unprepared
  }
})

const fill = `
  INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
    request_digest, state, revision)
  SELECT uuidv7(), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id, 'payment', $2::text || n,
    sha256(convert_to(n::text, 'UTF8')), 'accepted', 1
  FROM grants g CROSS JOIN generate_series(1, $3::int) AS n
  WHERE g.id = $1`

/** Adds this many settled operations, each batch in a transaction of its own, so that the positions differ. */
const ageLedger = Effect.fnUntraced(function*(grant: GrantIdentity, age: number, progress: Progress) {
  const sql = yield* SqlClient.SqlClient
  for (let batch = 0; batch < 20; batch++) {
    yield* sql.unsafe(fill, [grant.grant_id, `old-${batch}-`, Math.ceil(age / 20)])
    yield* sql`UPDATE operations SET state = 'cancelled', revision = 2 WHERE state = 'accepted'`
    progress.advance(age / 20)
  }
  yield* sql.unsafe("VACUUM (ANALYZE)").unprepared
})

/** The services on a database of the server. */
export const servicesOn = (database: string) =>
  Layer.fresh(Layer.mergeAll(OperationLedger.layer, OperationFeed.layer, SubmissionQueue.layer, Grants.layer)).pipe(
    Layer.provideMerge(Layer.unwrap(Effect.map(
      LocalPostgres,
      ({ port, socketDirectory, username }) =>
        PgClient.layer({ host: socketDirectory, port, username, database, maxConnections: writers + 2 })
    )))
  )

/** A ledger in this database, prepared after its migration, with this many settled operations. It runs for as long as the scope. */
export const makeLedger = Effect.fnUntraced(function*<E>(
  database: string,
  age: number,
  progress: Progress,
  prepare: Effect.Effect<void, E, SqlClient.SqlClient>
) {
  const services = yield* Layer.build(servicesOn(database))
  return yield* Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* migrate
    yield* prepare
    const { grant } = yield* (yield* Grants).issue(grantFor("payer"))
    yield* ageLedger(grant, age, progress)
    const { client_id, grant_id, subject } = grant
    const found: BenchLedger = {
      sql,
      ledger: yield* OperationLedger,
      feed: yield* OperationFeed,
      queue: yield* SubmissionQueue,
      grant: { client_id, grant_id, subject }
    }
    return found
  }).pipe(Effect.provide(services))
})

/** Both ledgers, with this many settled operations. They run for as long as the scope. */
export const makeLedgers = Effect.fnUntraced(function*(age: number, progress: Progress) {
  const { database } = yield* LocalPostgres
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe("CREATE DATABASE without_feed").unprepared
  return {
    withFeed: yield* makeLedger(database, age, progress, Effect.void),
    without: yield* makeLedger("without_feed", age, progress, removeFeed)
  }
})
