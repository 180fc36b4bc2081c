/**
 * The triggers permit exactly the transitions of the specification, and record each in the history. The tests try every
 * pair of states, also in replication mode.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type OperationState, operationStates, transitions } from "../../../../src/domain/Operation.ts"
import { PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { allows, attempt, modes, once, sevenOperations } from "../../../fixtures/postgres/RawSql.ts"

/** SQLSTATE restrict_violation, which the triggers raise. */
const refused = "23001"

const terminalStates: ReadonlyArray<OperationState> = ["succeeded", "failed", "cancelled"]

const move = `
  UPDATE operations SET state = $2, revision = revision + 1,
    failure_code = CASE WHEN $2 = 'failed' THEN 'declined' END,
    failure_message = CASE WHEN $2 = 'failed' THEN 'The bank declined.' END,
    evidence = '{"status":"read"}'
  WHERE id = $1
  RETURNING state, revision, completed_at = updated_at AS completed, updated_at >= created_at AS in_order`

layer(PostgresLedger, { excludeTestServices: true })("the triggers of PostgreSQL", (it) => {
  const world = once(sevenOperations)

  for (const mode of modes) {
    for (const from of operationStates) {
      for (const to of operationStates) {
        const permitted = transitions[from].includes(to)
        it.effect(`${permitted ? "permit" : "refuse"} ${from} -> ${to} (${mode})`, ({ skip }) =>
          Effect.gen(function*() {
            skip(!(yield* allows(mode)), "only a superuser may set session_replication_role")
            const { [from]: id } = yield* world
            const result = yield* attempt(mode, move, [id, to])
            if (!permitted) return assert.strictEqual(result, refused)
            assert.deepStrictEqual(result, [{
              state: to,
              revision: revisionOf[from] + 1,
              completed: terminalStates.includes(to) ? true : null,
              in_order: true
            }])
          }))
      }
    }

    it.effect(`record every transition with its evidence, by any role (${mode})`, ({ skip }) =>
      Effect.gen(function*() {
        skip(!(yield* allows(mode)), "only a superuser may set session_replication_role")
        const { submitted: id } = yield* world
        const history = `
          SELECT h.revision, from_state, to_state, h.at = o.updated_at AS now, h.evidence
          FROM operation_history h JOIN operations o ON o.id = h.operation_id
          WHERE operation_id = '${id}' ORDER BY h.revision`
        assert.deepStrictEqual(yield* attempt(mode, move, [id, "indeterminate"], history), [
          { revision: 1, from_state: null, to_state: "accepted", now: false, evidence: null },
          { revision: 2, from_state: "accepted", to_state: "submitting", now: false, evidence: { saw: "submitting" } },
          { revision: 3, from_state: "submitting", to_state: "submitted", now: false, evidence: { saw: "submitted" } },
          { revision: 4, from_state: "submitted", to_state: "indeterminate", now: true, evidence: { status: "read" } }
        ])
      }))

    it.effect(`erase the payload of an operation that any role settles, and no other (${mode})`, ({ skip }) =>
      Effect.gen(function*() {
        skip(!(yield* allows(mode)), "only a superuser may set session_replication_role")
        const { indeterminate, submitted: id } = yield* world
        const left = `
          SELECT operation_id FROM operation_payloads WHERE operation_id IN ('${id}', '${indeterminate}') ORDER BY 1`
        assert.deepStrictEqual(yield* attempt(mode, move, [id, "succeeded"], left), [{ operation_id: indeterminate }])
      }))
  }
})

const revisionOf: Readonly<Record<OperationState, number>> = {
  accepted: 1,
  submitting: 2,
  submitted: 3,
  indeterminate: 3,
  succeeded: 4,
  failed: 4,
  cancelled: 2
}
