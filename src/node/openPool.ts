import type * as PgClient from "@effect/sql-pg/PgClient"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import { PoolMetrics } from "../metrics/PoolMetrics.ts"
import { countPool } from "./countPool.ts"

/** Opens a pool. Its connections are counted under `name` if the process has metrics. */
export const openPool = Effect.fnUntraced(function*(config: PgPool.Config, name: string) {
  const pool = yield* PgPool.make(config)
  const metrics = yield* PoolMetrics
  return metrics === null ? pool : countPool(pool, metrics.pool(name))
})

/** The attributes of the driver's own client. */
export const spanAttributesOf = (
  { database, host, port, username }: PgClient.PgPoolConfig
): ReadonlyArray<readonly [string, unknown]> => [
  ["db.system.name", "postgresql"],
  ["db.namespace", database ?? username ?? "postgres"],
  ["server.address", host ?? "localhost"],
  ["server.port", port ?? 5432]
]
