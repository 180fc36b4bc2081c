/** The records of what operators and resource owners do: one row for each action, in the transaction of its change. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { OperationId } from "../../domain/Operation.ts"
import type { ActingOperator, OperatorAction, OperatorActionRecord } from "../../domain/operators/OperatorView.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"
import { openQuestion } from "./queueFragments.ts"

/** An action as it is recorded. */
interface Entry {
  readonly action: OperatorAction | "advance" | "hold_all" | "release_all" | "show_terms" | "approve" | "deny"
  readonly operation_id?: OperationId
  readonly operation_ids?: ReadonlyArray<string>
  readonly affected?: number
  readonly result: string
}

/** An operator, or a resource owner who decides about an approval. */
type Actor = Omit<ActingOperator, "via"> & { readonly via: OperatorActionRecord["via"] }

/** PostgreSQL stores no NUL. */
export const storable = (text: string) => text.toWellFormed().replaceAll("\0", "\uFFFD")

/** Makes the statement that records an action, and yields the id of the record. */
export const makeRecord =
  (sql: SqlClient.SqlClient) =>
  ({ name, reason, via }: Actor, { action, affected, operation_id, operation_ids, result }: Entry) =>
    Effect.map(
      orUnavailable(
        sql.unsafe<{ readonly id: string }>(recordStatement, [
          storable(name),
          via,
          action,
          operation_id ?? null,
          operation_ids ?? null,
          affected ?? null,
          reason === null || reason === "" ? null : storable(reason),
          result.slice(0, 1024)
        ])
      ),
      ([row]) => row!.id
    )

/** `id` and `at` have defaults, which no role may replace. */
const recordStatement = `
  INSERT INTO operator_actions (operator, via, action, operation_id, operation_ids, affected, reason, result, question)
  VALUES ($1, $2, $3, $4, $5::uuid[], $6, $7, $8,
    CASE WHEN $3 = 'end_review' THEN (SELECT ${openQuestion} FROM operations o WHERE o.id = $4::uuid) END)
  RETURNING id`

/**
 * Runs a change and its record in one transaction. A refusal is recorded after the rollback, and a caller that leaves then cannot prevent
 * that. Of a change whose outcome is unknown there is no record.
 */
export const withRecord = <A, E extends Error, R>(
  sql: SqlClient.SqlClient,
  change: Effect.Effect<A, E | StoreUnavailable, R>,
  record: (result: string) => Effect.Effect<unknown, StoreUnavailable>,
  resultOf: (done: A) => string = () => "done"
): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.tapError(
      restore(orUnavailable(sql.withTransaction(Effect.tap(change, (done) => record(resultOf(done)))))),
      (error) => error instanceof StoreUnavailable ? Effect.void : record(error.message)
    )
  )
