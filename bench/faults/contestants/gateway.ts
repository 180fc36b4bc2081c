/**
 * The gateway: requests accepted into its ledger, and its workers with the adapter of `gatewayBank.ts`. Its workers are those of
 * `work`, as an application runs them beside a route for webhooks (docs/composition.md).
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { ClientId, operationsRead, PairwiseSubject, ProviderName, ResourceOwner } from "../../../src/domain/Grant.ts"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { Database, WriterPool } from "../../../src/node/postgres/Pools.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { IdempotencyKey, OperationLedger } from "../../../src/services/OperationLedger.ts"
import { Providers } from "../../../src/submission/providers/Providers.ts"
import { defaultPolicy, Reconciler, SubmissionPolicy } from "../../../src/submission/SubmissionProcesses.ts"
import { freePort } from "../../shared/freePort.ts"
import { adapter } from "./gatewayBank.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

const bank = ProviderName.make("bank")
// The defaults, and an id, so that a restart settles the claims of a crash at once (docs/submission.md, "When nothing can be sent").
const policy = { ...defaultPolicy, providerConcurrency: settings.concurrency, workerId: `worker-${settings.worker}` }

const webhooks = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const reconciler = yield* Reconciler
  yield* router.add(
    "POST",
    "/webhooks",
    (request) =>
      Effect.flatMap(
        request.json,
        (body) => reconciler.hint(bank, { operation_id: (body as { readonly end_to_end_id: string }).end_to_end_id })
      ).pipe(
        Effect.as(HttpServerResponse.empty({ status: 204 })),
        Effect.orElseSucceed(() => HttpServerResponse.empty({ status: 503 }))
      )
  )
}))

const options = {
  databaseUrl: Redacted.make(settings.databaseUrl),
  port: settings.webhookPort,
  references: Layer.succeed(SubmissionPolicy, policy)
}

/** Runs a command on the services of the ledger, without workers. */
const run = async <A, E>(effect: Effect.Effect<A, E, Grants | OperationLedger | Database>) => {
  const port = await Effect.runPromise(freePort)
  await new Promise<void>((resolve) => {
    const started = Layer.effectDiscard(Effect.andThen(effect, Effect.sync(resolve)))
    GatewayApp.run({ ...options, port, started })
  })
}

const grantFile = `${settings.stateDirectory}/grant.json`

await runCommand({
  prepare: () =>
    run(Effect.gen(function*() {
      if (fs.existsSync(grantFile)) return
      const { grant } = yield* (yield* Grants).issue({
        resource_owner: ResourceOwner.make("payer"),
        subject: PairwiseSubject.make("payer-as-seen-by-its-agent"),
        client_id: ClientId.make("agent"),
        provider: bank,
        scopes: [operationsRead],
        expires_in: Duration.days(30)
      })
      fs.writeFileSync(grantFile, JSON.stringify(grant))
    })),
  work: async () =>
    GatewayApp.run({
      ...options,
      routes: webhooks,
      providers: Providers.layer({ bank: adapter }),
      providerClient: ProviderHttpClient.layer({ connections: settings.concurrency * 2 }),
      migrate: false,
      started: Layer.effectDiscard(Effect.sync(ready))
    }),
  accept: async () => {
    const payments = await readPayments()
    const grant = JSON.parse(fs.readFileSync(grantFile, "utf8"))
    await run(Effect.gen(function*() {
      const requests = payments.map(({ id, ...payment }) => ({
        type: "payment" as const,
        key: IdempotencyKey.make(id),
        payload: { reference: id, ...payment }
      }))
      const results = yield* (yield* OperationLedger).acceptAll(grant, requests as never)
      results.forEach((result, n) => result._tag === "Success" && accepted(payments[n]!.id))
    }))
  },
  outcomes: () =>
    run(
      Effect.gen(function*() {
        const context = yield* Layer.build(Layer.provide(WriterPool, Layer.succeed(Database, yield* Database)))
        const rows = yield* Context.get(context, SqlClient.SqlClient)<
          {
            readonly id: string
            readonly state: string
            readonly under_review: boolean
            readonly failure_code: string | null
          }
        >`SELECT idempotency_key AS id, state, under_review, failure_code FROM operations`
        for (const { failure_code, id, state, under_review } of rows) {
          const told = state === "succeeded" ? "paid" : state === "failed" ? "failed" : under_review ? "person" : "open"
          tellOutcome({ id, told, reason: failure_code ?? state })
        }
      }).pipe(Effect.scoped)
    )
})
