/**
 * The keys of tokens in PostgreSQL.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { settledAfter, type TokenKey } from "../rules/sealedTokens.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"

interface KeyRow {
  readonly name: string
  readonly key: Uint8Array
  readonly settled: boolean
}

/** Four bytes of its digest name a key. */
const oldestFirst = `
  SELECT encode(substring(sha256(key) FOR 4), 'hex') AS name, key,
    created_at <= clock_timestamp() - interval '${Duration.toSeconds(settledAfter)} seconds' AS settled
  FROM token_keys ORDER BY created_at, key`

const noKeys = new StoreUnavailable({
  cause: new Error("token_keys has no row. As its owner, run: INSERT INTO token_keys DEFAULT VALUES")
})

/** The statement that reads the keys. */
export const makeSql = Effect.map(SqlClient.SqlClient, (sql) =>
  Effect.gen(function*() {
    const rows = yield* orUnavailable(sql.unsafe<KeyRow>(oldestFirst))
    const [oldest, ...later] = rows.map(({ key, name, settled }): TokenKey => ({
      name,
      key: Redacted.make(key),
      isSettled: settled
    }))
    return oldest === undefined ? yield* noKeys : [oldest, ...later] as const
  }))
