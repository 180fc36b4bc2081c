/**
 * An application that accepts payments through a mutation endpoint, and serves their operations.
 *
 *     npm run example:payments
 *
 * It runs on an embedded PostgreSQL in `.data/payments`, or on the one that DATABASE_URL names. It pays through its own
 * sandbox, or through the bank at BANK_URL (with BANK_TOKEN). The default of PORT is 3002.
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
import {
  ClientId,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "financial-agents-gateway/domain/Grant"
import { Database } from "financial-agents-gateway/node/Database"
import { createListener, type RequestId } from "financial-agents-gateway/node/NodeListener"
import { MigrationPool } from "financial-agents-gateway/node/Pools"
import { Sandbox } from "financial-agents-gateway/sandbox/Sandbox"
import { BaseUrl } from "financial-agents-gateway/server/BaseUrl"
import { Lifecycle } from "financial-agents-gateway/server/Lifecycle"
import { logProblem } from "financial-agents-gateway/server/ProblemResponses"
import { Grants } from "financial-agents-gateway/services/Grants"
import { migrate } from "financial-agents-gateway/services/Migrations"
import { randomUUID } from "node:crypto"
import * as path from "node:path"
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

/** The workers. The sandbox keeps its record beside the database, so that record and ledger last equally long. */
const Working = ({ bankToken, bankUrl, dataDir }: Settings) =>
  Option.match(bankUrl, {
    onSome: (url) => Workers(url, bankToken),
    onNone: () =>
      Layer.unwrap(Effect.map(Sandbox, ({ url }) => Workers(url, bankToken))).pipe(
        Layer.provide(Sandbox.layer({ record: path.join(dataDir, "bank.jsonl") }))
      )
  })

/** The gateway's HTTP listener, with its limits. */
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
The payments endpoint is at ${url}. Pay, then repeat the request with the same key: you get the same operation.

  curl -i ${url}/v1/payments -H 'Authorization: Bearer ${token}' \\
    -H 'Idempotency-Key: "rent-of-may"' -H 'Content-Type: application/json' \\
    -d '{"amount":"750.00","currency":"EUR","creditor":{"name":"Landlord","iban":"DE89370400440532013000"}}'

Read its outcome:

  curl -i ${url}/v1/operations -H 'Authorization: Bearer ${token}'
`

/** Issues a grant that may pay and read, and prints how to use it. */
const invite = Effect.fn(function*(url: string) {
  const grants = yield* Grants
  const { access_token } = yield* grants.issue({
    resource_owner: ResourceOwner.make("alice"),
    subject: PairwiseSubject.make("alice-as-seen-by-her-agent"),
    client_id: ClientId.make("alices-agent"),
    provider: ProviderName.make(bankName),
    scopes: [operationsRead, paymentsWrite],
    expires_in: Duration.days(30)
  })
  yield* Console.log(invitation(url, Redacted.value(access_token)))
})

/** The layers that a test can replace. */
export interface Parts {
  readonly writes: typeof Writes
  readonly working: typeof Working
}

/** The program. It runs until it is interrupted. */
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
    // Migrations come first: the server and the workers need the schema.
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

/** The layers of the application itself. */
export const parts: Parts = { writes: Writes, working: Working }

/** Exits with 0 if a signal interrupted the program, because the stop was requested. */
const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)

if (import.meta.main) NodeRuntime.runMain(makeProgram(parts), { teardown })
