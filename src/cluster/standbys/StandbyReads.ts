/**
 * Reads from standbys: never stale, and durable. docs/cluster.md explains it. What a standby cannot serve, the
 * primary does.
 *
 * The read index is what a standby must have replayed before it may serve a read. As in Raft, where a follower asks the leader for its
 * index.
 *
 * The room `cluster/standbys`: reads that a standby of PostgreSQL may serve. Read this file first.
 */
import type { PgPoolConfig } from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { Borrower, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import { MovedReads, PoolMetrics } from "../../metrics/PoolMetrics.ts"
import { memoize } from "../../metrics/Series.ts"
import { Database } from "../../node/postgres/Database.ts"
import { Lender, SessionConnection } from "../../node/postgres/driver/DriverClient.ts"
import { openPool } from "../../node/postgres/driver/openPool.ts"
import { readerParameters } from "../../node/postgres/Pools.ts"
import { poolSizes } from "../../node/postgres/poolSizes.ts"
import { onPrimaryOrStandby } from "../../services/sql/reads/readStatements.ts"
import { sqlState } from "../../services/StoreUnavailable.ts"
import { type Confirm, makeShared, makeSharedConfirm, routedConnection } from "../confirmReplication.ts"

/** Only a server in recovery can check it. A promoted server fails with SQLSTATE 55000: it may have commits that its primary lacks. */
const onStandby = "(SELECT pg_is_wal_replay_paused()) IS NOT NULL"

/** The statement for a standby. Null: only the primary may serve it. */
export const forStandby = (text: string): string | null =>
  text.includes(onPrimaryOrStandby) ? text.replace(onPrimaryOrStandby, onStandby) : null

type Run<A> = (connection: Connection) => Effect.Effect<A, SqlError>

/** Milliseconds that a standby has for a read. The primary needs the rest of the deadline of the request. */
const patience = 800

/** Of a server (`statement_timeout`), in milliseconds: shorter, so that the session stays usable. */
const standbyStatementTimeout = 600

/** Milliseconds between two looks at a standby that is left alone. */
const rest = 1000

/** Why a standby does not serve a read. */
class StandbyFailed extends Data.TaggedError("StandbyFailed")<{
  readonly reason: "behind" | "failed"
  /** Whether the next reads would fail as well. */
  readonly isLasting: boolean
}> {}

const behind = new StandbyFailed({ reason: "behind", isLasting: true })

const silent = new StandbyFailed({ reason: "failed", isLasting: true })

/** A statement that conflicted with the replay, or took too long, says nothing of the next one. */
const failureOf = (error: StandbyFailed | SqlError) =>
  error instanceof StandbyFailed
    ? error
    : new StandbyFailed({ reason: "failed", isLasting: !["40001", "57014"].includes(sqlState(error)) })

/**
 * Lends connections that read on a session of `pool` what a standby may serve, and everything else on the primary. A standby that fails, or that is behind, is left alone until it has replayed an index again. Until then the
 * reads go to the primary, at no cost.
 */
const makeStandbyReads = Effect.fnUntraced(function*(
  useReadIndex: UseReadIndex,
  pool: PgPool.PgPool,
  moved: MovedReads
): Effect.fn.Return<(primary: Borrower) => Borrower, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const awaitReplay = makeAwaitReplay()
  let isResting = false

  /** Another session may lead to another standby. */
  const leave = (session: Parameters<PgPool.PgPool["invalidate"]>[0]) => ({ isLasting }: StandbyFailed) =>
    isLasting ? pool.invalidate(session) : Effect.void

  const onStandby = <A>(run: Run<A>): Effect.Effect<A, StandbyFailed | SqlError> =>
    useReadIndex(({ mark, position }) =>
      mark === null ? Effect.fail(behind) : pool.use((session) =>
        Effect.flatMap(
          awaitReplay(session, mark, position),
          (is): Effect.Effect<A, StandbyFailed | SqlError> =>
            is ? run(new SessionConnection(session)) : Effect.fail(behind)
        ).pipe(
          Effect.mapError(failureOf),
          Effect.tapError(leave(session))
        )
      ).pipe(
        Effect.mapError(failureOf),
        Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(silent) })
      )
    )

  const tryAgain = Effect.retry(Effect.delay(onStandby(() => Effect.void), rest), Schedule.forever).pipe(
    Effect.andThen(Effect.sync(() => {
      isResting = false
    }))
  )

  const restAfter = ({ isLasting }: StandbyFailed) => {
    if (!isLasting || isResting) return Effect.void
    isResting = true
    return Effect.forkIn(tryAgain, scope)
  }

  /** Runs the statement of a standby, or else that of the primary. */
  const first = <A>(onPrimary: Effect.Effect<A, SqlError>, run: Run<A>): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => {
      if (isResting) {
        moved.resting++
        return onPrimary
      }
      return Effect.catchTag(onStandby(run), "StandbyFailed", (failed) => {
        moved[failed.reason]++
        return Effect.andThen(restAfter(failed), onPrimary)
      })
    })

  return (primary: Borrower): Borrower => {
    // A standby's connection if the statement may run there, or else the primary's.
    const connection = routedConnection((text, execute) => {
      const onPrimary = primary((connection) => execute(connection, text))
      const standbys = forStandby(text)
      return standbys === null ? onPrimary : first(onPrimary, (connection) => execute(connection, standbys))
    })
    return (run) => run(connection)
  }
})

