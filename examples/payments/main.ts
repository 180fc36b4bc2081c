/**
 * An application that accepts payments through a mutation endpoint, and serves their operations.
 *
 *     npm run example:payments
 *
 * It runs on an embedded PostgreSQL in `.data/payments/postgres`, or on the one that DATABASE_URL names. It pays through its own
 * sandbox, whose record is `.data/payments/bank.jsonl`, or through the bank at BANK_URL (with BANK_TOKEN). DATABASE_URL needs BANK_URL:
 * the sandbox would settle real operations. A token is printed only beside the sandbox. DATA_DIR replaces `.data/payments`. The default
 * of PORT is 3002.
 *
 * The sandbox sends webhooks to the application. A bank at BANK_URL does so with the secret BANK_WEBHOOK_SECRET.
 *
 * Copied from the installed package, it runs by `node examples/payments/main.ts`.
 */
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import {
  ClientId,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "financial-agents-gateway/domain/Grant"
import * as AdminListener from "financial-agents-gateway/node/AdminListener"
import * as GatewayApp from "financial-agents-gateway/node/GatewayApp"
import { Database } from "financial-agents-gateway/node/Pools"
import { Sandbox } from "financial-agents-gateway/sandbox/Sandbox"
import { BaseUrl } from "financial-agents-gateway/server/Gateway"
import { McpRoutes } from "financial-agents-gateway/server/McpRoutes"
import { Grants } from "financial-agents-gateway/services/Grants"
import { requireAddress } from "financial-agents-gateway/submission/HttpProvider"
import { Providers } from "financial-agents-gateway/submission/Providers"
import * as path from "node:path"
import { PaymentsApi, paymentsWrite } from "./Api.ts"
import * as Bank from "./Bank.ts"
import { bankWebhooks, webhookSecret, webhooksPath } from "./BankWebhooks.ts"
import { PaymentsRoutes } from "./Handlers.ts"
import { PaymentTools } from "./Tools.ts"

/** The provider name of the bank in provider connections. */
const bankName = "bank"

const port = Config.Port("PORT").pipe(Config.withDefault(3002))
const dataDir = Config.String("DATA_DIR").pipe(Config.withDefault(".data/payments"))

/** The address of the bank. Null: the sandbox, which moves no money, and so runs only with the embedded PostgreSQL. */
const bankAddress = Effect.gen(function*() {
  const { isEmbedded } = yield* Database
  const url = yield* Config.option(Config.String("BANK_URL"))
  if (Option.isSome(url)) return requireAddress("BANK_URL", url.value)
  if (isEmbedded) return null
  return yield* Effect.fail(
    new Error("set BANK_URL beside DATABASE_URL: the sandbox runs only with the embedded PostgreSQL")
  )
})

/** The bank. The sandbox keeps its record beside the database, so that record and ledger last equally long. */
const Banks = Layer.unwrap(Effect.gen(function*() {
  const address = yield* bankAddress
  const banksAt = (url: string, token: Redacted.Redacted<string>) =>
    Providers.layer({ [bankName]: Bank.layer(url, token) })
  if (address !== null) return banksAt(address, yield* Config.Redacted("BANK_TOKEN"))
  const url = `http://127.0.0.1:${yield* port}${webhooksPath}`
  const webhooks = Option.map(yield* webhookSecret, (secret) => ({ webhooks: { url, secret } }))
  return Layer.unwrap(Effect.map(Sandbox, (sandbox) => banksAt(sandbox.url, Redacted.make("sandbox")))).pipe(
    Layer.provide(
      Sandbox.layer({ record: path.join(yield* dataDir, "bank.jsonl"), ...Option.getOrUndefined(webhooks) })
    )
  )
}))

const invitation = (url: string, token: string) => `
The payments endpoint is at ${url}. Pay, then repeat the request with the same key: you get the same operation.

  curl ${url}/v1/payments -H 'Authorization: Bearer ${token}' \\
    -H 'Idempotency-Key: "rent-of-may"' -H 'Content-Type: application/json' \\
    -d '{"amount":"750.00","currency":"EUR","creditor":{"name":"Landlord","iban":"DE89370400440532013000"}}'

Read its outcome:

  curl ${url}/v1/operations -H 'Authorization: Bearer ${token}'

The documentation of both is at ${url}/docs.

Agents pay and read by MCP, at ${url}/mcp. Give their hosts the same token by the environment (docs/agents.md):

  export GATEWAY_TOKEN=${token}
`

/** Issues a grant that may pay and read, and prints how to use it. Not with a bank, which may pay real money for the printed token. */
const Invitation = Layer.effectDiscard(Effect.gen(function*() {
  if ((yield* bankAddress) !== null) return
  const grants = yield* Grants
  const { access_token } = yield* grants.issue({
    resource_owner: ResourceOwner.make("alice"),
    subject: PairwiseSubject.make("alice-as-seen-by-her-agent"),
    client_id: ClientId.make("alices-agent"),
    provider: ProviderName.make(bankName),
    scopes: [operationsRead, paymentsWrite],
    expires_in: Duration.days(30)
  })
  yield* Console.log(invitation(yield* BaseUrl, Redacted.value(access_token)))
}))

/** The application. Its settings come from the environment. */
export const options = {
  api: PaymentsApi,
  routes: Layer.merge(PaymentsRoutes, bankWebhooks(ProviderName.make(bankName))),
  agents: McpRoutes(PaymentTools),
  admin: AdminListener.layer(),
  providers: Banks,
  started: Invitation,
  port,
  dataDir: Config.map(dataDir, (directory) => path.join(directory, "postgres"))
}

if (import.meta.main) GatewayApp.run(options)
