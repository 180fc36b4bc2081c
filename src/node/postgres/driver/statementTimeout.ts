import type * as PgClient from "@effect/sql-pg/PgClient"

/** Milliseconds that the server gives each statement of a pool. Null: the pool sets no limit, or not in milliseconds. */
export const statementTimeout = ({ startupParameters }: PgClient.PgPoolConfig): number | null =>
  Number(startupParameters?.["statement_timeout"]) || null
