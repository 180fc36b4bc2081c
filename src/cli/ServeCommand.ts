/**
 * `serve`: the API over HTTP.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { ReadServices } from "../node/GatewayServices.ts"
import { type AdminAddress, checkAdminPort } from "../node/http/AdminAddress.ts"
import { layerAllowedOrigins } from "../node/http/AllowedOriginsSetting.ts"
import { addressOf } from "../node/http/ListenAddress.ts"
import { defaultMaxConnections } from "../node/http/NodeListener.ts"
import * as NodeServer from "../node/http/NodeServer.ts"
import { layerRateLimit } from "../node/http/RateLimitSettings.ts"
import * as ReadLane from "../node/http/ReadLane.ts"
import { MigrationPool } from "../node/postgres/Pools.ts"
import * as Instrumentation from "../node/process/Instrumentation.ts"
import { operatorConsole } from "../node/process/OperatorConsole.ts"
import type { ConsoleSettings } from "../operator/console/ConsoleSettings.ts"
import { BaseUrl, normalizeBaseUrl } from "../server/gate/BaseUrl.ts"
import { Lifecycle } from "../server/gate/Lifecycle.ts"
import { Problems } from "../server/gate/ProblemResponses.ts"
import type { Quota } from "../server/gate/RateLimits.ts"
import { GatewayServer } from "../server/Gateway.ts"
import { migrate } from "../services/Migrations.ts"
import { adminFlags, adminOf } from "./AdminFlags.ts"
import { consoleFlags, consoleOf } from "./ConsoleFlags.ts"
import { Port } from "./Flags.ts"
import { rateLimitFlag } from "./RateLimitFlags.ts"
import { ServeDemo } from "./ServeDemo.ts"
import { Verifier } from "./ServedServices.ts"

const MaxConnections = Schema.String.check(
  Schema.isPattern(/^[1-9][0-9]{0,6}$/u, { expected: "a number of connections, at least 1 and at most 9999999" })
).pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

const flags = {
  host: Flag.String("host").pipe(
    Flag.withDescription("Address to listen on (HOST) (default: 127.0.0.1)"),
    Flag.withFallbackConfig(Config.String("HOST")),
    Flag.withDefault("127.0.0.1")
  ),
  port: Flag.String("port").pipe(
    Flag.withDescription("Port to listen on (PORT) (default: 3000)"),
    Flag.withFallbackConfig(Config.String("PORT")),
    Flag.withDefault("3000"),
    // Not 0: clients must know the URL of the gateway before it listens.
    Flag.withSchema(Port({ from: 1, variable: "PORT" }))
  ),
  baseUrl: Flag.String("base-url").pipe(
    Flag.withDescription("URL at which clients reach the gateway (BASE_URL); http://HOST:PORT by default"),
    Flag.withFallbackConfig(Config.String("BASE_URL")),
    Flag.optional
  ),
  maxConnections: Flag.String("max-connections").pipe(
    Flag.withDescription(
      `Most open connections; the server closes further ones (MAX_CONNECTIONS) (default: ${defaultMaxConnections})`
    ),
    Flag.withFallbackConfig(Config.String("MAX_CONNECTIONS")),
    Flag.withDefault(String(defaultMaxConnections)),
    Flag.withSchema(MaxConnections)
  ),
  reusePort: Flag.Boolean("reuse-port").pipe(
    Flag.withDescription("Let processes of the same user listen on the port at once, on Linux (REUSE_PORT)"),
    Flag.withFallbackConfig(Config.Boolean("REUSE_PORT")),
    Flag.withDefault(false)
  ),
  ...adminFlags,
  ...consoleFlags,
  rateLimit: rateLimitFlag,
  migrate: Flag.Boolean("migrate").pipe(
    Flag.withDescription("Apply missing migrations first; use --no-migrate for a read-only database role"),
    Flag.withDefault(true)
  ),
  demo: Flag.Boolean("demo").pipe(
    Flag.withDescription("Fill an empty embedded database with a demo grant and operations"),
    Flag.withDefault(false)
  )
}

interface ServeOptions {
  readonly host: string
  readonly port: number
  readonly baseUrl: Option.Option<string>
  readonly maxConnections: number
  readonly reusePort: boolean
  readonly rateLimit: Option.Option<Quota>
  readonly demo: boolean
}

const applyMigrations = Effect.gen(function*() {
  const applied = yield* Effect.provide(migrate, MigrationPool)
  if (applied.length > 0) yield* Effect.annotateLogs(Effect.logInfo("Applied migrations"), { applied })
})

/** The URL of the gateway. */
const addressIn = ({ baseUrl, host, port }: ServeOptions) =>
  normalizeBaseUrl(Option.getOrElse(baseUrl, () => addressOf(host, port)))

/** The server with its services, and the demo if there is one. */
const Served = (options: ServeOptions, admin: AdminAddress | null, console: ConsoleSettings | null) => {
  const { demo, host, maxConnections, port, rateLimit, reusePort } = options
  const address = addressIn(options)
  const listener = { host, port, baseUrl: address, maxConnections, reusePort }
  return NodeServer.layerListening(listener, admin).pipe(
    Layer.provideMerge(demo ? ServeDemo(address) : Layer.empty),
    Layer.provide([GatewayServer, Layer.provide(ReadLane.layer, Problems.layer)]),
    // The services are built first: a shared port gets connections from the start.
    Layer.provide(NodeServer.layer(listener)),
    Layer.provide([
      ReadServices,
      Verifier(address, Option.isSome(rateLimit)),
      layerRateLimit(rateLimit),
      layerAllowedOrigins,
      Lifecycle.layer(),
      BaseUrl.layer(address)
    ]),
    Layer.provide(
      console === null ? Instrumentation.layer(admin) : Instrumentation.layer(admin, operatorConsole(console))
    )
  )
}

export const serve = Command.make(
  "serve",
  flags,
  Effect.fn(function*(options) {
    const admin = adminOf(options)
    yield* checkAdminPort(admin, options.port)
    const console = yield* consoleOf(options, admin)
    if (options.migrate) yield* applyMigrations
    return yield* Layer.launch(Served(options, admin, console))
  })
).pipe(
  Command.withDescription("Serve the API. Without DATABASE_URL, it runs an embedded PostgreSQL"),
  Command.withExamples([
    { command: "financial-agents-gateway serve --port 8080", description: "With an embedded PostgreSQL in ./.data" },
    {
      command: "DATABASE_URL=postgres://gateway@db/gateway financial-agents-gateway serve --host 0.0.0.0",
      description: "With your own PostgreSQL"
    }
  ])
)
