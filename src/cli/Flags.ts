/** Flags that several commands share, and the environment variables behind them. */
import * as Argument from "effect/cli/Argument"
import * as CliError from "effect/cli/CliError"
import type * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as os from "node:os"
import { isGrantLifetime } from "../domain/Grant.ts"
import type { ActingOperator } from "../domain/operators/OperatorView.ts"

const described = (name: string, description: string, variable?: string, ending = "") => {
  const flag = Flag.String(name)
  return variable === undefined
    ? Flag.withDescription(flag, `${description}${ending}`)
    : flag.pipe(
      Flag.withDescription(`${description} (${variable})${ending}`),
      Flag.withFallbackConfig(Config.String(variable))
    )
}

/** A flag with a text that fits the schema. Without the flag, the value is that of the environment variable, if there is one. */
export const text = <A>(name: string, description: string, schema: Schema.Codec<A, string>, variable?: string) =>
  Flag.withSchema(described(name, description, variable), schema)

/** The same, which may be absent. */
export const optionalText = <A>(
  name: string,
  description: string,
  schema: Schema.Codec<A, string>,
  variable?: string
) => Flag.optional(text(name, description, schema, variable))

/** The same with a default, as a user would type it. */
export const textOr = <A>(
  name: string,
  description: string,
  fallback: string,
  schema: Schema.Codec<A, string>,
  variable?: string
) =>
  described(name, description, variable, ` (default: ${fallback})`).pipe(
    Flag.withDefault(fallback),
    Flag.withSchema(schema)
  )

/** A flag without a value, or an environment variable with true or false. It is off by default. */
export const toggle = (name: string, description: string, variable?: string) => {
  const flag = Flag.Boolean(name)
  const off = variable === undefined
    ? Flag.withDescription(flag, description)
    : flag.pipe(
      Flag.withDescription(`${description} (${variable})`),
      Flag.withFallbackConfig(Config.Boolean(variable))
    )
  return Flag.withDefault(off, false)
}

/** An identifier, as the only argument of a command. */
export const id = <A>(schema: Schema.Codec<A, string>, description: string) =>
  Argument.String("id").pipe(Argument.withSchema(schema), Argument.withDescription(description))

/** Warns of a secret in an argument: all users of the machine can read the arguments of a process. */
const warnOfProcessList = (flag: string, what: string, instead: string) =>
  Effect.logWarning(`--${flag} shows ${what} in the process list: ${instead}`)

/** Whether the text is a URL with a password, or may be one with a typing error. */
const mayHoldPassword = (text: string) => {
  if (!URL.canParse(text)) return true
  const url = new URL(text)
  return url.password !== "" || url.searchParams.has("password")
}

/** The database: `DATABASE_URL`, or an embedded PostgreSQL in `DATA_DIR`. */
export const database = {
  databaseUrl: Flag.Redacted("database-url").pipe(
    Flag.withDescription(
      "PostgreSQL to use, as postgres://… (DATABASE_URL); an embedded one by default. The process list shows flags: "
        + "set DATABASE_URL if the URL has a password"
    ),
    // Before the fallback, because the process list does not show the environment.
    Flag.mapEffect((url) =>
      Effect.as(
        mayHoldPassword(Redacted.value(url))
          ? warnOfProcessList("database-url", "a password", "set DATABASE_URL instead")
          : Effect.void,
        url
      )
    ),
    Flag.withFallbackConfig(Config.Redacted("DATABASE_URL")),
    Flag.optional
  ),
  dataDir: textOr("data-dir", "Directory of the embedded PostgreSQL", ".data", Schema.String, "DATA_DIR")
}

/**
 * A TCP port, from `from` to 65535. Port 0 lets the system choose a free port. Messages name the variable that may hold the
 * port, if there is one.
 */
export const Port = ({ from, variable }: { readonly from: 0 | 1; readonly variable?: string }) => {
  const expected = `a port from ${from} to 65535${variable === undefined ? "" : `, in the flag or in ${variable}`}`
  return Schema.String.check(Schema.isPattern(/^[0-9]{1,5}$/u, { expected })).pipe(
    Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum: from, maximum: 65_535 }, { expected })),
      SchemaTransformation.numberFromString
    )
  )
}

/** The port of a listener. Not 0: clients must know it before the process listens. */
export const listenerPort = (name: string, description: string, variable: string, fallback: string) =>
  textOr(name, description, fallback, Port({ from: 1, variable }), variable)

