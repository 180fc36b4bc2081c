/**
 * The queues of the peers. Each has a table with a row for each submission, which its worker settles. Filling a queue
 * notifies its workers with the commit, as each peer does by itself.
 */
import { Effect, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { runMigrations } from "graphile-worker"
import { PgBoss } from "pg-boss"
import type { DatabaseAddress } from "../shared/processes.ts"
import { payloadOf, peerChannel, type PeerName, pgOptions, taskName, urlOf } from "./config.ts"
import type { Queue } from "./queue.ts"

interface PeerQueue {
  /** Creates the tables, with `age` settled submissions. */
  readonly create: (database: DatabaseAddress, age: number) => Effect.Effect<void, never, SqlClient.SqlClient>
  readonly open: (database: DatabaseAddress) => Effect.Effect<Queue, never, SqlClient.SqlClient | Scope.Scope>
}

interface Statements {
  /** Yields whether no submission waits or is under way. */
  readonly isDone: string
  /** The table with a row for each submission. */
  readonly table: string
}

type Fill = (count: number, payload: object) => Effect.Effect<ReadonlyArray<string>>

const makeQueue = Effect.fnUntraced(function*({ isDone, table }: Statements, fill: Fill) {
  const sql = yield* SqlClient.SqlClient
  const unsuccessful =
    `SELECT count(*)::int AS count FROM ${table} WHERE id = ANY ($1::uuid[]) AND state <> 'succeeded'`
  const queue: Queue = {
    fill: (_, count, answer) => fill(count, payloadOf(answer)),
    announce: Effect.void,
    isDone: sql.unsafe<{ readonly done: boolean }>(isDone).pipe(
      Effect.map(([row]) => row!.done),
      Effect.orDie
    ),
    unsuccessful: (ids) =>
      sql.unsafe<{ readonly count: number }>(unsuccessful, [ids]).pipe(
        Effect.map(([row]) => row!.count),
        Effect.orDie
      )
  }
  return queue
})

/** Fills by one statement. It takes the count and the payload, and yields all ids as one text. */
const fillBy = Effect.fnUntraced(function*(statement: string) {
  const sql = yield* SqlClient.SqlClient
  const fill: Fill = (count, payload) =>
    sql.unsafe<{ readonly ids: string }>(statement, [count, JSON.stringify(payload)]).pipe(
      Effect.map(([row]) => row!.ids.split(",")),
      Effect.orDie
    )
  return fill
})

const run = Effect.fnUntraced(function*(statements: ReadonlyArray<string>, values: ReadonlyArray<unknown> = []) {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement, values).unprepared
}, Effect.orDie)

const columns = `
  id uuid PRIMARY KEY DEFAULT uuidv7(),
  state text NOT NULL DEFAULT 'waiting',
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz`

const addOld = (table: string) =>
  `INSERT INTO ${table} (state, finished_at) SELECT 'succeeded', now() FROM generate_series(1, $1::int)`

const handWritten: PeerQueue = {
  create: Effect.fnUntraced(function*(_, age) {
    yield* run([
      "CREATE SCHEMA hand_written",
      `CREATE TABLE hand_written.jobs (${columns}, payload json NOT NULL DEFAULT '{}')`,
      "CREATE INDEX ON hand_written.jobs (id) WHERE state = 'waiting'"
    ])
    yield* run([addOld("hand_written.jobs")], [age])
  }),
  open: () =>
    Effect.flatMap(
      fillBy(`
        WITH added AS (
          INSERT INTO hand_written.jobs (payload) SELECT $2::json FROM generate_series(1, $1::int) RETURNING id
        )
        SELECT string_agg(id::text, ',') AS ids, pg_notify('${peerChannel}', $1::int::text)::text FROM added`),
      (fill) =>
        makeQueue({
          // The worker holds the lock of its row until it has settled the row, so none is under way.
          isDone: "SELECT NOT EXISTS (SELECT FROM hand_written.jobs WHERE state = 'waiting') AS done",
          table: "hand_written.jobs"
        }, fill)
    )
}

