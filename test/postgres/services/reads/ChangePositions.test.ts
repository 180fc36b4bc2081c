/**
 * Each change of the public form gets the position of its transaction, and no other statement changes a position. The tests
 * run statements of another program on PostgreSQL, also in replication mode.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { attempt, fill, inModes, once, sevenOperations } from "../../../fixtures/postgres/RawSql.ts"

const position = "change_position = pg_current_xact_id()::text::bigint + (SELECT change_offset FROM ledger_home)"

/** A subquery sees the row as it was before the statement. */
const isAsBefore = `
  change_position IS NOT DISTINCT FROM (SELECT b.change_position FROM operations b WHERE b.id = operations.id)`

const insert = `
  INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
    idempotency_key, request_digest, state, revision, change_position)
  SELECT '019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f', client_id, resource_owner, subject, grant_id,
    provider_connection_id, type, 'a-new-key', request_digest, 'accepted', 1, 1
  FROM operations WHERE id = :accepted`

/** Statements that change the public form, also with a position of their own. */
const changes: Readonly<Record<string, string>> = {
  "an acceptance": insert,
  "a transition": "UPDATE operations SET state = 'submitting', revision = 2 WHERE id = :accepted",
  "a transition that gives a position":
    "UPDATE operations SET state = 'submitting', revision = 2, change_position = 1 WHERE id = :accepted",
  "a settlement": "UPDATE operations SET state = 'succeeded', revision = 4, change_position = 1 WHERE id = :submitted",
  "the begin of a review": "UPDATE operations SET under_review = true WHERE id = :accepted",
  "the begin of a review that gives a position":
    "UPDATE operations SET under_review = true, change_position = 9 WHERE id = :indeterminate"
}

/** Statements that change nothing of the public form. */
const others: Readonly<Record<string, string>> = {
  "a position alone": "UPDATE operations SET change_position = 1 WHERE id = :accepted",
  "a higher position": "UPDATE operations SET change_position = change_position + 1000 WHERE id = :submitting",
  "no position": "UPDATE operations SET change_position = NULL WHERE id = :submitted",
  "a review as before": "UPDATE operations SET under_review = false, change_position = 1 WHERE id = :accepted",
  "the columns of the workers":
    "UPDATE operations SET due_at = now(), waiting = true, reads = 1, reviewed_at = now() WHERE id = :accepted",
  "a hold": "UPDATE operations SET hold_placed = true WHERE id = :accepted"
}

layer(PostgresLedger, { excludeTestServices: true })("A change position", (it) => {
  const world = once(sevenOperations)
  const cases = [
    ...Object.entries(changes).map(([name, text]) => [name, text, true] as const),
    ...Object.entries(others).map(([name, text]) => [name, text, false] as const)
  ]
  for (const [name, text, isSet] of cases) {
    inModes(
      it,
      `${isSet ? "is that of the transaction of" : "is kept by a statement that sets"} ${name}`,
      (mode) =>
        Effect.gen(function*() {
          const result = `${position} AS is_own, ${isAsBefore} AS is_as_before`
          const rows = yield* attempt(mode, `${fill(text, yield* world)} RETURNING ${result}`)
          assert.deepStrictEqual(rows, [{ is_own: isSet, is_as_before: !isSet }])
        })
    )
  }

  inModes(it, "is set anew by the end of a review", (mode) =>
    Effect.gen(function*() {
      const { submitted } = yield* world
      yield* OperationLedger.use((ledger) => ledger.review(submitted, true))
      const end = `UPDATE operations SET under_review = false WHERE id = $1 RETURNING ${position} AS is_own`
      assert.deepStrictEqual(yield* attempt(mode, end, [submitted]), [{ is_own: true }])
    }))
})
