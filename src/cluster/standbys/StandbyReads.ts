/**
 * Reads from standbys: never stale, and durable. `ReadIndex` has the rule, and docs/cluster.md explains it. What a standby cannot serve,
 * the primary does.
 *
 * The room `standbys`: reads that a standby of PostgreSQL may serve. Read this file first.
 */
import type { PgPoolConfig } from "@effect/sql-pg/PgClient"
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
import { Database } from "../../node/postgres/Database.ts"
import { Lender, SessionConnection } from "../../node/postgres/driver/DriverClient.ts"
import { openPool } from "../../node/postgres/driver/openPool.ts"
import { readerParameters } from "../../node/postgres/Pools.ts"
import { poolSizes } from "../../node/postgres/poolSizes.ts"
import { onPrimaryOrStandby } from "../../services/sql/reads/readStatements.ts"
import { sqlState } from "../../services/StoreUnavailable.ts"
import { routedConnection } from "../confirmReplication.ts"
import { makeAwaitReplay, makeUseReadIndex, type UseReadIndex } from "./ReadIndex.ts"

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
