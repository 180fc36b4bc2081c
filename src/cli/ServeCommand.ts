/**
 * `serve` and `migrate`.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import type { HttpServer } from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { Database } from "../node/Database.ts"
import { defaultMaxConnections } from "../node/NodeListener.ts"
import {
  ListPool,
  MigrationPool,
  ProbePool,
  ProofPool,
  ProvisioningPool,
  ReaderPool,
  WriterPool
} from "../node/Pools.ts"
import { GatewayServer } from "../server/Gateway.ts"
import { Lifecycle } from "../server/Lifecycle.ts"
import { BaseUrl, normalizeBaseUrl } from "../server/ProblemResponses.ts"
import { Grants } from "../services/Grants.ts"
import { migrate } from "../services/Migrations.ts"
import { OperationLedger } from "../services/OperationLedger.ts"
import { OperationStore } from "../services/OperationStore.ts"
import { Readiness } from "../services/Readiness.ts"
import { mayProvision } from "../services/sql/SqlGrants.ts"
import { GrantVerifier } from "../services/verification/GrantVerifier.ts"
import { ProofReplay } from "../services/verification/ProofReplay.ts"
import { readAuthorizationServers } from "./AuthorizationServers.ts"
import { fillWithDemo, instructions, invitation, narrate } from "./Demo.ts"
import { DemoBank } from "./DemoBank.ts"
import { CommandFailed, print } from "./Output.ts"
import { layerPayloadKeys } from "./PayloadKeys.ts"
import { layerRateLimit, rateLimitFlag } from "./RateLimitFlags.ts"

/** Opens the platform's HTTP server. */
export type Listen = (
  options: {
    readonly host: string
    readonly port: number
    readonly baseUrl: string
    readonly maxConnections: number
  }
) => Layer.Layer<HttpServer, ServeError>

/** Not 0: clients must be told where the gateway is before it listens. */
const Port = Schema.String.check(Schema.isPattern(/^[0-9]{1,5}$/u, { expected: "a port from 1 to 65535" })).pipe(
  Schema.decodeTo(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 })),
    SchemaTransformation.numberFromString
  )
)

const MaxConnections = Schema.String.check(
  Schema.isPattern(/^[1-9][0-9]{0,6}$/u, { expected: "a number of connections, at least 1 and at most 9999999" })
).pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

const flags = {
  host: Flag.String("host").pipe(
    Flag.withDescription("Address to listen on (HOST)"),
    Flag.withFallbackConfig(Config.String("HOST")),
    Flag.withDefault("127.0.0.1")
  ),
  port: Flag.String("port").pipe(
    Flag.withDescription("Port to listen on (PORT)"),
    Flag.withFallbackConfig(Config.String("PORT")),
    Flag.withDefault("3000"),
    Flag.withSchema(Port)
  ),
  baseUrl: Flag.String("base-url").pipe(
    Flag.withDescription("URL at which clients reach the gateway (BASE_URL); http://HOST:PORT by default"),
    Flag.withFallbackConfig(Config.String("BASE_URL")),
    Flag.optional
  ),
  maxConnections: Flag.String("max-connections").pipe(
    Flag.withDescription(
      "Connections that may be open at once (MAX_CONNECTIONS); further ones are closed as they come"
    ),
    Flag.withFallbackConfig(Config.String("MAX_CONNECTIONS")),
    Flag.withDefault(String(defaultMaxConnections)),
    Flag.withSchema(MaxConnections)
  ),
  rateLimit: rateLimitFlag,
  migrate: Flag.Boolean("migrate").pipe(
    Flag.withDescription("Apply missing migrations first; --no-migrate for a role that may only read"),
    Flag.withDefault(true)
  ),
  demo: Flag.Boolean("demo").pipe(
    Flag.withDescription("Fill an empty embedded database with a demo grant and operations"),
    Flag.withDefault(false)
  )
}

const DemoLedger = Layer.mergeAll(Grants.layer, OperationLedger.layer).pipe(
  Layer.provide(layerPayloadKeys),
  Layer.provide(WriterPool)
)

/** Fills an empty database, says how to read it, and then what happens to its operations. */
const showDemo = Effect.fn(function*(address: string) {
  const filled = yield* fillWithDemo
  if (filled === null) return yield* Console.log(instructions(address))
  yield* Console.log(invitation(address, filled))
  yield* Effect.forkScoped(narrate(filled))
})

/** Only an embedded database is ever filled, and driven: one that somebody named may be anything. */
const Demo = (address: string) =>
  Layer.unwrap(Effect.map(Database, ({ isEmbedded }) =>
    isEmbedded
      ? DemoBank.pipe(Layer.provide(Layer.effectDiscard(showDemo(address)).pipe(Layer.provide(DemoLedger))))
      : Layer.effectDiscard(
        Effect.logWarning("--demo is ignored: it never touches a database that DATABASE_URL names")
      )))

