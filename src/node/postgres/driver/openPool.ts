import type * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { PoolMetrics } from "../../../metrics/PoolMetrics.ts"
import { countPool } from "./countPool.ts"
import { readDatabaseUrl, type ServerRole } from "./databaseUrl.ts"
import { openPrimaryPool } from "./primaryPool.ts"
import { forgetAnswered, makeCloseSilent, rememberPrepared } from "./sharedSessions.ts"

/** The servers of a URL. An invalid URL fails here, so the process ends when it opens its pools. */
const readServers = (url: Redacted.Redacted, role: ServerRole) =>
  Effect.try({
    try: () => readDatabaseUrl(Redacted.value(url), role),
    catch: (cause) =>
      new SqlError({
        reason: new ConnectionError({
          cause,
          message: cause instanceof Error ? cause.message : "the database URL is invalid",
          operation: "connect"
        })
      })
  })

const openServers = Effect.fnUntraced(function*(config: PgPool.Config, role: ServerRole) {
  if (config.url === undefined) return yield* PgPool.make(config)
  const { mustBePrimary, urls: [first, ...others] } = yield* readServers(config.url, role)
  const at = (url: string): PgPool.Config => ({ ...config, url: Redacted.make(url) })
  return others.length === 0 && !mustBePrimary
    ? yield* PgPool.make(at(first))
    : yield* openPrimaryPool([at(first), ...others.map(at)], mustBePrimary)
})

/** Milliseconds that the server gives each statement of a pool. Null: the pool sets no limit, or not in milliseconds. */
export const statementTimeout = ({ startupParameters }: PgClient.PgPoolConfig): number | null =>
  Number(startupParameters?.["statement_timeout"]) || null

/**
 * Waits until the event loop has read all input that is ready. An interrupted waiter runs nothing.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `schedulePipelineFlush` writes the statements of a connection in a microtask.
 * Microtasks run after each request that Node reads, so every request would cost a write of its own. An immediate runs after all of them,
 * and before the loop sleeps. `DriverClient.test.ts` ("leave in several writes") fails once the driver waits for the turn.
 */
const makeEndOfTurn = (): Effect.Effect<void> => {
  let waiting: Array<(end: Effect.Effect<void>) => void> = []
  const endTurn = () => {
    const waiters = waiting
    waiting = []
    for (const resume of waiters) resume(Effect.void)
  }
  return Effect.callback((resume) => {
    if (waiting.push(resume) === 1) setImmediate(endTurn)
  })
}

/**
 * A pool whose statements share connections. The statements of one turn of the event loop leave in one write per connection, and
 * no statement outlives its answer in memory. A connection whose server is silent is closed.
 */
const share = Effect.fnUntraced(function*(pool: PgPool.PgPool, config: PgPool.Config) {
  const closeSilent = yield* makeCloseSilent(statementTimeout(config))
  const endOfTurn = makeEndOfTurn()
  const known = new WeakSet<PgConnection.PgConnection>()

  const prepare = (session: PgConnection.PgConnection) => {
    if (known.has(session)) return forgetAnswered(session)
    known.add(session)
    rememberPrepared(session)
    closeSilent(session)
  }

  const prepared = <E, R>(session: Effect.Effect<PgConnection.PgConnection, E, R>) =>
    Effect.tap(session, (session) => Effect.sync(() => prepare(session)))
  const use: PgPool.PgPool["use"] = (run) =>
    Effect.flatMap(endOfTurn, () =>
      pool.use((session) => {
        prepare(session)
        return run(session)
      }))
  return { ...pool, use, get: prepared(pool.get), reserve: prepared(pool.reserve) } satisfies PgPool.PgPool
})

/**
 * Opens a pool on the servers of its URL. With `multiplex`, its statements share connections. Its connections are counted under `name` if the
 * process has metrics.
 */
export const openPool = Effect.fnUntraced(function*(config: PgPool.Config, name: string, role: ServerRole = "primary") {
  const servers = yield* openServers(config, role)
  const metrics = yield* PoolMetrics
  const pool = metrics === null ? servers : countPool(servers, metrics.pool(name))
  return config.multiplex === true ? yield* share(pool, config) : pool
})
