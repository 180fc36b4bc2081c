/** Page tokens and change tokens: sealed text that a client keeps, and that tells it nothing. */
import * as Context from "effect/Context"
import type * as Aead from "effect/crypto/Aead"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { makeTokenCipher, settledAfter, type TokenContext, type TokenKey, type TokenRefused } from "./sealedTokens.ts"
import { orUnavailable, StoreUnavailable } from "./StoreUnavailable.ts"

/**
 * Seals with XChaCha20-Poly1305. All processes of a ledger share its keys (`token_keys`), and read them again each minute. So every
 * process opens the tokens of the others, and a token cannot be forged.
 */
export class TokenCipher extends Context.Service<TokenCipher, {
  /** The token of a text, in characters of base64url. The same text has many tokens. Their length is rounded up. */
  readonly seal: (text: string, context: TokenContext) => Effect.Effect<string, StoreUnavailable>
  /** The text of a token. */
  readonly open: (token: string, context: TokenContext) => Effect.Effect<string, TokenRefused | StoreUnavailable>
}>()("financial-agents-gateway/services/TokenCipher") {
  static readonly layer: Layer.Layer<TokenCipher, never, SqlClient.SqlClient | Aead.Aead | SecureRandom.SecureRandom> =
    Layer.effect(
      TokenCipher,
      Effect.suspend(() => Effect.map(Effect.flatMap(readKeys, makeTokenCipher), (cipher) => TokenCipher.of(cipher)))
    )

  /** With a key of its own: its tokens end with the process. */
  static readonly layerMemory: Layer.Layer<TokenCipher, never, Aead.Aead | SecureRandom.SecureRandom> = Layer.effect(
    TokenCipher,
    Effect.gen(function*() {
      const key = Redacted.make(yield* SecureRandom.SecureRandom.use((random) => random.randomBytes(32)))
      return TokenCipher.of(yield* makeTokenCipher(Effect.succeed([{ name: "00000000", key, isSettled: true }])))
    })
  )
}

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

const readKeys = Effect.map(SqlClient.SqlClient, (sql) =>
  Effect.gen(function*() {
    const rows = yield* orUnavailable(sql.unsafe<KeyRow>(oldestFirst))
    const [oldest, ...later] = rows.map(({ key, name, settled }): TokenKey => ({
      name,
      key: Redacted.make(key),
      isSettled: settled
    }))
    return oldest === undefined ? yield* noKeys : [oldest, ...later] as const
  }))
