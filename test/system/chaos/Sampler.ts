/**
 * Looks at the ledger while the run goes on, past the proxies.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { type OperationState, operationStates } from "../../../src/domain/Operation.ts"

/** The ledger at one moment, by the database's clock: milliseconds since 1970. */
export interface Sample {
  readonly at: number
  readonly counts: Readonly<Record<OperationState, number>>
  /** When the oldest operation that is `submitting` became so; null when there is none. */
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
  // The time of its beginning: whoever looks at all of them on a busy machine sees the end much later.
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
    // It is down: so it is for the workers.
    Effect.ignore,
    Effect.repeat(Schedule.spaced("250 millis"))
  )