const Reads = Layer.merge(
  OperationStore.layer.pipe(Layer.provide([ReaderPool, ListPool])),
  Readiness.layer.pipe(Layer.provide(ProbePool))
)

const OwnVerifier = GrantVerifier.layer.pipe(Layer.provide(ReaderPool))

/** Grants that tokens show are registered by a role of their own, where PROVISIONER_DATABASE_URL names it. */
const Provisioner = Layer.unwrap(Effect.gen(function*() {
  const database = yield* Database
  const url = Option.filter(
    yield* Config.option(Config.Redacted("PROVISIONER_DATABASE_URL")),
    (url) => Redacted.value(url).trim() !== ""
  )
  if (Option.isSome(url) && database.isEmbedded) {
    return yield* new CommandFailed({ message: "PROVISIONER_DATABASE_URL is set without DATABASE_URL: set both" })
  }
  const connection = {
    ...Option.isSome(url) ? { url: url.value } : database.connection,
    applicationName: "financial-agents-gateway provisioner"
  }
  return Layer.fresh(ProvisioningPool).pipe(Layer.provide(Layer.succeed(Database, { ...database, connection })))
}))

const requireProvisioner = Effect.gen(function*() {
  if (yield* mayProvision) return
  return yield* new CommandFailed({
    message: "the database role may not register grants, which first_sight in OAUTH_ISSUERS needs: "
      + "set PROVISIONER_DATABASE_URL to a role that may, such as gateway_provisioner (docs/postgresql.md)"
  })
})

/** The tokens of the authorization servers that the environment names, beside those of the gateway itself. */
const Verifier = (baseUrl: string, rateLimited: boolean) =>
  Layer.unwrap(Effect.gen(function*() {
    const servers = yield* readAuthorizationServers(baseUrl, rateLimited)
    if (servers === null) return OwnVerifier
    return Layer.unwrap(Effect.map(GrantVerifier, (own) => GrantVerifier.layerIssuers({ ...servers, own }))).pipe(
      Layer.provide(OwnVerifier),
      Layer.provide([
        ProofReplay.layer.pipe(Layer.provide(ProofPool)),
        // The demo has another one, on other connections: layers are shared by default.
        Layer.merge(
          Layer.fresh(Grants.layer),
          servers.issuers.some(({ grantProvisioning }) => grantProvisioning !== undefined)
            ? Layer.effectDiscard(requireProvisioner)
            : Layer.empty
        ).pipe(Layer.provide(Provisioner)),
        FetchHttpClient.layer
      ])
    )
  }))

export const makeServe = (listen: Listen) =>
  Command.make(
    "serve",
    flags,
    Effect.fn(function*(options) {
      if (options.migrate) {
        const applied = yield* Effect.provide(migrate, MigrationPool)
        if (applied.length > 0) yield* Effect.annotateLogs(Effect.logInfo("Applied migrations"), { applied })
      }
      const host = options.host.includes(":") ? `[${options.host}]` : options.host
      const address = normalizeBaseUrl(Option.getOrElse(options.baseUrl, () => `http://${host}:${options.port}`))
      const announced = Layer.effectDiscard(
        Effect.gen(function*() {
          yield* Effect.annotateLogs(Effect.logInfo("Listening"), {
            host: options.host,
            port: options.port,
            base_url: address
          })
        })
      )
      yield* Layer.launch(
        announced.pipe(
          Layer.provideMerge(options.demo ? Demo(address) : Layer.empty),
          Layer.provide(GatewayServer),
          Layer.provide([
            Reads,
            Verifier(address, Option.isSome(options.rateLimit)),
            layerRateLimit(options.rateLimit),
            Lifecycle.layer(),
            BaseUrl.layer(address),
            listen({
              host: options.host,
              port: options.port,
              baseUrl: address,
              maxConnections: options.maxConnections
            })
          ])
        )
      )
    })
  ).pipe(
    Command.withDescription("Serve the API, on an embedded PostgreSQL unless DATABASE_URL names one"),
    Command.withExamples([
      { command: "financial-agents-gateway serve --port 8080", description: "On an embedded PostgreSQL in ./.data" },
      {
        command: "DATABASE_URL=postgres://gateway@db/gateway financial-agents-gateway serve --host 0.0.0.0",
        description: "On a PostgreSQL of your own"
      }
    ])
  )

export const migrateCommand = Command.make(
  "migrate",
  {},
  Effect.fn(function*() {
    yield* print({ applied: yield* Effect.provide(migrate, MigrationPool) })
  })
).pipe(Command.withDescription("Apply the migrations that the database lacks"))
