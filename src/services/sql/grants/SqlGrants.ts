/**
 * The room `sql/grants`: what changes grants, clients and provider connections. The check of a grant by a read is `sql/grantStanding`. Read
 * this file first: the administration, put together from its parts.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { makeGrantRegistration } from "./SqlGrantRegistration.ts"
import { makeGrantRevocation } from "./SqlGrantRevocation.ts"

export const makeSql = Effect.gen(function*() {
  return { ...yield* makeGrantRegistration, ...yield* makeGrantRevocation }
})

/** Whether the role of the session may register the grants that tokens show. Also true where migrations are missing. */
export const mayProvision: Effect.Effect<boolean, SqlError, SqlClient.SqlClient> = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    Effect.map(
      sql.unsafe<{ readonly may: boolean }>(
        "SELECT coalesce(has_function_privilege(to_regproc('provision_grant'), 'EXECUTE'), true) AS may"
      ),
      ([row]) => row!.may
    )
)
