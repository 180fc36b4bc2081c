/** Real banks under chaos: the simulator of each as a process, and its adapter in the workers. A bank is a row of the table. */
import { Redacted, type Schema } from "effect"
import type { HttpClient } from "effect/http"
import type { Layer } from "effect/Layer"
import * as Alpaca from "../../../../src/banks/Alpaca.ts"
import * as Increase from "../../../../src/banks/Increase.ts"
import type { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import type { Dice } from "./Dice.ts"

export interface Bank {
  readonly type: string
  readonly payload: (dice: Dice) => Schema.Json
  readonly adapter: (baseUrl: string) => Layer<ProviderAdapter, never, HttpClient.HttpClient>
  /** It keeps nothing of a request that it refuses. So a status read never finds a refusal whose answer was lost. */
  readonly forgetsRefusals: boolean
}

/** A few operations stay pending for ever, so that some stay unsettled. */
const staysPending = (dice: Dice): boolean => dice.roll() < 0.002

const secret = Redacted.make("secret-of-the-simulator")

export const banks = {
  alpaca: {
    type: "order",
    payload: (dice) => ({
      symbol: staysPending(dice) ? "SANDBOX.OPEN" : "AAPL",
      qty: String(1 + dice.below(100)),
      side: "buy",
      type: "market",
      time_in_force: "day"
    }),
    adapter: (baseUrl) => Alpaca.at({ baseUrl, keys: { keyId: secret, secretKey: secret } }),
    forgetsRefusals: true
  },
  increase: {
    type: "ach_transfer",
    payload: (dice) => ({
      account_id: "account_own",
      amount: `${1 + dice.below(10_000)}.00`,
      currency: "USD",
      external_account_id: "external_account_payee",
      statement_descriptor: staysPending(dice) ? "sandbox {\"outcome\":\"pending\"}" : "Rent"
    }),
    adapter: (baseUrl) => Increase.at({ baseUrl, apiKey: secret }),
    forgetsRefusals: true
  }
} satisfies Readonly<Record<string, Bank>>

export type BankName = keyof typeof banks
export const bankNames = Object.keys(banks) as ReadonlyArray<BankName>
