/**
 * The connections on which `OperationStore` runs filtered lists.
 */
import * as Context from "effect/Context"
import type * as SqlClient from "effect/sql/SqlClient"

/**
 * PostgreSQL plans a filtered list with its values, and it may take far longer than a read by id. On a pool that shares
 * connections, other reads would wait behind it, also after its client has gone. So give it a pool without `multiplex`, which
 * cancels an interrupted statement. Null, the default: filtered lists use the connections of all other reads.
 */
export const ListClient: Context.Reference<SqlClient.SqlClient | null> = Context.Reference<SqlClient.SqlClient | null>(
  "financial-agents-gateway/services/sql/ListClient",
  { defaultValue: () => null }
)
