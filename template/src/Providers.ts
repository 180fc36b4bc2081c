/**
 * The providers of the workers: the bank at BANK_URL, with the API key BANK_KEY. Without BANK_URL it is the fake bank of `npm start`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Database } from "financial-agents-gateway/node/Pools"
import { requireAddress } from "financial-agents-gateway/submission/HttpProvider"
import { Providers } from "financial-agents-gateway/submission/Providers"
import * as Bank from "./Bank.ts"

/** Where the fake bank listens, and the key that it expects. */
export const fakeBank = { port: Number(process.env["FAKE_BANK_PORT"] ?? 4020), apiKey: "fake-key" }

/** Null if the variable is missing or empty: a secret that is not set may arrive as an empty text. */
const setting = (name: string) =>
  Effect.map(Config.String(name).pipe(Config.withDefault("")), (text) => text.trim() || null)

/**
 * BANK_URL and BANK_KEY. The embedded PostgreSQL is for development, so there the fake bank stands in for what is missing. With a
 * database that DATABASE_URL names, the process does not start without both: the fake bank moves no money.
 */
export const bankSettings = Effect.gen(function*() {
  const { isEmbedded } = yield* Database
  const url = yield* setting("BANK_URL")
  const key = yield* setting("BANK_KEY")
  if (!isEmbedded && (url === null || key === null)) {
    return yield* Effect.fail(
      new Error("set BANK_URL and BANK_KEY beside DATABASE_URL: the fake bank runs only with the embedded PostgreSQL")
    )
  }
  return {
    url: url === null ? `http://127.0.0.1:${fakeBank.port}` : requireAddress("BANK_URL", url),
    apiKey: Redacted.make(key ?? fakeBank.apiKey),
    isFake: url === null
  }
})

export default Layer.unwrap(Effect.gen(function*() {
  const { apiKey, isFake, url } = yield* bankSettings
  yield* Effect.logInfo(isFake ? `Bank: FAKE, ${url}` : `Bank: ${url}`)
  return Providers.layer({ [Bank.bankName]: Bank.layer(url, apiKey) })
}))
