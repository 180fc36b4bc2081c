/**
 * Closes shared sessions whose server does not answer: its host disappeared without closing them, and TCP would notice it much later.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `pipelineCycle` sets no limit for an answer, and `keepAlive` sends no probe while
 * a statement waits for its acknowledgement. `closeSilent.test.ts` fails once the driver closes such a session.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ConnectionError, SqlError } from "effect/sql/SqlError"

/** What the driver knows of a shared session. Its types do not show it. Statements before `pipelineHead` are answered. */
interface SharedSession {
  readonly pipelineInFlight: ReadonlyArray<unknown>
  readonly pipelineHead: number
  readonly deadWith: unknown
  readonly fatal: (error: SqlError) => void
}

const isShared = (session: object): session is SharedSession =>
  "pipelineInFlight" in session && Array.isArray(session.pipelineInFlight) && "pipelineHead" in session
  && "deadWith" in session && "fatal" in session && typeof session.fatal === "function"

const silent = () => {
  const message = "the server of the connection does not answer"
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: "query" }) })
}

/** Milliseconds between two looks. */
const interval = 500

/** The oldest statement without an answer, and how many looks in a row have seen it. */
interface Seen {
  statement: unknown
  looks: number
}

/**
 * Returns a function that watches a session from then on. A session is closed if the same statement stays the oldest one without an
 * answer for a second longer than the server gives it (`timeout`, in milliseconds). Its statements then fail, and the pool opens
 * another session. Statements cost nothing more. Without a timeout, and with a driver without such sessions, it watches nothing.
 */
export const makeCloseSilent = (
  timeout: number | null
): Effect.Effect<(session: PgConnection.PgConnection) => void, never, Scope.Scope> => {
  if (timeout === null) return Effect.succeed(() => {})
  // It counts looks, because time also passes while this process is stopped, and answers wait for it then.
  const enough = Math.ceil((timeout + 1000) / interval)
  const watched = new Map<SharedSession, Seen>()
  const look = () => {
    for (const [session, seen] of watched) {
      const statement = session.pipelineInFlight[session.pipelineHead]
      seen.looks = statement !== undefined && statement === seen.statement ? seen.looks + 1 : 0
      seen.statement = statement
      if (seen.looks >= enough) session.fatal(silent())
      if (session.deadWith !== undefined) watched.delete(session)
    }
  }
  return Effect.acquireRelease(
    Effect.sync(() => setInterval(look, interval).unref()),
    (timer) => Effect.sync(() => clearInterval(timer))
  ).pipe(Effect.as((session) => {
    if (isShared(session)) watched.set(session, { statement: undefined, looks: 0 })
  }))
}
