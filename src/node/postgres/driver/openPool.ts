import type * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import type { Scope } from "effect/Scope"
import { ConnectionError, isSqlError, SqlError } from "effect/sql/SqlError"
import { type PoolCounts, PoolMetrics } from "../../../metrics/PoolMetrics.ts"
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
 * The pool, whose connections are closed if their server is silent. If statements share them, no statement outlives its answer in memory.
 */
const watch = Effect.fnUntraced(function*(pool: PgPool.PgPool, config: PgPool.Config) {
  const closeSilent = yield* makeCloseSilent(statementTimeout(config), config.multiplex === true)
  const known = new WeakSet<PgConnection.PgConnection>()

  const prepare = (session: PgConnection.PgConnection) => {
    if (known.has(session)) return config.multiplex === true ? forgetAnswered(session) : undefined
    known.add(session)
    if (config.multiplex === true) rememberPrepared(session)
    closeSilent(session)
  }

  const get = Effect.tap(pool.get, (session) => Effect.sync(() => prepare(session)))
  const use: PgPool.PgPool["use"] = (run) =>
    pool.use((session) => {
      prepare(session)
      return run(session)
    })
  return { ...pool, get, use, reserve: Effect.flatMap(get, ({ pin }) => pin) } satisfies PgPool.PgPool
})

/** A pool whose statements share connections. The statements of one turn of the event loop leave in one write per connection. */
const gatherTurns = (pool: PgPool.PgPool): PgPool.PgPool => {
  const endOfTurn = makeEndOfTurn()
  return { ...pool, use: (run) => Effect.flatMap(endOfTurn, () => pool.use(run)) }
}

/**
 * Opens a pool on the servers of its URL. With `multiplex`, its statements share connections. Its connections are counted under `name` if the
 * process has metrics.
 */
export const openPool = Effect.fnUntraced(function*(config: PgPool.Config, name: string, role: ServerRole = "primary") {
  const servers = yield* openServers(config, role)
  const metrics = yield* PoolMetrics
  const pool = yield* watch(metrics === null ? servers : countPool(servers, metrics.pool(name)), config)
  return config.multiplex === true ? gatherTurns(pool) : pool
})

type Session = PgConnection.PgConnection

/** The driver closes each session of a pool by this method. Its types do not show it. */
const hasClose = (session: object): session is { closeUnsafe: () => void } =>
  "closeUnsafe" in session && typeof session.closeUnsafe === "function"

/** Errors of the connection, and not of a statement. */
const isLost = (exit: Exit.Exit<unknown, unknown>): boolean => {
  const error = Exit.isFailure(exit) ? exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error : undefined
  return isSqlError(error) && ["ConnectionError", "AuthenticationError"].includes(error.reason._tag)
}

/** Counts the open sessions, and those that run something. */
const makeSessionCount = (counts: PoolCounts) => {
  /** Statements that run on a session. */
  const running = new WeakMap<Session, number>()

  const open = (session: Session): void => {
    running.set(session, 0)
    if (!hasClose(session)) return
    counts.connections++
    const close = session.closeUnsafe.bind(session)
    let isOpen = true
    session.closeUnsafe = () => {
      if (isOpen) counts.connections--
      isOpen = false
      close()
    }
  }

  return {
    begin: (session: Session): void => {
      if (!running.has(session)) open(session)
      const others = running.get(session)!
      if (others === 0) counts.inUse++
      running.set(session, others + 1)
    },
    end: (session: Session): void => {
      const others = running.get(session)! - 1
      if (others === 0) counts.inUse--
      running.set(session, others)
    }
  }
}

/** The pool, which counts its connections, their users, and those that wait for one. */
export const countPool = (pool: PgPool.PgPool, counts: PoolCounts): PgPool.PgPool => {
  const sessions = makeSessionCount(counts)

  const get: Effect.Effect<Session, SqlError, Scope> = Effect.uninterruptibleMask((restore) =>
    Effect.suspend(() => {
      counts.waiting++
      const got = Effect.onExit(restore(pool.get), (exit) => {
        counts.waiting--
        if (Exit.isFailure(exit)) counts.gaveUpAt = performance.now()
        if (isLost(exit)) counts.errors++
        return Effect.void
      })
      return Effect.tap(got, (session) => {
        sessions.begin(session)
        return Effect.addFinalizer(() => Effect.sync(() => sessions.end(session)))
      })
    })
  )

  const use: PgPool.PgPool["use"] = (run) =>
    Effect.suspend(() => {
      let lent: Session | null = null
      counts.waiting++
      const used = pool.use((session) => {
        counts.waiting--
        lent = session
        sessions.begin(session)
        return run(session)
      })
      return Effect.onExit(used, (exit) => {
        if (lent === null) {
          counts.waiting--
          counts.gaveUpAt = performance.now()
        } else sessions.end(lent)
        if (isLost(exit)) counts.errors++
        return Effect.void
      })
    })

  return { ...pool, get, use, reserve: Effect.flatMap(get, ({ pin }) => pin) }
}
