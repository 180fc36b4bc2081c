/**
 * The keys of tokens in PostgreSQL.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import type { TokenKey } from "../internal/sealedTokens.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"
import { onPrimary } from "./onPrimary.ts"

interface KeyRow {
  readonly name: string
  readonly key: Uint8Array
}

const newestFirst = `
  SELECT encode(substring(uuid_send(k.id) FOR 4), 'hex') AS name, k.key FROM token_keys k
  WHERE ${onPrimary} ORDER BY k.created_at DESC, k.id`

const noKeys = new StoreUnavailable({
  cause: new Error("token_keys has no row. As its owner, run: INSERT INTO token_keys DEFAULT VALUES")
})

/** The statement that reads the keys. */
export const makeSql = Effect.map(SqlClient.SqlClient, (sql) =>
  Effect.gen(function*() {
    const rows = yield* orUnavailable(sql.unsafe<KeyRow>(newestFirst))
    const [newest, ...older] = rows.map(({ key, name }): TokenKey => ({ name, key: Redacted.make(key) }))
    return newest === undefined ? yield* noKeys : [newest, ...older] as const
  }))
