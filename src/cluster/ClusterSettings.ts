/**
 * The settings of a PostgreSQL cluster: `DATABASE_SYNCHRONOUS`, `DATABASE_READ_URL` and `WITNESS`.
 */
import type { PgPoolConfig } from "@effect/sql-pg/PgClient"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { InvalidSetting } from "../domain/InvalidSetting.ts"
import { readDatabaseUrl } from "../node/postgres/driver/databaseUrl.ts"

/** The settings of a PostgreSQL cluster: confirmed statements, standbys that serve reads, and the witness. */
export interface ClusterSettings {
  /** Whether results count only once the synchronous standbys have them. */
  readonly mustReplicate: boolean
  /** How to connect to the standbys that serve reads, as the reader. Needs `mustReplicate`. Null: none does. */
  readonly standbys: PgPoolConfig | null
  /** The URL of the witness of the workers. Null: they have none. */
  readonly witness: Redacted.Redacted | null
}

/** A typing error must not switch it off. */
const readMustReplicate = Effect.gen(function*() {
  const text = (yield* Config.String("DATABASE_SYNCHRONOUS").pipe(Config.withDefault(""))).trim()
  if (["required", "off", ""].includes(text)) return text === "required"
  return yield* new InvalidSetting({ message: "DATABASE_SYNCHRONOUS must be required or off" })
})

const readUrl = (name: string) => Effect.map(Config.option(Config.Redacted(name)), Option.getOrNull)

const readStandbys = Effect.fnUntraced(function*(isEmbedded: boolean, mustReplicate: boolean) {
  const invalid = (message: string) => new InvalidSetting({ message: `DATABASE_READ_URL ${message}` })
  const url = yield* readUrl("DATABASE_READ_URL")
  if (url === null || Redacted.value(url).trim() === "") return null
  if (isEmbedded) return yield* invalid("is set without DATABASE_URL: set both")
  // Only confirmations prove that a standby has what it should.
  if (!mustReplicate) return yield* invalid("needs DATABASE_SYNCHRONOUS=required")
  return yield* Effect.try({
    try: () => {
      readDatabaseUrl(Redacted.value(url), "standby")
      return { url }
    },
    catch: (error) => invalid(`is invalid: ${error instanceof Error ? error.message : "it cannot be read"}`)
  })
})

/**
 * Reads the settings. Fails with one sentence if they do not fit the database or each other. Only workers read the URL of the witness,
 * because all other commands work without it.
 */
export const readClusterSettings = Effect.fnUntraced(function*({ isEmbedded }: { readonly isEmbedded: boolean }) {
  const mustReplicate = yield* readMustReplicate
  if (isEmbedded && mustReplicate) {
    return yield* new InvalidSetting({ message: "DATABASE_SYNCHRONOUS is required without DATABASE_URL: set both" })
  }
  const standbys = yield* readStandbys(isEmbedded, mustReplicate)
  return { mustReplicate, standbys, witness: yield* readUrl("WITNESS") } satisfies ClusterSettings
})
