/**
 * The operations of the waiting benchmark, and the changes that are made to them.
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { withProgress } from "../../src/cli/ProgressBar.ts"
import { Grants } from "../../src/services/Grants.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { grantFor } from "../shared/database.ts"

export interface Waiter {
  readonly token: string
  readonly id: string
}

const clients = 20

/** One operation for each waiter, of twenty clients. */
export const setScene = Effect.fnUntraced(function*(count: number) {
  const sql = yield* SqlClient.SqlClient
  const grants = yield* Grants
  yield* migrate
  const waiters: Array<Waiter> = []
  yield* withProgress({ label: "Seeding", unit: "clients", total: clients }, (progress) =>
    Effect.gen(function*() {
      for (let client = 0; client < clients; client++) {
        const request = { ...grantFor(`owner-${client}`), client_id: `agent-${client}` } as ReturnType<typeof grantFor>
        const { access_token, grant } = yield* grants.issue(request)
        const rows = yield* sql<{ readonly id: string }>`
      INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
        idempotency_key, request_digest, state, revision)
      SELECT uuidv7(), ${grant.client_id}, ${grant.resource_owner}, ${grant.subject}, ${grant.grant_id}::uuid,
        ${grant.provider_connection_id}::uuid, 'payment', 'key-' || n, sha256('x'), 'accepted', 1
      FROM generate_series(1, ${Math.ceil(count / clients)}::int) n
      RETURNING id`
        waiters.push(...rows.map(({ id }) => ({ id, token: Redacted.value(access_token) })))
        progress.advance()
      }
    }))
  return waiters.slice(0, count)
})

const nextState: Readonly<Record<string, string>> = {
  accepted: "submitting",
  submitting: "submitted",
  submitted: "indeterminate",
  indeterminate: "submitted"
}

/** The changes that were committed: by operation and entity tag, in nanoseconds of the monotonic clock of the machine. */
export type Commits = Map<string, bigint>

/** Makes the function that moves an operation to another state, and notes when the commit was acknowledged. */
export const makeMove = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const known = new Map<string, { readonly state: string; readonly revision: number }>()
  return (id: string, commits: Commits) =>
    Effect.gen(function*() {
      const { revision, state } = known.get(id) ?? { revision: 1, state: "accepted" }
      const moved = { revision: revision + 1, state: nextState[state]! }
      known.set(id, moved)
      yield* sql`
        UPDATE operations SET state = ${moved.state}, revision = ${moved.revision}, due_at = NULL,
          evidence = '{"saw": "a status read"}' WHERE id = ${id}`
      commits.set(`${id} "1-${moved.revision}"`, process.hrtime.bigint())
    })
})
