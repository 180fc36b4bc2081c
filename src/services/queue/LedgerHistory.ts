/** The history of the ledger: whether the operations of a claim may be sent, on a cluster whose failovers may lose claims. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { HeldAll } from "./Holds.ts"

/** Holds all accepted operations in one transaction with a condition. Null: the condition does not hold. */
export type HoldAllIf = (
  condition: Effect.Effect<boolean, SqlError>
) => Effect.Effect<HeldAll | null, StoreUnavailable>

/** What the claims of one process report about the history of the ledger. */
export interface HistoryReports {
  /** One more column of each row of a claim, with a comma before it. A claim returns at least one row. */
  readonly column: string
  /** Runs a claim. Fails if the column shows that its operations may not be sent. */
  readonly claimed: <Row>(
    claim: Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
  ) => Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
  /** Runs every second, beside the claims. */
  readonly watch: Effect.Effect<void, StoreUnavailable>
}

/** Makes the reports of a queue in PostgreSQL. Default: claims report nothing. */
export const LedgerHistory = Context.Reference<
  (holdAllIf: HoldAllIf) => Effect.Effect<HistoryReports, never, SqlClient.SqlClient>
>("financial-agents-gateway/services/queue/LedgerHistory", {
  defaultValue: () => () => Effect.succeed({ column: "", claimed: (claim) => claim, watch: Effect.void })
})