/** Adds the row and the job in one transaction. `add_jobs` notifies the workers. */
const fillGraphileWorker = `
  WITH added AS (
    INSERT INTO graphile_peer.payments (id) SELECT uuidv7() FROM generate_series(1, $1::int) RETURNING id
  ), specs AS (
    SELECT array_agg((
      '${taskName}', json_build_object('id', id, 'payload', $2::json), NULL, NULL, NULL, NULL, NULL, NULL
    )::graphile_worker.job_spec) AS all_specs
    FROM added
  ), jobs AS (
    SELECT count(*) FROM specs, graphile_worker.add_jobs(all_specs)
  )
  SELECT string_agg(id::text, ',') AS ids FROM added, jobs`

const graphileWorker: PeerQueue = {
  create: Effect.fnUntraced(function*(database, age) {
    yield* Effect.promise(() => runMigrations({ connectionString: urlOf(database) }))
    yield* run(["CREATE SCHEMA graphile_peer", `CREATE TABLE graphile_peer.payments (${columns})`])
    yield* run([addOld("graphile_peer.payments")], [age])
  }),
  open: () =>
    Effect.flatMap(fillBy(fillGraphileWorker), (fill) =>
      makeQueue({
        // A job that is done is deleted.
        isDone: "SELECT NOT EXISTS (SELECT FROM graphile_worker.jobs) AS done",
        table: "graphile_peer.payments"
      }, fill))
}

const producer = (database: DatabaseAddress) => {
  const boss = new PgBoss({ ...pgOptions(database), supervise: false, schedule: false, registerInstance: false })
  // Without a listener, an error would end the process.
  boss.on("error", (error) => process.stderr.write(`${error.message}\n`))
  return Effect.acquireRelease(
    Effect.promise(() => boss.start()),
    () => Effect.promise(() => boss.stop({ graceful: false }))
  )
}

const addOldJobs = `
  INSERT INTO pgboss.job (name, data, state, started_on, completed_on, output)
  SELECT '${taskName}', '{}', 'completed', now(), now(), NULL FROM generate_series(1, $1::int)`

const pgBoss: PeerQueue = {
  create: Effect.fnUntraced(function*(database, age) {
    const boss = yield* producer(database)
    // https://pgboss.io/api/workers, "Low-latency dispatch with LISTEN/NOTIFY": the queue opts in by `notify`.
    yield* Effect.promise(() => boss.createQueue(taskName, { notify: true }))
    yield* run(["CREATE SCHEMA boss_peer", `CREATE TABLE boss_peer.payments (${columns})`])
    yield* run([addOld("boss_peer.payments"), addOldJobs], [age])
  }, Effect.scoped),
  open: Effect.fnUntraced(function*(database) {
    const boss = yield* producer(database)
    const sql = yield* SqlClient.SqlClient
    const addRows = `
      WITH added AS (INSERT INTO boss_peer.payments (id) SELECT uuidv7() FROM generate_series(1, $1::int) RETURNING id)
      SELECT string_agg(id::text, ',') AS ids FROM added`
    const fill: Fill = Effect.fnUntraced(function*(count, payload) {
      const [row] = yield* sql.unsafe<{ readonly ids: string }>(addRows, [count])
      const ids = row!.ids.split(",")
      // https://pgboss.io/api/adapters: the `db` of an operation runs it in the transaction of the caller.
      const execute = Effect.runPromiseWith(yield* Effect.context())
      const db = {
        executeSql: (text: string, values: ReadonlyArray<unknown> = []) =>
          execute(Effect.map(sql.unsafe(text, values), (rows) => ({ rows: [...rows] })))
      }
      yield* Effect.promise(() => boss.insert(taskName, ids.map((id) => ({ data: { id, payload } })), { db }))
      return ids
    }, Effect.orDie)
    return yield* makeQueue({
      isDone: `
        SELECT NOT EXISTS (
          SELECT FROM pgboss.job WHERE name = '${taskName}' AND state IN ('created', 'retry', 'active', 'failed')
        ) AS done`,
      table: "boss_peer.payments"
    }, fill)
  })
}

export const peerQueues: Readonly<Record<PeerName, PeerQueue>> = {
  "hand-written": handWritten,
  "graphile-worker": graphileWorker,
  "pg-boss": pgBoss
}
