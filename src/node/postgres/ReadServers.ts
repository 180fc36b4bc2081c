import type * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { SqlError } from "effect/sql/SqlError"
import type { Database } from "./Database.ts"

/**
 * Which servers may run the reads of a pool of this name and these settings: a layer of its `Lender`. Default: the server of the pool alone.
 */
export const ReadServers = Context.Reference<
  (name: string, settings: PgClient.PgPoolConfig) => Layer.Layer<never, SqlError, Database>
>("financial-agents-gateway/node/postgres/ReadServers", { defaultValue: () => () => Layer.empty })
