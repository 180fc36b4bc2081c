/**
 * The connections on which `OperationStore` runs filtered lists.
 */
import * as Context from "effect/Context"
import type * as SqlClient from "effect/sql/SqlClient"

/**
 * A filtered list is planned with its values and may take far longer than a read by id. On a pool that shares connections,
 * the reads behind it would wait for it, also after its client has gone. So give it a pool without `multiplex`: there, an
 * interrupted statement is cancelled. Null, the default: filtered lists run on the connections of all other reads.
 */
export const ListClient: Context.Reference<SqlClient.SqlClient | null> = Context.Reference<SqlClient.SqlClient | null>(
  "financial-agents-gateway/services/sql/ListClient",
  { defaultValue: () => null }
)