/** The admin listener of a command. */
export const adminFlags = {
  adminPort: optionalText(
    "admin-port",
    "Port of a listener for operators, with /metrics; none by default",
    Port({ from: 1, variable: "ADMIN_PORT" }),
    "ADMIN_PORT"
  ),
  adminHost: textOr(
    "admin-host",
    "Address of that listener. /metrics asks for no credential",
    "127.0.0.1",
    Schema.String,
    "ADMIN_HOST"
  )
}

export type AdminFlags = Command.Command.Config.Infer<typeof adminFlags>

/** The settings of the admin listener. Null: there is no admin listener. */
export const adminOf = ({ adminHost, adminPort }: AdminFlags) =>
  Option.isNone(adminPort) ? null : { adminHost, adminPort: adminPort.value }

const bounded = (longest: number) => Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longest))

/** The name of the operator who acts by a command, for the record of `OperatorActions`. */
export const operatorFlag = {
  operator: optionalText(
    "operator",
    "Name of the operator, for the record; by default the user of the operating system",
    bounded(255),
    "OPERATOR"
  )
}

export const actingFlags = { ...operatorFlag, reason: optionalText("reason", "Reason, for the record", bounded(1024)) }

/** The user of the process; its number if the system has no name for it, as in many containers. */
const systemUser = (): string => {
  try {
    return os.userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

/** The name of the operator, or of the user of the operating system. */
export const operatorName = ({ operator }: Command.Command.Config.Infer<typeof operatorFlag>): string =>
  Option.getOrElse(operator, systemUser)

/** The operator of a command. */
export const actingOperator = (acting: Command.Command.Config.Infer<typeof actingFlags>): ActingOperator => ({
  name: operatorName(acting),
  via: "command",
  reason: Option.getOrNull(acting.reason)
})

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** The span of time of a text such as `500ms`, `90s` or `m`, which is one minute. Null: the text is none. */
export const spanOf = (text: string): Duration.Duration | null => {
  const { count, unit } = /^(?<count>\d{0,9})(?<unit>ms|s|m|h|d)$/u.exec(text)?.groups ?? {}
  if (unit === undefined) return null
  return Duration.millis(Number(count === "" ? 1 : count) * units[unit as keyof typeof units])
}

/** A span of time such as `90s`, `15m`, `1h` or `30d`. */
export const Lifetime = Schema.String.check(
  Schema.isPattern(/^[1-9][0-9]{0,8}[smhd]$/u, { expected: "a span of time such as 90s, 15m, 1h or 30d" })
).pipe(
  Schema.decodeTo(
    Schema.Duration,
    SchemaTransformation.transform({
      decode: (text) => spanOf(text)!,
      encode: (span) => `${Duration.toSeconds(span)}s`
    })
  )
).check(
  Schema.makeFilter(isGrantLifetime, { expected: "a hundred years at most" })
)

/**
 * Decodes text, and fails on bytes that are not UTF-8. As U+FFFD they would make two payees one, under one key, and the provider would get
 * a name that its user never typed.
 */
export const decodeUtf8 = <E2>(failure: () => E2) => <E, R>(bytes: Stream.Stream<Uint8Array, E, R>) =>
  Stream.suspend(() => {
    const decoder = new TextDecoder("utf-8", { fatal: true })
    const decode = (part?: Uint8Array) =>
      Effect.try({ try: () => decoder.decode(part, { stream: part !== undefined }), catch: failure })
    // The last step fails on a character that the end cuts off.
    return Stream.concat(Stream.mapEffect(bytes, decode), Stream.fromEffect(Effect.suspend(() => decode())))
  })

const readStandardInput = Effect.flatMap(
  Effect.service(Stdio.Stdio),
  ({ stdin }) => stdin.pipe(decodeUtf8(() => "not UTF-8"), Stream.mkString)
)

/**
 * A flag for a value that may be private. `-` reads it from standard input; an argument with the value causes a warning. The error for
 * an invalid value does not repeat it.
 */
export const privateFlag = <A>(name: string, schema: Schema.Codec<A, string>, expected: string) => {
  const decode = Schema.decodeUnknownEffect(schema)
  const invalid = (value: string) => () => new CliError.InvalidValue({ kind: "flag", option: name, value, expected })
  return Flag.String(name).pipe(
    Flag.mapEffect((text) =>
      text === "-"
        ? readStandardInput.pipe(
          Effect.flatMap((input) => decode(input.trimEnd())),
          Effect.mapError(invalid("-"))
        )
        : warnOfProcessList(name, "its value", `use --${name} - and standard input instead`).pipe(
          Effect.andThen(decode(text)),
          Effect.mapError(invalid("(not shown)"))
        )
    )
  )
}

/** A `privateFlag` for JSON. */
export const jsonFlag = (name: string) => privateFlag(name, Schema.fromJsonString(Schema.Json), "one JSON document")
