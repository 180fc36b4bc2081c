import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Scope } from "effect/Scope"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import type { PoolCounts } from "../../../metrics/PoolMetrics.ts"

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
