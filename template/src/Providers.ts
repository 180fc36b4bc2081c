/**
 * The providers of the workers: the bank at BANK_URL, with the API key BANK_KEY. Without BANK_URL it is the fake bank of `npm start`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { Scope } from "effect/Scope"
import { Database } from "financial-agents-gateway/node/Pools"
import { requireAddress } from "financial-agents-gateway/submission/HttpProvider"
import { Providers } from "financial-agents-gateway/submission/Providers"
import { existsSync } from "node:fs"
import * as Bank from "./Bank.ts"

/** A bank that stands in for the real one in development. */
export interface FakeBank {
  readonly url: string
  readonly apiKey: string
  readonly start: Effect.Effect<unknown, never, Scope>
  /** What `npm start` prints of it. */
  readonly text: string
}

const fakeBankFile = new URL("../fakeBank/FakeBank.ts", import.meta.url)

/** Null once the folder `fakeBank` is deleted. */
const fakeBank = existsSync(fakeBankFile)
  ? (await import(fakeBankFile.href) as { readonly fakeBank: FakeBank }).fakeBank
  : null

/** Null if the variable is missing or empty: a secret that is not set may arrive as an empty text. */
const setting = (name: string) =>
  Effect.map(Config.String(name).pipe(Config.withDefault("")), (text) => text.trim() || null)

const bankAt = (url: string, key: string) => ({ url: requireAddress("BANK_URL", url), apiKey: Redacted.make(key) })

/**
 * BANK_URL and BANK_KEY. The embedded PostgreSQL is for development, so there the fake bank stands in for what is missing. With a
 * database that DATABASE_URL names, and without the folder `fakeBank`, the process does not start without both: the fake bank moves no
 * money.
 */
export const bankSettings = Effect.gen(function*() {
  const { isEmbedded } = yield* Database
  const url = yield* setting("BANK_URL")
  const key = yield* setting("BANK_KEY")
  if (url !== null && key !== null) return { ...bankAt(url, key), fake: null }
  if (fakeBank === null) return yield* Effect.fail(new Error("set BANK_URL and BANK_KEY: there is no fake bank"))
  if (!isEmbedded) {
    return yield* Effect.fail(
      new Error("set BANK_URL and BANK_KEY beside DATABASE_URL: the fake bank runs only with the embedded PostgreSQL")
    )
  }
  return { ...bankAt(url ?? fakeBank.url, key ?? fakeBank.apiKey), fake: url === null ? fakeBank : null }
})

export default Layer.unwrap(Effect.gen(function*() {
  const { apiKey, fake, url } = yield* bankSettings
  yield* Effect.logInfo(fake === null ? `Bank: ${url}` : `Bank: FAKE, ${url}`)
  return Providers.layer({ [Bank.bankName]: Bank.layer(url, apiKey) })
}))
