/**
 * What a gateway needs only on a PostgreSQL cluster with failovers. The core has four ports, and names no file of this room. `layer` fills
 * them: read it first. Everything that serves none of the ports stays outside, but the planned `Switchover`.
 *
 * | Port | Filled by |
 * |---|---|
 * | what a claim reports about the ledger's history: `services/queue/LedgerHistory` | `historyGuard` |
 * | before a batch is sent: `submission/attempts/ClaimRecorder` | `witness/WitnessedClaims`, with `WITNESS` |
 * | after a statement ran: `node/postgres/driver/DriverClient`, `SessionResults` | `confirmed/confirmedConnection`, with `DATABASE_SYNCHRONOUS` |
 * | which server may read: `node/postgres/ReadServers` | `standbys/Standbys`, with `DATABASE_READ_URL` |
 */
import type { ConfigError } from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { InvalidSetting } from "../domain/InvalidSetting.ts"
import { Database } from "../node/postgres/Database.ts"
import { ReadServers, SessionResults } from "../node/postgres/driver/DriverClient.ts"
import { LedgerHistory } from "../services/queue/LedgerHistory.ts"
import { ClaimRecorders } from "../submission/attempts/ClaimRecorder.ts"
import { type ClusterSettings, readClusterSettings } from "./ClusterSettings.ts"
import { confirmedResults } from "./confirmed/confirmedConnection.ts"
import { makeHistoryGuard } from "./historyGuard.ts"
import { readServersOn } from "./standbys/Standbys.ts"
import { claimRecorderOf } from "./witness/WitnessSetting.ts"

/** Fills the ports by settings that the program gives. The witness compares its own cluster with that of the `Database`. */
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
export const layer: Layer.Layer<never, InvalidSetting | ConfigError, Database> = Layer.unwrap(
  Effect.map(Effect.flatMap(Database, readClusterSettings), layerOf)
)