/** Reads that use a connection at the same time: they only share its questions. */
const multiplexConcurrency = 4096

/** The questions to the primary, which all pools on standbys share. */
class ReadIndexes extends Context.Service<ReadIndexes, UseReadIndex>()(
  "financial-agents-gateway/cluster/standbys/ReadIndexes"
) {
  static readonly layer: Layer.Layer<ReadIndexes, SqlError, Database> = Layer.effect(
    ReadIndexes,
    Effect.gen(function*() {
      const { connection } = yield* Database
      const settings = {
        startupParameters: readerParameters,
        maxConnections: poolSizes.readIndex,
        multiplexConcurrency
      }
      const index = { applicationName: "financial-agents-gateway", ...connection, ...settings, multiplex: true }
      return makeUseReadIndex(yield* openPool(index, "read_index"))
    })
  )
}

/** Opens pools on the servers of `standbys`, with the settings of the pool on the primary. Metrics name them `NAME_standby`. */
export const readServersOn =
  (standbys: PgPoolConfig) => (name: string, settings: PgPoolConfig): Layer.Layer<never, SqlError, Database> =>
    Layer.effect(
      Lender,
      Effect.gen(function*() {
        const useReadIndex = yield* ReadIndexes
        const { connection: { applicationName = "financial-agents-gateway" } } = yield* Database
        const metrics = yield* PoolMetrics
        const startupParameters = {
          ...settings.startupParameters,
          statement_timeout: String(standbyStatementTimeout)
        }
        const pool = yield* openPool(
          { ...settings, applicationName, ...standbys, startupParameters },
          `${name}_standby`,
          "standby"
        )
        return yield* makeStandbyReads(useReadIndex, pool, metrics?.movedReads ?? new MovedReads())
      })
    ).pipe(Layer.provide(ReadIndexes.layer))

/** A place in the history of the primary. */
export interface ReadIndex {
  /** The end of what the primary has flushed: every commit that it has acknowledged is before it. */
  readonly position: bigint
  /**
   * The id of a row that was written on the present timeline of the primary. Positions of two timelines cannot be compared: a standby of
   * an earlier primary may be ahead of this one, and lack its commits. Null: no worker has written the row yet.
   */
  readonly mark: string | null
}

