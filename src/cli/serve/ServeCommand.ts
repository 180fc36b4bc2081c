/**
 * `serve`: the API over HTTP, as a preset of `GatewayApp` that accepts nothing. With `--demo` it has workers, too. `console`: the console
 * of operators, as a preset that serves nothing to clients.
 *
 * The room `cli/serve`: the command that serves the API, with its demo. Read this file first.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as PostgresCluster from "../../cluster/PostgresCluster.ts"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import * as GatewayApp from "../../node/GatewayApp.ts"
import * as AdminListener from "../../node/http/AdminListener.ts"
import { layerRateLimit, RateLimit } from "../../node/http/HttpSettings.ts"
import { addressOf } from "../../node/http/ListenAddress.ts"
import { defaultMaxConnections } from "../../node/http/NodeListener.ts"
import { Database } from "../../node/postgres/Database.ts"
import { manifest } from "../../node/process/Invocation.ts"
import { readConsoleSettings } from "../../operator/console/ConsoleSettings.ts"
import { McpRoutes } from "../../server/agents/McpRoutes.ts"
import { normalizeBaseUrl } from "../../server/gate/BaseUrl.ts"
import {
  adminFlags,
  adminOf,
  listenerPort,
  operatorFlag,
  operatorName,
  optionalText,
  textOr,
  toggle
} from "../Flags.ts"
import { IssuersVerifier, readAuthorizationServers } from "./AuthorizationServers.ts"

const MaxConnections = Schema.String.check(
  Schema.isPattern(/^[1-9][0-9]{0,6}$/u, { expected: "a number of connections, at least 1 and at most 9999999" })
).pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

const flags = {
  host: textOr("host", "Address to listen on", "127.0.0.1", Schema.String, "HOST"),
  port: listenerPort("port", "Port to listen on", "PORT", "3000"),
  baseUrl: optionalText(
    "base-url",
    "URL at which clients reach the gateway; http://HOST:PORT by default",
    Schema.String,
    "BASE_URL"
  ),
  maxConnections: textOr(
    "max-connections",
    "Most open connections; the server closes further ones",
    String(defaultMaxConnections),
    MaxConnections,
    "MAX_CONNECTIONS"
  ),
  reusePort: toggle(
    "reuse-port",
    "Let processes of the same user listen on the port at once, on Linux",
    "REUSE_PORT"
  ),
  ...adminFlags,
  console: toggle("console", "Serve the console of operators on the admin listener; it needs --admin-port", "CONSOLE"),
  ...operatorFlag,
  rateLimit: optionalText(
    "rate-limit",
    "Quota of each client and subject, such as 100/s;burst=200; none by default",
    RateLimit,
    "RATE_LIMIT"
  ),
  migrate: Flag.Boolean("migrate").pipe(
    Flag.withDescription("Apply missing migrations first; use --no-migrate for a read-only database role"),
    Flag.withDefault(true)
  ),
  demo: toggle("demo", "Fill an empty embedded database with a demo grant and operations")
}

/** A gateway without the console does not load it. */
const loadConsole = Effect.promise(() => import("../../node/process/OperatorConsole.ts"))

/** The routes of the console on the admin listener. Undefined: there is no console. */
const consoleOf = Effect.fnUntraced(function*(
  { console, operator }: Pick<Command.Command.Config.Infer<typeof flags>, "console" | "operator">,
  admin: ReturnType<typeof adminOf>
) {
  if (!console) return undefined
  if (admin === null) {
    return yield* new InvalidSetting({ message: "--console needs --admin-port: set it to a free port" })
  }
  const { version } = manifest
  const settings = { host: admin.adminHost, operator: operatorName({ operator }), version }
  const { operatorConsole } = yield* loadConsole
  return operatorConsole(yield* readConsoleSettings(settings))
})

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
    // Its workers and its provider take 8 MiB.
    const demoParts = demo && database.isEmbedded
      ? (yield* Effect.promise(() => import("./Demo.ts"))).demoParts(baseUrl)
      : {}
    return yield* Layer.launch(GatewayApp.layer({
      ...admin,
      host,
      port,
      baseUrl,
      maxConnections,
      reusePort,
      migrate,
      serves: "reads",
      admin: AdminListener.layer(console),
      agents: McpRoutes(),
      database: Layer.succeed(Database, database),
      cluster: PostgresCluster.layer,
      rateLimits: layerRateLimit(rateLimit),
      ...servers === null ? {} : { verifier: IssuersVerifier(servers, database) },
      ...demoParts
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

const consoleFlags = {
  host: textOr(
    "host",
    "Address to listen on. Another one needs CONSOLE_OIDC_ISSUER",
    "127.0.0.1",
    Schema.String,
    "ADMIN_HOST"
  ),
  port: listenerPort("port", "Port to listen on", "ADMIN_PORT", "3001"),
  ...operatorFlag
}

export const consoleCommand = Command.make(
  "console",
  consoleFlags,
  Effect.fn(function*({ host, operator, port }) {
    const settings = yield* readConsoleSettings({
      host,
      operator: operatorName({ operator }),
      version: manifest.version
    })
    const { operatorConsole } = yield* loadConsole
    const announced = Effect.annotateLogs(Effect.logInfo("Console listening"), {
      host,
      port,
      url: addressOf(host, port)
    })
    return yield* Layer.launch(GatewayApp.layer({
      serves: "nothing",
      adminHost: host,
      adminPort: port,
      admin: AdminListener.layer(operatorConsole(settings)),
      database: Layer.succeed(Database, yield* Database),
      cluster: PostgresCluster.layer,
      migrate: false,
      started: Layer.effectDiscard(announced)
    }))
  })
).pipe(
  Command.withDescription(
    "Serve the console of operators, and /metrics. It prints a link that signs in once; with CONSOLE_OIDC_ISSUER, operators sign in there"
  ),
  Command.withExamples([
    {
      command: "financial-agents-gateway console",
      description: "On this machine, with the embedded PostgreSQL in ./.data"
    },
    {
      command: "DATABASE_URL=postgres://gateway_writer@db/gateway financial-agents-gateway console --operator olivia",
      description: "With your own PostgreSQL, under this name in the records of actions"
    }
  ])
)
