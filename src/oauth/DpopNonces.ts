/** Nonces for DPoP proofs (RFC 9449 §8 and §9), without storage: every process with the key derives the same nonces. */
import * as Clock from "effect/Clock"
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Redacted from "effect/Redacted"

/** Milliseconds after which the nonce changes. */
const rotation = 60_000

const nonceKeyLength = 32

const encoder = new TextEncoder()

/**
 * Derives nonces by HMAC-SHA-256 of the minute, under a key that all processes share. A nonce is valid for one to two
 * minutes. The nonce of the next minute is valid too, because another process, whose clock is ahead, may have issued it. So
 * a nonce may be valid for up to a minute more. Dies unless the key is 32 bytes long.
 *
 * Nonces need no comparison in constant time, because every client can request them.
 */
export const makeDpopNonces = Effect.fnUntraced(function*(key: Redacted.Redacted<Uint8Array>) {
  const { subtle } = yield* WebCrypto.WebCrypto
  const bytes = new Uint8Array(Redacted.value(key))
  if (bytes.length !== nonceKeyLength) {
    return yield* Effect.die(new RangeError(`the key for DPoP nonces must be ${nonceKeyLength} bytes long`))
  }
  const hmac = yield* Effect.promise(() =>
    subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"])
  )
  const nonceOf = (minute: number) =>
    Effect.promise(async () =>
      Base64Url.encode(new Uint8Array(await subtle.sign("HMAC", hmac, encoder.encode(`dpop-nonce ${minute}`))))
    )

  let derived = { minute: NaN, previous: "", current: "", next: "" }

  const now = Effect.flatMap(Clock.currentTimeMillis, (millis) => {
    const minute = Math.floor(millis / rotation)
    if (derived.minute === minute) return Effect.succeed(derived)
    return Effect.map(
      Effect.all([nonceOf(minute - 1), nonceOf(minute), nonceOf(minute + 1)]),
      ([previous, current, next]) => derived = { minute, previous, current, next }
    )
  })

  return {
    /** The nonce to issue now. */
    current: Effect.map(now, ({ current }) => current),
    /**
     * Classifies a nonce. `current` and `previous` are valid; the answer to `previous` should issue the current one. Every
     * other nonce is `unknown`: expired, or never issued by the gateway.
     */
    check: (nonce: unknown) =>
      Effect.map(now, ({ current, next, previous }) => {
        if (nonce === current || nonce === next) return "current"
        return nonce === previous ? "previous" : "unknown"
      })
  }
})

export type DpopNonces = Effect.Success<ReturnType<typeof makeDpopNonces>>
