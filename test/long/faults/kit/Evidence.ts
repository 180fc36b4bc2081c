/** The evidence of a run, for the judge: what the clients got, the ledger, the provider's record, and the wire. */
import { Duration, Effect, Schedule, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type OperationState, operationStates } from "../../../../src/domain/Operation.ts"
import type { Receipt } from "../../../../src/sandbox/Record.ts"
import type { Truth } from "../../../../src/sandbox/SubmissionEntries.ts"
import type { Acceptance } from "./Clients.ts"
import { policy } from "./Plan.ts"
import type { Outage } from "./Postgres.ts"

/** The ledger at one instant of the database's clock, in milliseconds since 1970. */
export interface Sample {
  readonly at: number
  readonly counts: Readonly<Record<OperationState, number>>
  /** When the oldest claim that has a holder was made or taken over; null if there is none. */
  readonly heldSince: number | null
}

/** A fault that was injected, and its time in milliseconds since 1970. */
export interface Injected {
  readonly at: number
  readonly name: string
}

/** An operation in the ledger at the end of the run. */
export interface FinalOperation {
  readonly id: string
  readonly key: string
  readonly provider: string
  readonly state: OperationState
  readonly revision: number
  readonly failure_code: string | null
  /** The provider's own. */
  readonly reference: string | null
  /** When the operation is due next. */
  readonly due_at: Date | null
  readonly grant_id: string
  readonly created_at: Date
  /** What it reserves of the limits of its grant. */
  readonly limit_amount: string | null
  readonly limit_currency: string | null
}

/** A row of the history. */
export interface Step {
  readonly operation_id: string
  readonly revision: number
  readonly from_state: OperationState | null
  readonly to_state: OperationState
  readonly at: Date
  readonly evidence: Schema.Json
}

export interface Evidence {
  /** The requested numbers of operations and faults. */
  readonly asked: { readonly operations: number; readonly faults: number }
  /** The answers that the clients got. */
  readonly acceptances: ReadonlyArray<Acceptance>
  /** The final operations in the ledger. */
  readonly operations: ReadonlyArray<FinalOperation>
  /** History rows by operation, oldest first. */
  readonly history: ReadonlyArray<Step>
  /** Operations whose claim a worker returned. They wait in `submitting` until another worker takes them over. */
  readonly returned: ReadonlySet<string>
  /** Operations of which a fence began. */
  readonly fenced: ReadonlySet<string>
  /** The provider's record. */
  readonly receipts: ReadonlyArray<Receipt>
  readonly truths: ReadonlyArray<Truth>
  /** How many requests the provider answered 429. They are not in its record. */
  readonly turnedAway: number
  /** How often each idempotency key was sent over the network. */
  readonly sent: ReadonlyMap<string, number>
  readonly injected: ReadonlyArray<Injected>
  readonly samples: ReadonlyArray<Sample>
  /** Periods in which no statement could succeed. */
  readonly outages: ReadonlyArray<Outage>
  /** Workers that ended without an order, and loops that died in workers that continued. */
  readonly deaths: ReadonlyArray<string>
  readonly workerStarts: number
}

/** Notes each operation whose claim is returned: the history has transitions only. */
export const noteReturns = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE returned_claims (operation_id uuid)`
  yield* sql`
    CREATE FUNCTION note_return() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO returned_claims VALUES (NEW.id); RETURN NULL; END $$`
  yield* sql`
    CREATE TRIGGER note_return AFTER UPDATE ON operations FOR EACH ROW
    WHEN (OLD.return_reason IS NULL AND NEW.return_reason IS NOT NULL) EXECUTE FUNCTION note_return()`
})

/** Reads the operations in these states. */
export const readOperations = Effect.fnUntraced(function*(states: ReadonlyArray<OperationState> = operationStates) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<FinalOperation>`
    SELECT id, idempotency_key AS key, provider, state, revision, failure_code, reference, due_at, grant_id,
      created_at, limit_amount::text AS limit_amount, limit_currency FROM operations
    WHERE ${sql.in("state", states)}`
})

/** Reads the operations and the history of the ledger, and which claims were returned. */
export const readLedger = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const operations = yield* readOperations()
  const history = yield* sql<Step>`
    SELECT operation_id, revision, from_state, to_state, at, evidence FROM operation_history
    ORDER BY operation_id, revision`
  const returned = yield* sql<{ readonly operation_id: string }>`SELECT operation_id FROM returned_claims`
  const fenced = yield* sql<{ readonly id: string }>`SELECT id FROM operations WHERE fence_started_at IS NOT NULL`
  return {
    operations,
    history,
    returned: new Set(returned.map(({ operation_id }) => operation_id)),
    fenced: new Set(fenced.map(({ id }) => id))
  }
})

interface Row {
  readonly at: Date
  readonly state: OperationState
  readonly count: number
  /** When the rescue of the oldest held claim of this state is due; null if there is none. */
  readonly rescue_at: Date | null
}

const sample = Effect.gen(function*() {
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

/** Adds a sample every quarter of a second, without the proxies, whenever the database answers. */
export const sampleInto = (samples: Array<Sample>) =>
  sample.pipe(
    Effect.timeout("1 second"),
    Effect.tap((found) => Effect.sync(() => void (found !== null && samples.push(found)))),
    // The database is down, also for the workers.
    Effect.ignore,
    Effect.repeat(Schedule.spaced("250 millis"))
  )
