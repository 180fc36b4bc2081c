/** The gateway: requests accepted into its ledger, and workers beside a route for webhooks (docs/composition.md). */
import { Duration, Effect, Layer, Redacted } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import * as fs from "node:fs"
import { Pool } from "pg"
import { ClientId, operationsRead, PairwiseSubject, ProviderName, ResourceOwner } from "../../../src/domain/Grant.ts"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { IdempotencyKey, OperationLedger } from "../../../src/services/OperationLedger.ts"
import { Providers } from "../../../src/submission/providers/Providers.ts"
import { defaultPolicy, Reconciler, SubmissionPolicy } from "../../../src/submission/SubmissionProcesses.ts"
import type { Outcome } from "../types.ts"
import { adapter } from "./gatewayBank.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

const bank = ProviderName.make("bank")
const webhooks = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const reconciler = yield* Reconciler
  const hint = (body: unknown) =>
    reconciler.hint(bank, { operation_id: (body as { readonly end_to_end_id: string }).end_to_end_id })
  const answer = HttpServerResponse.empty()
  yield* router.add("POST", "/webhooks", ({ json }) => Effect.as(Effect.flatMap(json, hint), answer))
}))
const options = {
  databaseUrl: Redacted.make(settings.databaseUrl),
  // The defaults, and an id, so that a restart settles the claims of a crash at once (docs/submission.md, "Worker ids").
  references: Layer.succeed(SubmissionPolicy, {
    ...defaultPolicy,
    providerConcurrency: settings.concurrency,
    workerId: `worker-${settings.worker}`
  })
}

/** Runs a command on the services of the ledger, without workers. */
const run = <A, E>(effect: Effect.Effect<A, E, Grants | OperationLedger>) =>
  new Promise<A>((resolve) => {
    const started = Layer.effectDiscard(Effect.map(effect, resolve))
    GatewayApp.run({ ...options, port: settings.commandPort, started })
  })

const grantFile = `${settings.stateDirectory}/grant.json`

const issueGrant = Effect.gen(function*() {
  const { grant } = yield* (yield* Grants).issue({
    resource_owner: ResourceOwner.make("payer"),
    subject: PairwiseSubject.make("payer-as-seen-by-its-agent"),
    client_id: ClientId.make("agent"),
    provider: bank,
    scopes: [operationsRead],
    expires_in: Duration.days(30)
  })
  fs.writeFileSync(grantFile, JSON.stringify(grant))
})

const outcomes = `
  SELECT idempotency_key AS id, coalesce(failure_code, state) AS reason, CASE
    WHEN state = 'succeeded' THEN 'paid' WHEN state = 'failed' THEN 'failed' WHEN under_review THEN 'person' ELSE 'open'
  END AS told FROM operations`

await runCommand({
  prepare: () => run(issueGrant),
  work: async () =>
    GatewayApp.run({
      ...options,
      port: settings.webhookPort,
      routes: webhooks,
      providers: Providers.layer({ bank: adapter }),
      providerClient: ProviderHttpClient.layer({ connections: settings.concurrency * 2 }),
      migrate: false,
      started: Layer.effectDiscard(Effect.sync(ready))
    }),
  accept: async () => {
    const grant = JSON.parse(fs.readFileSync(grantFile, "utf8"))
    const requests = (await readPayments()).map(({ id, ...payment }) => {
      return { type: "payment", key: IdempotencyKey.make(id), payload: { reference: id, ...payment } } as const
    })
    const accepting = OperationLedger.use((ledger) => ledger.acceptAll(grant, requests as never))
    const results = await run(accepting)
    results.forEach((result, n) => result._tag === "Success" && accepted(requests[n]!.key))
  },
  outcomes: async () => {
    const pool = new Pool({ connectionString: settings.databaseUrl, max: 1 })
    const { rows } = await pool.query<Outcome>({ text: outcomes, values: [] })
    rows.forEach(tellOutcome)
    await pool.end()
  }
})
