/** Samples the ledger during the run, without the proxies. */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { type OperationState, operationStates } from "../../../src/domain/Operation.ts"

/** The ledger at one instant of the database's clock, in milliseconds since 1970. */
export interface Sample {
  readonly at: number
  readonly counts: Readonly<Record<OperationState, number>>
  /** When the oldest `submitting` operation was claimed; null if there is none. */
  readonly submittingSince: number | null
}

interface Row {
  readonly at: Date
  readonly state: OperationState
  readonly count: number
  readonly since: Date
}

const take = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // The start time of the statement: on a busy machine the statement may end much later.
  const rows = yield* sql<Row>`
    SELECT statement_timestamp() AS at, state, count(*)::int AS count, min(updated_at) AS since
    FROM operations GROUP BY state`
  const of = (state: OperationState) => rows.find((row) => row.state === state)
  const [first] = rows
  return first === undefined ? null : {
    at: first.at.getTime(),
    counts: Object.fromEntries(operationStates.map((state) => [state, of(state)?.count ?? 0])) as Sample["counts"],
    submittingSince: of("submitting")?.since.getTime() ?? null
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
