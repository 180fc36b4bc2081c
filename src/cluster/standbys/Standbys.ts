/**
 * Pools on the standbys that serve reads of a process.
 */
import type { PgPoolConfig } from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SqlError } from "effect/sql/SqlError"
import { MovedReads, PoolMetrics } from "../../metrics/PoolMetrics.ts"
import { Database } from "../../node/postgres/Database.ts"
import { Lender } from "../../node/postgres/driver/DriverClient.ts"
import { openPool } from "../../node/postgres/driver/openPool.ts"
import { readerParameters } from "../../node/postgres/Pools.ts"
import { poolSizes } from "../../node/postgres/poolSizes.ts"
import { makeUseReadIndex, type UseReadIndex } from "./ReadIndex.ts"
import { makeStandbyReads, standbyStatementTimeout } from "./StandbyReads.ts"

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
