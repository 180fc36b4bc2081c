/**
 * The connections of reads that may look at more rows than they return.
 */
import * as Context from "effect/Context"
import type * as SqlClient from "effect/sql/SqlClient"

/**
 * For filtered lists (`OperationStore`), and for pages of changes with filters or unfinished transactions (`OperationFeed`).
 *
 * PostgreSQL plans a filtered list with its values, and it may take far longer than a read by id. On a pool that shares
 * connections, other reads would wait behind it, also after its client has gone. So give it a pool without `multiplex`, which
 * cancels an interrupted statement. Null, the default: they use the connections of all other reads.
 */
export const ListClient: Context.Reference<SqlClient.SqlClient | null> = Context.Reference<SqlClient.SqlClient | null>(
  "financial-agents-gateway/services/sql/reads/ListClient",
  { defaultValue: () => null }
)
