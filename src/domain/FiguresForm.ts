/**
 * The figures of the ledger in JSON, as the console and `status` show them.
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { ProviderName } from "./Grant.ts"
import { OperationState } from "./Operation.ts"
import { Timestamp } from "./Timestamp.ts"

/** A process with workers that reported nothing for longer has stopped, or cannot reach the database. */
export const workerSeenWithin = Duration.seconds(30)

const Count = Schema.Struct({ provider: ProviderName, count: Schema.Int })

const Circuit = Schema.Literals(["closed", "half_open", "open"])

/** The members of `LedgerFiguresNow`. */
export const Figures = Schema.Struct({
  at: Timestamp,
  operations: Schema.Array(Schema.Struct({ provider: ProviderName, state: OperationState, count: Schema.Int })),
  held: Schema.Array(Count),
  under_review: Schema.Array(Count),
  oldest: Schema.Array(Schema.Struct({ provider: ProviderName, condition: Schema.String, since: Timestamp })),
  due: Schema.Array(
    Schema.Struct({ provider: ProviderName, work: Schema.String, count: Schema.Int, since: Timestamp })
  ),
  workers: Schema.Array(Schema.Struct({
    process_id: Schema.String,
    worker_id: Schema.NullOr(Schema.String),
    version: Schema.String,
    started_at: Timestamp,
    seen_at: Timestamp,
    circuits: Schema.Record(Schema.String, Circuit),
    clock_skew_ms: Schema.NullOr(Schema.Finite)
  }))
})
