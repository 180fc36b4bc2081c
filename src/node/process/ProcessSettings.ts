/**
 * The settings of a gateway process: given by the program, or read from the environment under the names of the command
 * line.
 *
 * The room `node/process`: settings, logs and console of a process. Read this file first.
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

const format = SchemaIssue.makeFormatterStandardSchemaV1()

const variableOf = (issue: SchemaIssue.Issue): string | null =>
  format(issue).issues[0]?.path?.map(String).join("_") || null

/** What a value must be, in words and as a check of values that the program gives. */
interface Rule<A> {
  readonly text: string
  readonly holds?: (value: A) => boolean
}

const port: Rule<number> = {
  text: "a port from 1 to 65535",
  // Not 0: clients must know the URL before the process listens.
  holds: (port) => Number.isInteger(port) && port >= 1 && port <= 65_535
}
const connections: Rule<number> = {
  text: "a number of connections, at least 1",
  holds: (count) => Number.isInteger(count) && count >= 1
}

/**
 * Reads a setting: the given one, or that of the environment. What breaks its rule fails with the name of the variable and the rule; it
 * is not repeated.
 */
const read = Effect.fnUntraced(function*<A>(
  name: string,
  given: Setting<A> | undefined,
  variable: Config.Config<A>,
  rule: Rule<NonNullable<A>> | null = null
) {
  const setting = given === undefined ? variable : Config.isConfig(given) ? given : Effect.succeed(given)
  const value = yield* Effect.mapError(setting, (error) =>
    rule !== null && error.cause._tag === "SchemaError"
      ? new InvalidSetting({ message: `${variableOf(error.cause.issue) ?? name} must be ${rule.text}` })
      : error)
  if (value != null && rule?.holds?.(value) === false) {
    return yield* new InvalidSetting({ message: `${name} must be ${rule.text}` })
  }
  return value
})

const text = (name: string, fallback: string) => Config.String(name).pipe(Config.withDefault(fallback))

const readAdmin = Effect.fnUntraced(function*({ adminHost, adminPort }: ProcessSettings) {
  const host = yield* read("ADMIN_HOST", adminHost, text("ADMIN_HOST", "127.0.0.1"))
  const variable = Config.Port("ADMIN_PORT").pipe(Config.withDefault(null))
  const given = yield* read<number | null>("ADMIN_PORT", adminPort, variable, port)
  return given === null ? null : { host, port: given } satisfies AdminAddress
})

/** The settings of the server. Fails with one sentence on a port or a number of connections that is out of range. */
const readServer = Effect.fnUntraced(function*(given: ProcessSettings) {
  const host = yield* read("HOST", given.host, text("HOST", "127.0.0.1"))
  const served = yield* read("PORT", given.port, Config.Port("PORT").pipe(Config.withDefault(3000)), port)
  const maximum = Config.Int("MAX_CONNECTIONS").pipe(Config.withDefault(defaultMaxConnections))
  const maxConnections = yield* read("MAX_CONNECTIONS", given.maxConnections, maximum, connections)
  const shared = Config.Boolean("REUSE_PORT").pipe(Config.withDefault(false))
  const reusePort = yield* read("REUSE_PORT", given.reusePort, shared, { text: "true or false" })
  const baseUrl = yield* read("BASE_URL", given.baseUrl, text("BASE_URL", addressOf(host, served)))
  return { host, port: served, maxConnections, reusePort, baseUrl: normalizeBaseUrl(baseUrl) }
})

/** Reads all settings that the process needs. `admin`: it has an admin listener. */
export const readSettings = Effect.fnUntraced(function*(
  given: ProcessSettings,
  { admin: hasAdmin, serves }: { readonly admin?: unknown; readonly serves?: string }
) {
  const server = serves === "nothing" ? null : yield* readServer(given)
  const url = Config.Redacted("DATABASE_URL").pipe(Config.withDefault(null))
  const databaseUrl = yield* read<Redacted.Redacted<string> | null>("DATABASE_URL", given.databaseUrl, url)
  const dataDir = yield* read("DATA_DIR", given.dataDir, text("DATA_DIR", ".data"))
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
  return { server, admin, databaseUrl: Option.fromNullOr(databaseUrl), dataDir }
})
