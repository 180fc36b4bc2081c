/**
 * Nonces for DPoP proofs (RFC 9449 §8 and §9) that nobody has to store: every process that has the key knows them.
 */
import * as Clock from "effect/Clock"
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Redacted from "effect/Redacted"

/** Milliseconds after which there is another nonce. */
const rotation = 60_000

/** How many bytes the key has. */
export const nonceKeyLength = 32

export interface DpopNonces {
  /** What to hand out now. */
  readonly current: Effect.Effect<string>
  /**
   * What a nonce is worth. `current` and `previous` are good; for `previous` a fresh one should be handed out with the
   * answer. Everything else is `unknown`: too old, or never ours.
   */
  readonly check: (nonce: unknown) => Effect.Effect<"current" | "previous" | "unknown">
}

const encoder = new TextEncoder()

/**
 * HMAC-SHA-256 of the minute under the key, which all processes share. A nonce is good for one to two minutes, and a
 * minute more where clocks differ: that of the minute to come is accepted from whoever has handed it out already.
 * Dies when the key is not 32 bytes long.
 *
 * Nonces are told to anyone who asks, so there is nothing to be gained from how long it takes to compare them.
 */
export const makeDpopNonces = Effect.fnUntraced(function*(
  key: Redacted.Redacted<Uint8Array>
): Effect.fn.Return<DpopNonces> {
  const { subtle } = yield* WebCrypto.WebCrypto
  const bytes = new Uint8Array(Redacted.value(key))
  if (bytes.length !== nonceKeyLength) {
    return yield* Effect.die(new RangeError(`the key for nonces must be ${nonceKeyLength} bytes long`))
  }
  const hmac = yield* Effect.promise(() =>
    subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"])
  )
  const nonceOf = (minute: number) =>
    Effect.promise(async () =>
      Base64Url.encode(new Uint8Array(await subtle.sign("HMAC", hmac, encoder.encode(`dpop-nonce ${minute}`))))
    )

  let known = { minute: NaN, previous: "", current: "", next: "" }

  const now = Effect.flatMap(Clock.currentTimeMillis, (millis) => {
    const minute = Math.floor(millis / rotation)
    if (known.minute === minute) return Effect.succeed(known)
    return Effect.map(
      Effect.all([nonceOf(minute - 1), nonceOf(minute), nonceOf(minute + 1)]),
      ([previous, current, next]) => known = { minute, previous, current, next }
    )
  })

  return {
    current: Effect.map(now, ({ current }) => current),
    check: (nonce) =>
      Effect.map(now, ({ current, next, previous }) => {
        if (nonce === current || nonce === next) return "current"
        return nonce === previous ? "previous" : "unknown"
      })
  }
})
