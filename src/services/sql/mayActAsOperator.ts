import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

/**
 * Whether the role of the connection may perform the actions of operators. False also if the database lacks their table.
 */
export const mayActAsOperator = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly may_act: boolean }>`
    SELECT CASE WHEN to_regclass('operator_actions') IS NULL THEN false ELSE
      has_column_privilege('operator_actions', 'operator', 'INSERT') AND has_column_privilege('operations', 'state', 'UPDATE')
    END AS may_act`
  return row?.may_act === true
})
