/**
 * Listing approvals that wait, and their owners, costs the rows that are listed, however many wait beside them. The tests count the rows in
 * PostgreSQL's execution plans.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { PendingApprovals } from "../../../src/domain/Approval.ts"
import { ResourceOwner } from "../../../src/domain/Grant.ts"
import { Approvals } from "../../../src/services/Approvals.ts"
import { fillQueue } from "../../fixtures/ledger/FilledQueue.ts"
import { PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { boundedScans, planModes, recorded } from "../../fixtures/postgres/Plans.ts"
import { once } from "../../fixtures/postgres/RawSql.ts"
import { Statements } from "../../fixtures/postgres/Statements.ts"

const limit = 20

layer(PostgresLedger, { excludeTestServices: true })("the cost of listing approvals", (it) => {
  /** 8,000 approvals of one owner, five of each of 800 others, and as many that are decided. */
  const filled = once(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { grant } = yield* issueAtNewProvider()
    yield* fillQueue(grant, { count: 24_000 })
    yield* sql.withTransaction(Effect.gen(function*() {
      yield* sql`ALTER TABLE approvals DISABLE TRIGGER USER`
      yield* sql`
        INSERT INTO approvals (operation_id, client_id, resource_owner, request_digest, state, created_at, expires_at, decided_at)
        SELECT id, client_id, CASE WHEN n <= 8000 THEN 'busy' ELSE 'owner-' || n % 800 END, sha256('x'),
          CASE WHEN n <= 12000 THEN 'pending' ELSE 'ended' END, at, at + interval '24 hours', CASE WHEN n > 12000 THEN at END
        FROM (SELECT o.id, o.client_id, row_number() OVER () AS n, now() - random() * interval '12 hours' FROM operations o)
          r (id, client_id, n, at)`
    }))
    yield* sql`VACUUM ANALYZE operations, approvals`.unprepared
    return true
  }))

  const of = (owner: string) => ({ resource_owner: ResourceOwner.make(owner), limit })
  /** The place in the middle of those of the owner. */
  const middle = (which: PendingApprovals) =>
    Approvals.use(({ pending }) => Effect.map(pending({ ...which, limit: 1000 }), (all) => all.at(all.length / 2)!))

  const questions = {
    "approvals of an owner with many": ["approvals_pending_of_owner", of("busy")],
    "approvals of an owner with few": ["approvals_pending_of_owner", of("owner-7")],
    "approvals of all": ["approvals_pending", { limit }]
  } as const

  for (const mode of planModes) {
    const bounded = Effect.fnUntraced(function*(index: string, name: string, ask: Effect.Effect<unknown, unknown>) {
      const statements = yield* Statements
      const before = statements.length
      yield* ask
      const [statement, ...others] = statements.slice(before)
      assert.isEmpty(others)
      yield* boundedScans(statement!, mode, { index, rows: limit, nodes: limit + 1 }, name)
    })

    for (const [name, [index, which]] of Object.entries(questions)) {
      it.effect(`is proportional to the rows found: ${name} (${mode})`, () =>
        Effect.gen(function*() {
          yield* filled
          const { pending } = yield* Approvals
          yield* bounded(index, name, pending(which))
          yield* bounded(index, `${name}, a later page`, pending({ ...which, after: yield* middle(which) }))
        }).pipe(Effect.provide(recorded(Approvals.layer))))
    }

    it.effect(`is proportional to the rows found: owners (${mode})`, () =>
      Effect.gen(function*() {
        yield* filled
        const { owners } = yield* Approvals
        yield* bounded("approvals_pending_of_owner", "owners", owners({ limit }))
        yield* bounded(
          "approvals_pending_of_owner",
          "owners, a later page",
          owners({ limit, after: ResourceOwner.make("busy") })
        )
      }).pipe(Effect.provide(recorded(Approvals.layer))))
  }
})
