/**
 * `serve`: the API over HTTP, as a preset of `GatewayApp` that accepts nothing. With `--demo` it has workers, too.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as PostgresCluster from "../../cluster/PostgresCluster.ts"
import * as GatewayApp from "../../node/GatewayApp.ts"
import * as AdminListener from "../../node/http/AdminListener.ts"
import { addressOf } from "../../node/http/ListenAddress.ts"
import { defaultMaxConnections } from "../../node/http/NodeListener.ts"
import { layerRateLimit, RateLimit } from "../../node/http/RateLimitSettings.ts"
import { Database } from "../../node/postgres/Database.ts"
import { operatorConsole } from "../../node/process/OperatorConsole.ts"
import { McpRoutes } from "../../server/agents/McpRoutes.ts"
import { normalizeBaseUrl } from "../../server/gate/BaseUrl.ts"
import { adminFlags, adminOf } from "../AdminFlags.ts"
import { Port } from "../Flags.ts"
import { readAuthorizationServers } from "./AuthorizationServers.ts"
import { consoleFlags, consoleOf } from "./ConsoleFlags.ts"
import { demoParts } from "./DemoParts.ts"
import { IssuersVerifier } from "./IssuersVerifier.ts"

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
  rateLimit: Flag.String("rate-limit").pipe(
    Flag.withDescription("Quota of each client and subject, such as 100/s;burst=200 (RATE_LIMIT); none by default"),
    Flag.withFallbackConfig(Config.String("RATE_LIMIT")),
    Flag.withSchema(RateLimit),
    Flag.optional
  ),
  migrate: Flag.Boolean("migrate").pipe(
    Flag.withDescription("Apply missing migrations first; use --no-migrate for a read-only database role"),
    Flag.withDefault(true)
  ),
  demo: Flag.Boolean("demo").pipe(
    Flag.withDescription("Fill an empty embedded database with a demo grant and operations"),
    Flag.withDefault(false)
  )
}

export const serve = Command.make(
  "serve",
  flags,
  Effect.fn(function*(options) {
    const { demo, host, maxConnections, migrate, port, rateLimit, reusePort } = options
    const admin = adminOf(options)
    const console = yield* consoleOf(options, admin)
    const baseUrl = normalizeBaseUrl(Option.getOrElse(options.baseUrl, () => addressOf(host, port)))
    const servers = yield* readAuthorizationServers(baseUrl, Option.isSome(rateLimit))
    const database = yield* Database
    if (demo && !database.isEmbedded) {
      yield* Effect.logWarning("--demo is ignored: it never touches a database that DATABASE_URL names")
    }
    return yield* Layer.launch(GatewayApp.layer({
      ...admin,
      host,
      port,
      baseUrl,
      maxConnections,
      reusePort,
      migrate,
      serves: "reads",
      admin: AdminListener.layer(console === null ? undefined : operatorConsole(console)),
      agents: McpRoutes(),
      database: Layer.succeed(Database, database),
      cluster: PostgresCluster.layer,
      rateLimits: layerRateLimit(rateLimit),
      ...servers === null ? {} : { verifier: IssuersVerifier(servers, database) },
      ...demo && database.isEmbedded ? demoParts(baseUrl) : {}
    }))
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
