/**
 * The token of the link that opens the console on this machine: for one use, within a quarter of an hour.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { digestOf, isSameSecret, newSecret } from "./secrets.ts"

/** Milliseconds for which an unused token is valid. */
const lifetime = 15 * 60_000

/** Milliseconds between two tokens at least: visitors without a session must not fill the terminal. */
const interval = 60_000

export class OneTimeLink extends Context.Service<OneTimeLink, {
  /** A new token, which replaces the one before. Null if the last one is younger than a minute, or can still be used. */
  readonly renew: Effect.Effect<Redacted.Redacted<string> | null>
  /** Whether this is the token. It is used up then: of two concurrent calls, one succeeds. */
  readonly redeem: (token: string) => Effect.Effect<boolean>
}>()("financial-agents-gateway/operator/console/access/OneTimeLink") {
  static readonly layer: Layer.Layer<OneTimeLink> = Layer.effect(OneTimeLink, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  let issuedAt = Number.NEGATIVE_INFINITY
  /** SHA-256 of the token. Null: there is none, or it was used. */
  let digest: string | null = null

  const isValid = () => digest !== null && now() < issuedAt + lifetime

  return OneTimeLink.of({
    renew: Effect.sync(() => {
      if (isValid() || now() < issuedAt + interval) return null
      const token = newSecret()
      issuedAt = now()
      digest = digestOf(token)
      return Redacted.make(token, { label: "one-time token" })
    }),
    redeem: (token) =>
      Effect.sync(() => {
        if (digest === null || !isValid() || !isSameSecret(digestOf(token), digest)) return false
        digest = null
        return true
      })
  })
})