/** The number of a position in the WAL, from its text, such as `16/B374D848`. */
export const walPosition = (text: string): bigint => {
  const [high, low] = text.split("/")
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

const question = `
  SELECT pg_current_wal_flush_lsn()::text AS position,
    (SELECT m.id::text FROM change_marks m WHERE m.timeline = ledger_timeline()) AS mark`

const ask = (session: PgConnection.PgConnection): Effect.Effect<ReadIndex, SqlError> =>
  Effect.map(session.query(question), ({ rows: [row] }) => ({
    position: walPosition(String(row!["position"])),
    mark: row!["mark"] as string | null
  }))

/** Makes what is known of each session once. */
const ofSession = <A>(make: (session: PgConnection.PgConnection) => A) => memoize(make, new WeakMap())

/** A session of the primary. Reads that need an index at the same time share the question, and its confirmation. */
interface Primary {
  readonly ask: Effect.Effect<ReadIndex, SqlError>
  readonly confirm: Confirm
}

/**
 * Runs a read with an index that was asked for after the call, on a session of `pool`. The result is told only once the same session is
 * confirmed, after the read. That proves that the server was the primary from the question on, and that the synchronous standbys have
 * what the read has seen: no standby is ahead of its primary.
 */
type UseReadIndex = <A, E>(
  read: (index: ReadIndex) => Effect.Effect<A, E>
) => Effect.Effect<A, E | SqlError>

export const makeUseReadIndex = (pool: PgPool.PgPool): UseReadIndex => {
  const primaryOf = ofSession((session): Primary => ({
    ask: makeShared(ask(session)),
    confirm: makeSharedConfirm(session)
  }))
  return (read) =>
    pool.use((session) => {
      const primary = primaryOf(session)
      return Effect.tap(Effect.flatMap(primary.ask, read), () => primary.confirm)
    })
}

/** Null: the server was promoted, and has a timeline of its own. */
const replayed = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END AS position"

const hasMark = "SELECT EXISTS (SELECT FROM change_marks WHERE id = $1::uuid) AS here"

/** Milliseconds between two questions. A standby that streams has replayed a commit within a millisecond or two. */
const steps = [1, 1, 2, 4, 8, 16, 32, 36]

/** What is known of a session of a standby. While the server is in recovery, it never goes back. */
interface Replay {
  position: bigint
  mark: string | null
  readonly ask: Effect.Effect<bigint, SqlError>
}

const askPosition = (session: PgConnection.PgConnection) =>
  Effect.map(session.query(replayed), ({ rows: [row] }) => {
    const position = row?.["position"]
    return typeof position === "string" ? walPosition(position) : -1n
  })

/**
 * Whether the standby of a session has replayed an index: see the read index. It waits for that, 100 ms at most. A session remembers what it has replayed, so
 * most reads under load ask nothing.
 */
const makeAwaitReplay = () => {
  const replayOf = ofSession((session): Replay => ({
    position: -1n,
    mark: null,
    ask: makeShared(askPosition(session))
  }))

  const awaitMark = Effect.fnUntraced(function*(session: PgConnection.PgConnection, mark: string) {
    const { rows: [row] } = yield* session.query(hasMark, [mark])
    if (row?.["here"] === true) replayOf(session).mark = mark
    return row?.["here"] === true
  })

  const awaitPosition = Effect.fnUntraced(function*(replay: Replay, wanted: bigint) {
    for (const step of [...steps, null]) {
      const position = yield* replay.ask
      if (position > replay.position) replay.position = position
      if (replay.position >= wanted) return true
      // A promoted server replays nothing more.
      if (position < 0n || step === null) return false
      yield* Effect.sleep(step)
    }
    return false
  })

  return (session: PgConnection.PgConnection, mark: string, position: bigint): Effect.Effect<boolean, SqlError> => {
    const replay = replayOf(session)
    const positionReached = Effect.suspend(() =>
      replay.position >= position ? Effect.succeed(true) : awaitPosition(replay, position)
    )
    return replay.mark === mark
      ? positionReached
      : Effect.flatMap(awaitMark(session, mark), (isHere) => isHere ? positionReached : Effect.succeed(false))
  }
}
