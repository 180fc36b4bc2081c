import type * as PgClient from "@effect/sql-pg/PgClient"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { PoolMetrics } from "../../../metrics/PoolMetrics.ts"
import { countPool } from "./countPool.ts"
import { readDatabaseUrl, type ServerRole } from "./databaseUrl.ts"
import { openPrimaryPool } from "./primaryPool.ts"

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

/** Opens a pool on the servers of its URL. Its connections are counted under `name` if the process has metrics. */
export const openPool = Effect.fnUntraced(function*(config: PgPool.Config, name: string, role: ServerRole = "primary") {
  const pool = yield* openServers(config, role)
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
