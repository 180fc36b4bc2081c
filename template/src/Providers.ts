/**
 * The providers of the workers: the bank at BANK_URL, with the API key BANK_KEY. Without them, the fake bank of `npm start`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Providers } from "financial-agents-gateway/submission/Providers"
import * as Bank from "./Bank.ts"

/** Where the fake bank listens, and the key that it expects. */
export const fakeBank = { port: Number(process.env["FAKE_BANK_PORT"] ?? 4020), apiKey: "fake-key" }

export default Layer.unwrap(Effect.gen(function*() {
  const url = yield* Config.String("BANK_URL").pipe(Config.withDefault(`http://127.0.0.1:${fakeBank.port}`))
  const apiKey = yield* Config.Redacted("BANK_KEY").pipe(Config.withDefault(Redacted.make(fakeBank.apiKey)))
  return Providers.layer({ [Bank.bankName]: Bank.layer(url, apiKey) })
}))
