/**
 * Page tokens and change tokens: sealed text that a client keeps, and that tells it nothing.
 */
import * as Context from "effect/Context"
import type * as Aead from "effect/crypto/Aead"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import { makeTokenCipher } from "./internal/sealedTokens.ts"
import { makeMemory } from "./memory/MemoryTokenKeys.ts"
import { makeSql } from "./sql/SqlTokenKeys.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** To what a token is tied: it opens for the same values alone. JSON must tell different values apart. */
export type TokenContext = ReadonlyArray<unknown>

/**
 * Seals with XChaCha20-Poly1305. All processes of a ledger share its keys (`token_keys`), and read them again each minute. So every
 * process opens the tokens of the others, and a token cannot be forged.
 *
 * Both methods fail only while no keys are known and the database does not answer.
 */
export class TokenCipher extends Context.Service<TokenCipher, {
  /** The token of a text, in characters of base64url. The same text has many tokens. Of its length, a token shows 64 characters more or less. */
  readonly seal: (text: string, context: TokenContext) => Effect.Effect<string, StoreUnavailable>
  /** The text of a token. Null: no process of the ledger sealed it for this context, or its key is gone. */
  readonly open: (token: string, context: TokenContext) => Effect.Effect<string | null, StoreUnavailable>
}>()("financial-agents-gateway/services/TokenCipher") {
  static readonly layer: Layer.Layer<TokenCipher, never, SqlClient.SqlClient | Aead.Aead | SecureRandom.SecureRandom> =
    Layer.effect(
      TokenCipher,
      Effect.suspend(() => Effect.map(Effect.flatMap(makeSql, makeTokenCipher), (cipher) => TokenCipher.of(cipher)))
    )

  /** With a key of its own: the tokens are good until the process ends. */
  static readonly layerMemory: Layer.Layer<TokenCipher, never, Aead.Aead | SecureRandom.SecureRandom> = Layer.effect(
    TokenCipher,
    Effect.suspend(() => Effect.map(Effect.flatMap(makeMemory, makeTokenCipher), (cipher) => TokenCipher.of(cipher)))
  )
}
