/**
 * What a gateway needs only on a PostgreSQL cluster with failovers. The room `cluster`: the core has four ports, and names no file of
 * it. Read this file first: `layer` fills them. All that serves none of the ports stays outside, but the planned `Switchover`.
 *
 * | Port | Filled by |
 * |---|---|
 * | what a claim reports about the ledger's history: `services/queue/LedgerHistory` | `historyGuard` |
 * | before a batch is sent: `submission/attempts/ClaimRecorder` | `witness/WitnessedClaims`, with `WITNESS` |
 * | after a statement ran: `node/postgres/driver/DriverClient`, `SessionResults` | `confirmReplication`, with `DATABASE_SYNCHRONOUS` |
 * | which server may read: `node/postgres/driver/DriverClient`, `ReadServers` | `standbys/StandbyReads`, with `DATABASE_READ_URL` |
 */
import type { PgPoolConfig } from "@effect/sql-pg/PgClient"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { InvalidSetting } from "../domain/InvalidSetting.ts"
import { Database } from "../node/postgres/Database.ts"
import { readDatabaseUrl } from "../node/postgres/driver/databaseUrl.ts"
import { ReadServers, SessionResults } from "../node/postgres/driver/DriverClient.ts"
import { LedgerHistory } from "../services/queue/LedgerHistory.ts"
import { ClaimRecorders } from "../submission/attempts/ClaimRecorder.ts"
import { confirmedResults } from "./confirmReplication.ts"
import { makeHistoryGuard } from "./historyGuard.ts"
import { readServersOn } from "./standbys/StandbyReads.ts"
import { claimRecorderOf } from "./witness/WitnessSetting.ts"

/** The settings of a PostgreSQL cluster: confirmed statements, standbys that serve reads, and the witness. */
interface ClusterSettings {
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
 * Reads `DATABASE_SYNCHRONOUS`, `DATABASE_READ_URL` and `WITNESS`. Fails with one sentence if they do not fit the database or each other. Only workers read the URL of the witness,
 * because all other commands work without it.
 *
 * @internal
 */
export const readClusterSettings = Effect.fnUntraced(function*({ isEmbedded }: { readonly isEmbedded: boolean }) {
  const mustReplicate = yield* readMustReplicate
  if (isEmbedded && mustReplicate) {
    return yield* new InvalidSetting({ message: "DATABASE_SYNCHRONOUS is required without DATABASE_URL: set both" })
  }
  const standbys = yield* readStandbys(isEmbedded, mustReplicate)
  return { mustReplicate, standbys, witness: yield* readUrl("WITNESS") } satisfies ClusterSettings
})

/** Fills the ports by settings that the program gives. The witness compares its own cluster with that of the `Database`. @internal */
export const layerOf = ({ mustReplicate, standbys, witness }: ClusterSettings): Layer.Layer<never, never, Database> =>
  Layer.effectContext(Effect.map(Database, (database) =>
    Context.make(LedgerHistory, makeHistoryGuard).pipe(
      mustReplicate ? Context.add(SessionResults, confirmedResults) : (ports) => ports,
      standbys === null ? (ports) => ports : Context.add(ReadServers, readServersOn(standbys)),
      witness === null ? (ports) => ports : Context.add(ClaimRecorders, claimRecorderOf(witness, database))
    )))

/**
 * Fills the ports by the settings of the environment: `DATABASE_SYNCHRONOUS`, `DATABASE_READ_URL` and `WITNESS`. Without any of them, workers
 * still notice a ledger that went back.
 */
export const layer: Layer.Layer<never, InvalidSetting | Config.ConfigError, Database> = Layer.unwrap(
  Effect.map(Effect.flatMap(Database, readClusterSettings), layerOf)
)
