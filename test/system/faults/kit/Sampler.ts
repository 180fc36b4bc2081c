/** Samples the ledger during the run, without the proxies. */
import { Duration, Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { type OperationState, operationStates } from "../../../../src/domain/Operation.ts"
import { policy } from "./Plan.ts"

/** The ledger at one instant of the database's clock, in milliseconds since 1970. */
export interface Sample {
  readonly at: number
  readonly counts: Readonly<Record<OperationState, number>>
  /** When the oldest claim that has a holder was made or taken over; null if there is none. */
  readonly heldSince: number | null
}

interface Row {
  readonly at: Date
  readonly state: OperationState
  readonly count: number
  /** When the rescue of the oldest held claim of this state is due; null if there is none. */
  readonly rescue_at: Date | null
}

const take = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // The start time of the statement: on a busy machine the statement may end much later.
  const rows = yield* sql<Row>`
    SELECT statement_timestamp() AS at, state, count(*)::int AS count,
      min(due_at) FILTER (WHERE return_reason IS NULL) AS rescue_at
    FROM operations GROUP BY state`
  const of = (state: OperationState) => rows.find((row) => row.state === state)
  const [first] = rows
  const rescueAt = of("submitting")?.rescue_at?.getTime()
  return first === undefined ? null : {
    at: first.at.getTime(),
    counts: Object.fromEntries(operationStates.map((state) => [state, of(state)?.count ?? 0])) as Sample["counts"],
    heldSince: rescueAt === undefined ? null : rescueAt - Duration.toMillis(policy.rescueAfter)
  } satisfies Sample
})

/** Adds a sample every quarter of a second, whenever the database answers. */
export const sampleInto = (samples: Array<Sample>) =>
  take.pipe(
    Effect.timeout("1 second"),
    Effect.tap((sample) => Effect.sync(() => void (sample !== null && samples.push(sample)))),
    // The database is down, also for the workers.
    Effect.ignore,
    Effect.repeat(Schedule.spaced("250 millis"))
  )
