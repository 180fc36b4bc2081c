/**
 * Two different people approve: the page of your application calls `approve` for the person of its session. The first approval is a row of
 * your own, and the second one is the decision in the ledger.
 *
 * The ledger takes one decision, so your application holds this rule. Your session decides who may act for the resource owner. An operator
 * can still decide alone.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type Approval, Approvals } from "financial-agents-gateway/services/Approvals"

/** Creates the table of first approvals, in a database of your own. */
export const createTable = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`CREATE TABLE IF NOT EXISTS first_approvals (
    operation_id uuid NOT NULL,
    -- What the person saw: an approval of anything else does not count.
    request_digest text NOT NULL,
    person text NOT NULL,
    PRIMARY KEY (operation_id, request_digest)
  )`)

/** Approves for a person what the person saw. Null: it waits for another person. */
export const approve = Effect.fn(function*(person: string, { operation_id, request_digest, resource_owner }: Approval) {
  const sql = yield* SqlClient.SqlClient
  const approvals = yield* Approvals
  yield* sql`
    INSERT INTO first_approvals (operation_id, request_digest, person)
    VALUES (${operation_id}, ${request_digest}, ${person}) ON CONFLICT DO NOTHING`
  const [first] = yield* sql<{ readonly person: string }>`
    SELECT person FROM first_approvals WHERE operation_id = ${operation_id} AND request_digest = ${request_digest}`
  if (first === undefined || first.person === person) return null
  return yield* approvals.decide({
    operation_id,
    request_digest,
    decision: "approved",
    decider: { as: "owner", name: resource_owner },
    reason: `Approved by ${first.person} and ${person}`
  })
})
