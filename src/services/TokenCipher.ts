/**
 * Page tokens and change tokens: sealed text that a client keeps, and that tells it nothing.
 */
import * as Context from "effect/Context"
import type * as Aead from "effect/crypto/Aead"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import { makeTokenCipher, type TokenContext, type TokenRefused } from "./rules/sealedTokens.ts"
import { makeSql } from "./sql/SqlTokenKeys.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

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
      Effect.suspend(() => Effect.map(Effect.flatMap(makeSql, makeTokenCipher), (cipher) => TokenCipher.of(cipher)))
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
