import type { PgPoolConfig } from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import { MovedReads, PoolMetrics } from "../../metrics/PoolMetrics.ts"
import { Database } from "../../node/postgres/Database.ts"
import { openPool } from "../../node/postgres/driver/openPool.ts"
import { openSharedPool } from "../../node/postgres/driver/openSharedPool.ts"
import { poolSizes } from "../../node/postgres/poolSizes.ts"
import { makeUseReadIndex } from "./ReadIndex.ts"
import { makeStandbyReads, type StandbyReads, standbyStatementTimeout } from "./StandbyReads.ts"

/** Reads that use a connection at the same time: they only share its questions. */
const multiplexConcurrency = 4096

/** The standbys that serve reads of a process. */
export class Standbys extends Context.Service<Standbys, {
  /**
   * Opens a pool on the standbys, with `multiplex` one whose statements share connections. Null: the database has no standbys for reads.
   * Metrics name the pool `name`.
   */
  readonly open: (name: string, config: PgPoolConfig) => Effect.Effect<StandbyReads | null, SqlError, Scope.Scope>
}>()("financial-agents-gateway/cluster/standbys/Standbys") {
  /** All pools on standbys share the questions to the primary, whose sessions have these settings. */
  static readonly layer = (settings: PgPoolConfig): Layer.Layer<Standbys, SqlError, Database> =>
    Layer.effect(
      Standbys,
      Effect.gen(function*() {
        const { connection, standbys } = yield* Database
        if (standbys === undefined) return { open: () => Effect.succeed(null) }
        const metrics = yield* PoolMetrics
        const moved = metrics === null ? new MovedReads() : metrics.movedReads
        const index = { ...settings, ...connection, maxConnections: poolSizes.readIndex, multiplexConcurrency }
        const useReadIndex = makeUseReadIndex(yield* openSharedPool(index, "read_index"))
        return {
          open: Effect.fnUntraced(function*(name: string, { startupParameters, ...config }: PgPoolConfig) {
            const { applicationName } = connection
            const own = {
              ...config,
              ...applicationName === undefined ? {} : { applicationName },
              ...standbys,
              startupParameters: { ...startupParameters, statement_timeout: String(standbyStatementTimeout) }
            }
            const pool = yield* (config.multiplex === true ? openSharedPool : openPool)(own, name, "standby")
            return yield* makeStandbyReads(useReadIndex, pool, moved)
          })
        }
      })
    )
}
