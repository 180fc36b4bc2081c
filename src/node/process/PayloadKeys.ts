/** Reads `PAYLOAD_KEYS`, the keys of all commands that accept or submit operations. */
import * as Config from "effect/Config"
import type * as Aead from "effect/crypto/Aead"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { isInstant } from "../../domain/Timestamp.ts"
import { layerAesGcm, type PayloadKey, PayloadKeyId } from "../../services/PayloadCipher.ts"

const isKeyId = Schema.is(PayloadKeyId)

const invalid = Effect.fail(
  new InvalidSetting({
    message: "PAYLOAD_KEYS must be NAME:KEY[,NAME:KEY…], each key 32 bytes in Base64; the first one encrypts"
  })
)

const parse = (text: string): Effect.Effect<PayloadKey, InvalidSetting> => {
  const [id = "", encoded = "", ...rest] = text.trim().split(":")
  const key = Base64.decode(encoded)
  return isKeyId(id) && rest.length === 0 && Result.isSuccess(key) && key.success.length === 32
    ? Effect.succeed({ id, key: Redacted.make(key.success) })
    : invalid
}

const parsePlaintextUntil = (text: string): Effect.Effect<DateTime.Utc, InvalidSetting> =>
  isInstant(text) ? Effect.succeed(DateTime.makeUnsafe(Date.parse(text))) : Effect.fail(
    new InvalidSetting({
      message: "PAYLOAD_PLAINTEXT_UNTIL must be an RFC 3339 date-time such as 2026-01-31T12:00:00Z"
    })
  )

/** Without keys every payload is plain text, so the keys must be missing by mistake. */
const withoutKeys = Effect.fail(
  new InvalidSetting({ message: "PAYLOAD_PLAINTEXT_UNTIL needs PAYLOAD_KEYS: set the keys, or remove it" })
)

/**
 * Encrypts payloads with the first key of `PAYLOAD_KEYS`, and decrypts with all of them. Without keys, payloads stay
 * plain text. `PAYLOAD_PLAINTEXT_UNTIL` allows plain text for operations that were accepted before that instant.
 */
export const layerPayloadKeys: Layer.Layer<
  never,
  InvalidSetting | Config.ConfigError,
  Aead.Aead | Digest.Digest | SecureRandom.SecureRandom
> = Layer.unwrap(
  Effect.gen(function*() {
    const configured = yield* Config.option(Config.Redacted("PAYLOAD_KEYS"))
    const until = yield* Config.option(Config.String("PAYLOAD_PLAINTEXT_UNTIL"))
    if (Option.isNone(configured)) return Option.isNone(until) ? Layer.empty : yield* withoutKeys
    const [first, ...others] = yield* Effect.forEach(Redacted.value(configured.value).split(","), parse)
    if (new Set([first!, ...others].map(({ id }) => id)).size <= others.length) return yield* invalid
    const options = Option.isNone(until) ? {} : { plaintextUntil: yield* parsePlaintextUntil(until.value) }
    return Layer.orDie(layerAesGcm([first!, ...others], options))
  })
)
