/**
 * An application that takes payments, and tells what became of them.
 *
 *     npm exec -- node examples/payments/main.ts
 *
 * It runs on an embedded PostgreSQL in `.data/payments` unless DATABASE_URL names another, and pays through a sandbox of
 * its own unless BANK_URL names a bank (with BANK_TOKEN). PORT is 3002 by default.
 */
import { NodeCrypto, NodeHttpServer, NodeRuntime, NodeServices } from "@effect/platform-node"
import * as Cause from "effect/Cause"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import type * as Runtime from "effect/Runtime"
import { randomUUID } from "node:crypto"
import * as path from "node:path"
import { ClientId, operationsRead, PairwiseSubject, Provider, ResourceOwner } from "../../src/domain/Grant.ts"
import type { RequestId } from "../../src/domain/RequestId.ts"
import { Database } from "../../src/node/Database.ts"
import { createListener } from "../../src/node/NodeListener.ts"
import { MigrationPool } from "../../src/node/Pools.ts"
import { Sandbox } from "../../src/sandbox/Sandbox.ts"
import { Lifecycle } from "../../src/server/Lifecycle.ts"
import { BaseUrl, logProblem } from "../../src/server/ProblemResponses.ts"
import { Grants } from "../../src/services/Grants.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { paymentsWrite } from "./Api.ts"
import { bankName, Reads, Server, Workers, Writes } from "./Application.ts"

const settings = Effect.gen(function*() {
  const dataDir = yield* Config.String("DATA_DIR").pipe(Config.withDefault(".data/payments"))
  const port = yield* Config.Port("PORT").pipe(Config.withDefault(3002))
  return {
    dataDir,
    port,
    url: `http://127.0.0.1:${port}`,
    databaseUrl: yield* Config.option(Config.Redacted("DATABASE_URL")),
    bankUrl: yield* Config.option(Config.String("BANK_URL")),
    bankToken: yield* Config.Redacted("BANK_TOKEN").pipe(Config.withDefault(Redacted.make("sandbox")))
  }
})

type Settings = Effect.Success<typeof settings>

/** The sandbox keeps its record beside the database, so that it remembers for as long as the ledger does. */
const Working = ({ bankToken, bankUrl, dataDir }: Settings) =>
  Option.match(bankUrl, {
    onSome: (url) => Workers(url, bankToken),
    onNone: () =>
      Layer.unwrap(Effect.map(Sandbox, ({ url }) => Workers(url, bankToken))).pipe(
        Layer.provide(Sandbox.layer({ record: path.join(dataDir, "bank.jsonl") }))
      )
  })

/** The server of the gateway, with its limits. */
const Listener = ({ port, url }: Settings) =>
  Layer.unwrap(Effect.contextWith((context: Context.Context<never>) => {
    const run = Effect.runForkWith(context)
    return Effect.succeed(NodeHttpServer.layerServer(
      () =>
        createListener({
          baseUrl: url,
          newRequestId: () => randomUUID() as RequestId,
          onProblem: (problem) => run(logProblem(problem))
        }),
      { host: "127.0.0.1", port, gracefulShutdownTimeout: "10 seconds" }
    ))
  }))

const invitation = (url: string, token: string) => `
Payments are taken at ${url}. Pay, and pay once more with the same key: it is the same operation.

  curl -i ${url}/v1/payments -H 'Authorization: Bearer ${token}' \\
    -H 'Idempotency-Key: "rent-of-may"' -H 'Content-Type: application/json' \\
    -d '{"amount":"750.00","currency":"EUR","creditor":{"name":"Landlord","iban":"DE89370400440532013000"}}'

Read what became of it:

  curl -i ${url}/v1/operations -H 'Authorization: Bearer ${token}'
`

/** A grant that may pay and read, and how to use it. */
const invite = Effect.fn(function*(url: string) {
  const grants = yield* Grants
  const { access_token } = yield* grants.issue({
    resource_owner: ResourceOwner.make("alice"),
    subject: PairwiseSubject.make("alice-as-seen-by-her-agent"),
    client_id: ClientId.make("alices-agent"),
    provider: Provider.make(bankName),
    scopes: [operationsRead, paymentsWrite],
    expires_in: Duration.days(30)
  })
  yield* Console.log(invitation(url, Redacted.value(access_token)))
})

/** What can be replaced, as in any application that is made of layers. */
export interface Parts {
  readonly writes: typeof Writes
  readonly working: typeof Working
}

/** The program: it runs until it is interrupted. */
export const makeProgram = (parts: Parts) =>
  Effect.gen(function*() {
    const known = yield* settings
    const { databaseUrl, dataDir, url } = known
    const Running = Layer.effectDiscard(invite(url)).pipe(
      Layer.provide([Server, parts.working(known)]),
      Layer.provide(Listener(known)),
      Layer.provide([Reads, parts.writes]),
      Layer.provide([Lifecycle.layer(), BaseUrl.layer(url)])
    )
    // The schema comes first: what follows relies on it.
    yield* Effect.andThen(Effect.provide(migrate, MigrationPool), Layer.launch(Running)).pipe(
      Effect.provide(Database.layer({ databaseUrl, dataDir: path.join(dataDir, "postgres") }))
    )
  }).pipe(
    Effect.provideService(References.TracerEnabled, false),
    Effect.provide([
      NodeServices.layer,
      NodeHttpServer.layerHttpServices,
      NodeCrypto.layerDigest,
      NodeCrypto.layerSecureRandom
    ])
  )

/** Nothing is replaced. */
export const parts: Parts = { writes: Writes, working: Working }

/** A signal is how a server is asked to stop: having stopped, it did what it was asked. */
const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)

if (import.meta.main) NodeRuntime.runMain(makeProgram(parts), { teardown })
