/**
 * Pays once through Alpaca, and once through Increase. The simulator of the bank loses its first answer, so the gateway does not know
 * whether it has paid, and reads until it does. Nothing is sent twice.
 *
 *     npm run example:banks
 *
 * Everything is in memory, and ends with the last payment. Copied from the installed package, it runs by `node examples/banks.ts`.
 */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Alpaca from "financial-agents-gateway/banks/Alpaca"
import * as Increase from "financial-agents-gateway/banks/Increase"
import {
  ClientId,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "financial-agents-gateway/domain/Grant"
import { IdempotencyKey } from "financial-agents-gateway/domain/Idempotency"
import * as ProviderHttpClient from "financial-agents-gateway/node/ProviderHttpClient"
import { Sandbox } from "financial-agents-gateway/sandbox/Sandbox"
import { Grants } from "financial-agents-gateway/services/Grants"
import { MemoryLedger } from "financial-agents-gateway/services/MemoryLedger"
import { OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { SubmissionQueue } from "financial-agents-gateway/services/SubmissionQueue"
import { Providers } from "financial-agents-gateway/submission/Providers"
import * as Submission from "financial-agents-gateway/submission/SubmissionProcesses"

const secret = Redacted.make("secret-of-the-simulator")

/** For each bank its adapter, and an operation that it can carry out. */
const banks = {
  alpaca: {
    adapter: (baseUrl: string) => Alpaca.at({ baseUrl, keys: { keyId: secret, secretKey: secret } }),
    type: "bounded_order",
    payload: {
      symbol: "SANDBOX.SLOW",
      qty: "2",
      side: "buy",
      type: "limit",
      limit_price: "150.25",
      time_in_force: "day"
    }
  },
  increase: {
    adapter: (baseUrl: string) => Increase.at({ baseUrl, apiKey: secret }),
    type: "ach_transfer",
    payload: {
      account_id: "account_own",
      amount: "750.00",
      currency: "USD",
      external_account_id: "external_account_landlord",
      statement_descriptor: "sandbox {\"outcome\":\"succeeded\",\"settle_after_ms\":1000}"
    }
  }
}

const Ledger = Layer.mergeAll(Grants.layerMemory, OperationLedger.layerMemory, SubmissionQueue.layerMemory).pipe(
  Layer.provideMerge(MemoryLedger.layer),
  Layer.provide(NodeCrypto.layer)
)

/** Pays through one bank, and returns the line of the table. */
const pay = Effect.fn("pay")(
  function*(bank: keyof typeof banks) {
    const { adapter, payload, type } = banks[bank]
    const sandbox = yield* Sandbox
    const [grants, ledger] = [yield* Grants, yield* OperationLedger]
    const workers = Submission.layer.pipe(
      Layer.provide(Providers.layer({ [bank]: adapter(sandbox.url) })),
      Layer.provide(ProviderHttpClient.layer())
    )
    yield* Effect.forkScoped(Layer.launch(workers))
    const { grant } = yield* grants.issue({
      resource_owner: ResourceOwner.make("alice"),
      subject: PairwiseSubject.make("alice-as-seen-by-her-agent"),
      client_id: ClientId.make("alices-agent"),
      provider: ProviderName.make(bank),
      scopes: [operationsRead],
      expires_in: Duration.hours(1)
    })
    const { operation } = yield* ledger.accept(grant, { type, key: IdempotencyKey.make("rent-of-may"), payload })
    const seen = new Set<string>()
    yield* ledger.show(operation.id).pipe(
      Effect.tap(({ state }) => Effect.sync(() => seen.add(state))),
      Effect.repeat({ until: ({ state }) => state === "succeeded", schedule: Schedule.spaced("20 millis") }),
      Effect.timeout("1 minute")
    )
    const receipts = yield* sandbox.record
    return `${bank.padEnd(10)} ${type.padEnd(14)} requests ${receipts.length}  ${[...seen].join(" → ")}`
  },
  Effect.scoped,
  (paying, bank) =>
    Effect.provide(
      paying,
      Layer.merge(
        Layer.fresh(Ledger),
        Sandbox.layer({ bank, faults: { drop_response: { rate: 1, on: "submission" } } })
      )
    )
)

/** Prints a line for each bank. */
export const program = Effect.forEach(
  Object.keys(banks) as ReadonlyArray<keyof typeof banks>,
  (bank) => Effect.flatMap(pay(bank), (line) => Console.log(line)),
  { discard: true }
)

if (import.meta.main) NodeRuntime.runMain(program)
