/**
 * Pays once through each bank. The simulator of the bank loses its first answer, so the gateway does not know whether it has paid, and reads
 * until it does. Nothing is sent twice. A bank of Open Banking UK says only that something was ordered under the consent: there the
 * operation goes under review, and a person records what the bank answers.
 *
 *     npm run example:banks
 *
 * Everything is in memory, and ends with the last payment. Copied from the installed package, it runs by `node examples/banks.ts`.
 */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Alpaca from "financial-agents-gateway/banks/Alpaca"
import * as Increase from "financial-agents-gateway/banks/Increase"
import * as OpenBankingUk from "financial-agents-gateway/banks/OpenBankingUk"
import {
  ClientId,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "financial-agents-gateway/domain/Grant"
import type { Operation, OperationId } from "financial-agents-gateway/domain/Operation"
import * as ProviderHttpClient from "financial-agents-gateway/node/ProviderHttpClient"
import { Sandbox } from "financial-agents-gateway/sandbox/Sandbox"
import { Grants } from "financial-agents-gateway/services/Grants"
import { MemoryLedger } from "financial-agents-gateway/services/MemoryLedger"
import { IdempotencyKey, OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { Providers } from "financial-agents-gateway/submission/Providers"
import { SubmissionQueue } from "financial-agents-gateway/submission/SubmissionProcesses"
import * as Submission from "financial-agents-gateway/submission/SubmissionProcesses"
import { generateKeyPairSync } from "node:crypto"

const secret = Redacted.make("secret-of-the-simulator")

const signingKey = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
const instruction = "sandbox {\"outcome\":\"succeeded\",\"settle_after_ms\":1000}"

/** The access tokens of payers, by consent and owner. An agent of another owner that names the consent gets none. */
const payerTokens = new Map([["consent-1 of alice", Redacted.make("token-of-alice")]])

/** The accounts of payers, by owner. An agent of another owner that names the account pays nothing. */
const accounts = new Map([["alice", "account_of_alice"]])

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
    adapter: (baseUrl: string) =>
      Increase.at({
        baseUrl,
        apiKey: secret,
        mayPayFrom: ({ resource_owner }, accountId) => Effect.succeed(accounts.get(resource_owner) === accountId)
      }),
    type: "ach_transfer",
    payload: {
      account_id: "account_of_alice",
      amount: "750.00",
      currency: "USD",
      external_account_id: "external_account_landlord",
      statement_descriptor: instruction
    }
  },
  "open-banking-uk": {
    adapter: (baseUrl: string) =>
      OpenBankingUk.at({
        baseUrl: `${baseUrl}/open-banking/v4.0/pisp`,
        client: { tokenUrl: `${baseUrl}/token`, clientId: "client-1" },
        payerToken: ({ consentId, resourceOwner }) =>
          Effect.fromNullishOr(payerTokens.get(`${consentId} of ${resourceOwner}`)),
        signing: {
          key: Redacted.make(signingKey.export({ type: "pkcs8", format: "pem" }) as string),
          keyId: "key-1",
          issuer: "org-1/software-1"
        },
        bank: { issuer: "sandbox-bank", keysUrl: `${baseUrl}/keys` }
      }),
    type: "domestic_payment",
    payload: {
      // An application creates the consent, and the payer authorises it. The simulator takes any id.
      Data: {
        ConsentId: "consent-1",
        Initiation: {
          InstructionIdentification: "rent-of-may",
          EndToEndIdentification: "rent-of-may",
          InstructedAmount: { Amount: "750.00", Currency: "GBP" },
          CreditorAccount: {
            SchemeName: "UK.OBIE.SortCodeAccountNumber",
            Identification: "08080021325698",
            Name: "Landlord"
          },
          RemittanceInformation: { Unstructured: [instruction] }
        }
      },
      Risk: {}
    }
  }
}

const Ledger = Layer.mergeAll(Grants.layerMemory, OperationLedger.layerMemory, SubmissionQueue.layerMemory).pipe(
  Layer.provideMerge(MemoryLedger.layer),
  Layer.provide(NodeCrypto.layer)
)

/** What a person does about an operation under review: asks the bank for the payment, and records its answer. */
const askTheBank = Effect.fn("askTheBank")(function*(id: OperationId) {
  const ledger = yield* OperationLedger
  const { record } = yield* Sandbox
  const { revision } = yield* ledger.show(id)
  const evidence = {
    by: "operator",
    question: `Which payment has the x-idempotency-key ${id}?`,
    asked: "the payments desk of the bank",
    asked_at: DateTime.formatIso(yield* DateTime.now),
    reference: (yield* record)[0]!.settlement!.reference,
    answer: "It is credited to the creditor's account."
  }
  yield* ledger.transition(id, revision, { state: "succeeded" }, evidence)
})

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
    const follow = (until: (shown: Operation) => boolean) =>
      ledger.show(operation.id).pipe(
        Effect.tap(({ state, under_review }) =>
          Effect.sync(() => seen.add(under_review ? `${state}, under review` : state))
        ),
        Effect.repeat({ until, schedule: Schedule.spaced("20 millis") }),
        Effect.timeout("1 minute")
      )
    const { under_review } = yield* follow(({ state, under_review }) => under_review || state === "succeeded")
    if (under_review) {
      yield* askTheBank(operation.id)
      yield* follow(({ state }) => state === "succeeded")
    }
    const receipts = yield* sandbox.record
    return `${bank.padEnd(15)} ${type.padEnd(16)} requests ${receipts.length}  ${[...seen].join(" → ")}`
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
