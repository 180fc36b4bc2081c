/**
 * Flags that several commands share, and the environment variables behind them.
 */
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { isGrantLifetime } from "../domain/Grant.ts"

/** Where the database is: `DATABASE_URL`, else an embedded PostgreSQL in `DATA_DIR`. */
export const database = {
  databaseUrl: Flag.Redacted("database-url").pipe(
    Flag.withDescription("PostgreSQL to use, as postgres://… (DATABASE_URL); without it, an embedded one is run"),
    Flag.withFallbackConfig(Config.Redacted("DATABASE_URL")),
    Flag.optional
  ),
  dataDir: Flag.String("data-dir").pipe(
    Flag.withDescription("Directory of the embedded PostgreSQL (DATA_DIR)"),
    Flag.withFallbackConfig(Config.String("DATA_DIR")),
    Flag.withDefault(".data")
  )
}

const units = { s: "seconds", m: "minutes", h: "hours", d: "days" } as const

/** A span of time such as `90s`, `15m`, `1h` or `30d`. */
export const Lifetime = Schema.String.check(
  Schema.isPattern(/^[1-9][0-9]{0,8}[smhd]$/u, { expected: "a span of time such as 90s, 15m, 1h or 30d" })
).pipe(
  Schema.decodeTo(
    Schema.Duration,
    SchemaTransformation.transform({
      decode: (text) => {
        const unit = text.at(-1) as keyof typeof units
        return Duration.fromInputUnsafe(`${Number(text.slice(0, -1))} ${units[unit]}`)
      },
      encode: (span) => `${Duration.toSeconds(span)}s`
    })
  )
).check(
  Schema.makeFilter(isGrantLifetime, { expected: "a hundred years at most" })
)

/** JSON, given on the command line. */
export const jsonFlag = (name: string) => Flag.String(name).pipe(Flag.withSchema(Schema.fromJsonString(Schema.Json)))

/** An identifier, as the only argument of a command. */
export const id = <A>(schema: Schema.Codec<A, string>, description: string) =>
  Argument.String("id").pipe(Argument.withSchema(schema), Argument.withDescription(description))
