/**
 * The key of tokens in memory.
 */
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { TokenKeys } from "../internal/sealedTokens.ts"

/** Draws the key when the layer is built. */
export const makeMemory = Effect.map(
  SecureRandom.SecureRandom.use((random) => random.randomBytes(32)),
  (key) => Effect.succeed<TokenKeys>([{ name: "00000000", key: Redacted.make(key) }])
)
