/** Real banks under chaos: the simulator of each as a process, and its adapter in the workers. A bank is a row of the table. */
import { Effect, Redacted, type Schema } from "effect"
import type { HttpClient } from "effect/http"
import type { Layer } from "effect/Layer"
import * as Alpaca from "../../../../src/banks/Alpaca.ts"
import * as Increase from "../../../../src/banks/Increase.ts"
import type { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import type { Dice } from "./Dice.ts"
import * as OpenBanking from "./OpenBanking.ts"

/** Makes the payload of the request with this key. */
export type Order = (dice: Dice, key: string) => Effect.Effect<Schema.Json>

export interface Bank {
  readonly type: string
  /** `note` takes the key of a request in the bank's record, if that is not the operation's id. */
  readonly orders: (
    baseUrl: string,
    keys: OpenBanking.BankKeys,
    note: (recordKey: string, key: string) => void
  ) => Effect.Effect<Order>
  readonly adapter: (
    baseUrl: string,
    keys: OpenBanking.BankKeys
  ) => Layer<ProviderAdapter, never, HttpClient.HttpClient>
  /** What no status read settles, so that a person asks the bank. */
  readonly unsettled: {
    /** A request that the bank never received. */
    readonly unreceived: boolean
    /** A refusal whose answer was lost: the bank keeps nothing of it. */
    readonly refused: boolean
    /** An order whose answer was lost, so that the ledger has no reference of it. */
    readonly ordered: boolean
  }
  /** Milliseconds until the bank's promises settle the last operation. */
  readonly settlesAfter?: number
}

const payloads = (payload: (dice: Dice) => Schema.Json) => () =>
  Effect.succeed<Order>((dice) => Effect.sync(() => payload(dice)))

/** A few operations stay pending for ever, so that some stay unsettled. */
const staysPending = (dice: Dice): boolean => dice.roll() < 0.002

const secret = Redacted.make("secret-of-the-simulator")

export const banks = {
  alpaca: {
    type: "order",
    orders: payloads((dice) => ({
      symbol: staysPending(dice) ? "ZVZZT" : "AAPL",
      qty: String(1 + dice.below(100)),
      side: "buy",
      type: "market",
      time_in_force: "day"
    })),
    adapter: (baseUrl) =>
      Alpaca.at({ baseUrl, keys: { keyId: secret, secretKey: secret }, account: "PA3717PJAYWN", fence: true }),
    unsettled: { unreceived: false, refused: false, ordered: false }
  },
  increase: {
    type: "ach_transfer",
    orders: payloads((dice) => ({
      account_id: "account_own",
      amount: `${1 + dice.below(10_000)}.00`,
      currency: "USD",
      external_account_id: "external_account_payee",
      statement_descriptor: staysPending(dice) ? "sandbox {\"outcome\":\"pending\"}" : "Rent"
    })),
    adapter: (baseUrl) => Increase.at({ baseUrl, apiKey: secret, mayPayFrom: () => Effect.succeed(true) }),
    unsettled: { unreceived: false, refused: false, ordered: false }
  },
  "open-banking-uk": {
    type: "domestic_payment",
    orders: (baseUrl, keys, note) =>
      Effect.map(
        OpenBanking.makeConsents(baseUrl, keys),
        (consentTo): Order => (dice, key) =>
          consentTo(key, OpenBanking.consentRequest(1 + dice.below(10_000), staysPending(dice))).pipe(
            Effect.tap(({ ConsentId }) => Effect.sync(() => note(ConsentId, key))),
            Effect.map(({ payment }) => payment)
          )
      ),
    adapter: OpenBanking.adapterAt,
    unsettled: { unreceived: false, refused: false, ordered: true },
    settlesAfter: OpenBanking.times.consentLifetime + OpenBanking.times.visibleAfter
  }
} satisfies Readonly<Record<string, Bank>>

export type BankName = keyof typeof banks
export const bankNames = Object.keys(banks) as ReadonlyArray<BankName>
