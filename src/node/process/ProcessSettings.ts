/**
 * The settings of a gateway process: given by the program, or read from the environment under the names of the command
 * line.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as SchemaIssue from "effect/SchemaIssue"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { normalizeBaseUrl } from "../../server/gate/BaseUrl.ts"
import { addressOf, type AdminAddress } from "../http/ListenAddress.ts"
import { defaultMaxConnections } from "../http/NodeListener.ts"

/** A value, or where to read it: `Config.Port("PORT").pipe(Config.withDefault(3002))`. */
export type Setting<A> = A | Config.Config<A>

/** Settings that are not given come from the environment. */
export interface ProcessSettings {
  /** Address to listen on (`HOST`). Default: 127.0.0.1. */
  readonly host?: Setting<string>
  /** Port to listen on (`PORT`). Default: 3000. */
  readonly port?: Setting<number>
  /** URL at which clients reach the process (`BASE_URL`). Default: `http://HOST:PORT`. */
  readonly baseUrl?: Setting<string>
  /** Most open connections (`MAX_CONNECTIONS`). Default: 10,000. */
  readonly maxConnections?: Setting<number>
  /** Whether processes of the same user may listen on the port at once, on Linux (`REUSE_PORT`). Default: false. */
  readonly reusePort?: Setting<boolean>
  /** Port of the admin listener, which serves /metrics (`ADMIN_PORT`). Each process needs a port of its own. Default: none. */
  readonly adminPort?: Setting<number>
  /** Address of the admin listener (`ADMIN_HOST`). /metrics asks for no credential. Default: 127.0.0.1. */
  readonly adminHost?: Setting<string>
  /** The PostgreSQL to use (`DATABASE_URL`). Without it, the process runs an embedded one. */
  readonly databaseUrl?: Setting<Redacted.Redacted<string>>
  /** Data directory of the embedded PostgreSQL (`DATA_DIR`). Default: `.data`. */
  readonly dataDir?: Setting<string>
}

const read = <A>(setting: Setting<A> | undefined, fallback: Config.Config<A>): Effect.Effect<A, Config.ConfigError> =>
  setting === undefined ? fallback : Config.isConfig(setting) ? setting : Effect.succeed(setting)

/** Text that is no number fails with the name of its variable and the rule; it is not repeated. */
const naming = <A>(number: Effect.Effect<A, Config.ConfigError>, name: string, rule: string) =>
  Effect.mapError(number, (error) =>
    error.cause._tag === "SchemaError"
      ? new InvalidSetting({ message: `${variableOf(error.cause.issue) ?? name} must be ${rule}` })
      : error)

const readNumber = (
  setting: Setting<number> | undefined,
  fallback: Config.Config<number>,
  name: string,
  rule: string
) => naming(read(setting, fallback), name, rule)

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The variable that is invalid, if the issue names one. */
const variableOf = (issue: SchemaIssue.Issue): string | null =>
  format(issue).issues[0]?.path?.map(String).join("_") || null

const portRule = "a port from 1 to 65535"
const connectionsRule = "a number of connections, at least 1"

const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65_535

/** The address of the admin listener. Null: there is none. */
const readAdmin = Effect.fnUntraced(function*({ adminHost, adminPort }: ProcessSettings) {
  const host = yield* read(adminHost, Config.String("ADMIN_HOST").pipe(Config.withDefault("127.0.0.1")))
  const fallback = Config.option(Config.Port("ADMIN_PORT"))
  const given = adminPort === undefined ? fallback : Effect.asSome(read(adminPort, Config.Port("ADMIN_PORT")))
  const port = yield* naming(given, "ADMIN_PORT", portRule)
  if (Option.isNone(port)) return null
  if (!isPort(port.value)) return yield* new InvalidSetting({ message: `ADMIN_PORT must be ${portRule}` })
  return { host, port: port.value } satisfies AdminAddress
})

/** The settings of the server. Fails with one sentence on a port or a number of connections that is out of range. */
const readServer = Effect.fnUntraced(function*(given: ProcessSettings) {
  const host = yield* read(given.host, Config.String("HOST").pipe(Config.withDefault("127.0.0.1")))
  const port = yield* readNumber(given.port, Config.Port("PORT").pipe(Config.withDefault(3000)), "PORT", portRule)
  const maxConnections = yield* readNumber(
    given.maxConnections,
    Config.Int("MAX_CONNECTIONS").pipe(Config.withDefault(defaultMaxConnections)),
    "MAX_CONNECTIONS",
    connectionsRule
  )
  const reusePort = yield* naming(
    read(given.reusePort, Config.Boolean("REUSE_PORT").pipe(Config.withDefault(false))),
    "REUSE_PORT",
    "true or false"
  )
  const baseUrl = yield* read(given.baseUrl, Config.String("BASE_URL").pipe(Config.withDefault(addressOf(host, port))))
  // Not 0: clients must know the URL before the process listens.
  if (!isPort(port)) return yield* new InvalidSetting({ message: `PORT must be ${portRule}` })
  if (!Number.isInteger(maxConnections) || maxConnections < 1) {
    return yield* new InvalidSetting({ message: `MAX_CONNECTIONS must be ${connectionsRule}` })
  }
  return { host, port, maxConnections, reusePort, baseUrl: normalizeBaseUrl(baseUrl) }
})

/** Reads all settings that the process needs. `admin`: it has an admin listener. */
export const readSettings = Effect.fnUntraced(function*(
  given: ProcessSettings,
  { admin: hasAdmin, serves }: { readonly admin?: unknown; readonly serves?: string }
) {
  const server = serves === "nothing" ? null : yield* readServer(given)
  const databaseUrl = given.databaseUrl === undefined
    ? yield* Config.option(Config.Redacted("DATABASE_URL"))
    : Option.some(yield* read(given.databaseUrl, Config.Redacted("DATABASE_URL")))
  const dataDir = yield* read(given.dataDir, Config.String("DATA_DIR").pipe(Config.withDefault(".data")))
  const admin = yield* readAdmin(given)
  if (admin !== null && hasAdmin === undefined) {
    return yield* new InvalidSetting({
      message: "ADMIN_PORT needs the option admin of GatewayApp: AdminListener.layer()"
    })
  }
  if (admin !== null && admin.port === server?.port) {
    return yield* new InvalidSetting({
      message: "ADMIN_PORT must not be PORT: the admin listener takes a port of its own"
    })
  }
  return { server, admin, databaseUrl, dataDir }
})
