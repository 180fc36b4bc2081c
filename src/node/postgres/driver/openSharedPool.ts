import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import { makeCloseSilent } from "./closeSilent.ts"
import type { ServerRole } from "./databaseUrl.ts"
import { forgetAnswered } from "./forgetAnswered.ts"
import { openPool } from "./openPool.ts"
import { rememberPrepared } from "./rememberPrepared.ts"
import { statementTimeout } from "./statementTimeout.ts"

/**
 * Waits until the event loop has read all input that is ready. An interrupted waiter runs nothing.
 *
 * The driver writes the statements of a connection in a microtask. Microtasks run after each request that Node reads, so
 * every request would cost a write of its own. An immediate runs after all of them, and before the loop sleeps.
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
 * Opens a pool whose statements share connections. The statements of one turn of the event loop leave in one write per connection, and
 * no statement outlives its answer in memory. A connection whose server is silent is closed.
 */
export const openSharedPool = Effect.fnUntraced(function*(config: PgPool.Config, name: string, role?: ServerRole) {
  const pool = yield* openPool({ ...config, multiplex: true }, name, role)
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
