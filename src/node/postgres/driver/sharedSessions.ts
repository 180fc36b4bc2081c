/**
 * What the driver lacks for its sessions, most of it for those whose statements share the connection. A driver without the internals that
 * these functions know stays unchanged.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ConnectionError, SqlError } from "effect/sql/SqlError"

/**
 * What the driver knows of a session. Its types do not show it. Statements of `pipelineInFlight` before `pipelineHead` are answered. The
 * `consumer` of a session with one statement at a time belongs to this statement. `encodeQuery` is called with each statement.
 */
interface WatchedSession {
  readonly pipelineInFlight: ReadonlyArray<unknown>
  readonly pipelineHead: number
  readonly consumer: unknown
  readonly deadWith: unknown
  readonly fatal: (error: SqlError) => void
  encodeQuery: (text: string, ...others: ReadonlyArray<unknown>) => unknown
}

const isWatchable = (session: object): session is WatchedSession =>
  "pipelineInFlight" in session && Array.isArray(session.pipelineInFlight) && "pipelineHead" in session
  && "consumer" in session && "deadWith" in session && "fatal" in session && typeof session.fatal === "function"
  && "encodeQuery" in session && typeof session.encodeQuery === "function"

const silent = () => {
  const message = "the server of the connection does not answer"
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: "query" }) })
}

/** Milliseconds between two looks. */
const interval = 500

interface Seen {
  /** The oldest statement without an answer. */
  statement: unknown
  /** How many looks in a row have seen it. */
  looks: number
  /** Whether the server ends the present statement by its `statement_timeout`. */
  isLimited: boolean
}

/**
 * Follows `isLimited`. A commit has no limit, because it may wait for a standby: neither COMMIT, which `makeCommit` bounds, nor a statement
 * without a transaction, unless the session is shared and so reads. A transaction may change its own. The texts of a transaction are those of
 * Effect's clients.
 */
const followLimit = (session: WatchedSession, seen: Seen, isShared: boolean): void => {
  const encode = session.encodeQuery
  let inTransaction = false
  session.encodeQuery = (text, ...others) => {
    if (text === "BEGIN" || text === "ROLLBACK") {
      inTransaction = text === "BEGIN"
      seen.isLimited = true
    } else if (text.startsWith("SET LOCAL statement_timeout")) {
      seen.isLimited = false
    } else if (!inTransaction || text === "COMMIT") {
      inTransaction = false
      seen.isLimited = isShared
    }
    return encode(text, ...others)
  }
}

/**
 * Closes sessions whose server does not answer: its host disappeared without closing them, and TCP would notice it much later. Effect runs
 * BEGIN, ROLLBACK and savepoints uninterruptibly, so nothing else would end them.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `pipelineCycle` and `runQuery` set no limit for an answer, and `keepAlive` sends
 * no probe while a statement waits for its acknowledgement. `closeSilent.test.ts` fails once the driver closes such a session.
 *
 * Returns a function that watches a session from then on. A session is closed if the same statement stays the oldest one without an
 * answer for a second longer than the server gives it (`timeout`, in milliseconds). Its statements then fail, and the pool opens
 * another session. Without a timeout, and with a driver without such sessions, it watches nothing.
 */
export const makeCloseSilent = (
  timeout: number | null,
  isShared: boolean
): Effect.Effect<(session: PgConnection.PgConnection) => void, never, Scope.Scope> => {
  if (timeout === null) return Effect.succeed(() => {})
  // It counts looks, because time also passes while this process is stopped, and answers wait for it then.
  const enough = Math.ceil((timeout + 1000) / interval)
  const watched = new Map<WatchedSession, Seen>()
  const look = () => {
    for (const [session, seen] of watched) {
      const statement = session.pipelineInFlight[session.pipelineHead] ?? session.consumer
      const isUnanswered = statement !== undefined && statement === seen.statement
      seen.looks = isUnanswered && seen.isLimited ? seen.looks + 1 : 0
      seen.statement = statement
      if (seen.looks >= enough) session.fatal(silent())
      if (session.deadWith !== undefined) watched.delete(session)
    }
  }
  return Effect.acquireRelease(
    Effect.sync(() => setInterval(look, interval).unref()),
    (timer) => Effect.sync(() => clearInterval(timer))
  ).pipe(Effect.as((session) => {
    if (!isWatchable(session)) return
    const seen: Seen = { statement: undefined, looks: 0, isLimited: isShared }
    followLimit(session, seen, isShared)
    watched.set(session, seen)
  }))
}

