/**
 * What a run leaves behind, for the judge.
 */
import { Effect, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationState } from "../../../src/domain/Operation.ts"
import type { Receipt } from "../../../src/sandbox/Record.ts"
import type { Truth } from "../../../src/sandbox/Submissions.ts"
import type { Acceptance } from "./Accepting.ts"
import type { Injected } from "./Injector.ts"
import type { Outage } from "./Postgres.ts"
import type { Sample } from "./Sampler.ts"

/** An operation as it stands in the ledger at the end. */
export interface FinalOperation {
  readonly id: string
  readonly key: string
  readonly provider: string
  readonly state: OperationState
  readonly revision: number
  readonly failure_code: string | null
  /** When somebody acts on it next. */
  readonly due_at: Date | null
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
  /** What was asked for. */
  readonly asked: { readonly operations: number; readonly faults: number }
  /** What the clients were told. */
  readonly acceptances: ReadonlyArray<Acceptance>
  /** What the ledger says. */
  readonly operations: ReadonlyArray<FinalOperation>
  /** By operation, oldest first. */
  readonly history: ReadonlyArray<Step>
  /** What the provider says. */
  readonly receipts: ReadonlyArray<Receipt>
  readonly truths: ReadonlyArray<Truth>
  /** What went over the wire, by idempotency key. */
  readonly sent: ReadonlyMap<string, number>
  readonly injected: ReadonlyArray<Injected>
  readonly samples: ReadonlyArray<Sample>
  /** Times at which no statement could succeed. */
  readonly outages: ReadonlyArray<Outage>
  /** Workers that ended although nobody told them to, and loops that died in those that went on. */
  readonly deaths: ReadonlyArray<string>
  readonly workerStarts: number
}

/** What the ledger says now. */
export const readLedger = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const operations = yield* sql<FinalOperation>`
    SELECT id, idempotency_key AS key, provider, state, revision, failure_code, due_at FROM operations`
  const history = yield* sql<Step>`
    SELECT operation_id, revision, from_state, to_state, at, evidence FROM operation_history
    ORDER BY operation_id, revision`
  return { operations, history }
})