/** The driver's queue of statements on the wire. Its types do not show it. Those before `pipelineHead` are answered. */
interface Pipeline {
  readonly pipelineInFlight: Array<unknown>
  pipelineHead: number
}

const hasPipeline = (session: object): session is Pipeline =>
  "pipelineInFlight" in session && Array.isArray(session.pipelineInFlight)
  && "pipelineHead" in session && typeof session.pipelineHead === "number"

/** Answered statements for which the queue may have room. */
const maxAnswered = 64

/**
 * Frees the answered statements of a session. Call it before each statement.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `finishPipelineEntry` empties `pipelineInFlight` only when every statement in it
 * is answered. Under load there always is one on the wire: the queue then keeps each statement with all its rows, without limit.
 * `forgetAnswered.test.ts` fails once the driver frees each statement.
 */
export const forgetAnswered = (session: PgConnection.PgConnection): void => {
  if (!hasPipeline(session)) return
  const { pipelineHead, pipelineInFlight } = session
  // The driver never looks at a place before the head.
  for (let at = pipelineHead - 1; at >= 0 && pipelineInFlight[at] !== undefined; at--) pipelineInFlight[at] = undefined
  if (pipelineHead < maxAnswered) return
  pipelineInFlight.splice(0, pipelineHead)
  session.pipelineHead = 0
}

interface Prepared {
  readonly key: string
  readonly ready: boolean
}

/** The driver's cache of a session. Its types do not show it. */
interface PreparedCache {
  get: (text: string, types: ReadonlyArray<number>) => Prepared
  readonly statements: ReadonlyMap<string, Prepared>
}

interface Known {
  readonly prepared: Prepared
  readonly types: ReadonlyArray<number>
  uses: number
}

const hasCache = (session: object): session is { readonly prepared: PreparedCache } => {
  if (!("prepared" in session)) return false
  const { prepared } = session
  return typeof prepared === "object" && prepared !== null && "get" in prepared && typeof prepared.get === "function"
    && "statements" in prepared && prepared.statements instanceof Map
}

/** One in so many uses of a statement goes to the driver's cache, which evicts the least recently used. */
const usesPerLookup = 64

/** More statements than the driver keeps. */
const maxKnown = 200

const isSame = (one: ReadonlyArray<number>, other: ReadonlyArray<number>) =>
  one.length === other.length && one.every((type, index) => type === other[index])

/**
 * Looks up prepared statements of a session without changing a long-lived `Map` for each execution.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `PreparedCache.get` deletes and sets the entry of each statement that it finds.
 * A `Map` in the old generation is then rebuilt after every few statements, and V8 keeps the tables and keys of the past until a
 * major collection. `DriverClient.test.ts` ("would change both with the driver's own client") fails once it does not.
 */
export const rememberPrepared = (session: PgConnection.PgConnection): void => {
  if (!hasCache(session)) return
  const cache = session.prepared
  const lookUp = cache.get.bind(cache)
  const known = new Map<string, Known>()
  cache.get = (text, types) => {
    const found = known.get(text)
    if (
      found !== undefined && ++found.uses % usesPerLookup !== 0 && found.prepared.ready
      && cache.statements.get(found.prepared.key) === found.prepared && isSame(found.types, types)
    ) return found.prepared
    const prepared = lookUp(text, types)
    if (found === undefined || found.prepared !== prepared) {
      if (known.size === maxKnown) known.clear()
      known.set(text, { prepared, types: [...types], uses: 0 })
    }
    return prepared
  }
}
