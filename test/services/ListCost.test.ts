import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { GrantIdentity } from "../../src/domain/Grant.ts"
import { type OperationQuery, OperationStore } from "../../src/services/OperationStore.ts"
import { everything, issue, PostgresLedger } from "../fixtures/Ledger.ts"
import { anotherPool } from "../fixtures/Pools.ts"

const small = 100
const large = 5000
const epoch = Date.UTC(2026, 0, 1)

/**
 * Fills a new owner's ledger with operations, one a second. Most succeeded, few are in another state or of another type,
 * and the oldest were updated last.
 */
const fill = Effect.fnUntraced(function*(prefix: number, count: number) {
  const sql = yield* SqlClient.SqlClient
  const { grant, identity } = yield* issue()
  yield* sql.withTransaction(Effect.gen(function*() {
    // The triggers would date every row with the present, and refuse all states but the first.
    yield* sql`ALTER TABLE operations DISABLE TRIGGER USER`
    yield* sql`
      INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_binding_id, type,
        idempotency_key, request_digest, state, revision, created_at, updated_at, completed_at, failure_code,
        failure_message, provider, due_at, timeline)
      SELECT (lpad(to_hex(${prefix}::int), 8, '0') || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        ${identity.client_id}, ${grant.resource_owner}, ${identity.subject}, ${identity.grant_id}::uuid,
        ${grant.provider_binding_id}::uuid, type, 'key-' || n,
        sha256('x'), state, 1, at, updated, CASE WHEN state IN ('succeeded', 'failed') THEN updated END,
        CASE WHEN state = 'failed' THEN 'x' END, CASE WHEN state = 'failed' THEN 'x' END,
        ${grant.provider}, CASE WHEN state = 'indeterminate' THEN updated END, 1
      FROM generate_series(1, ${count}::int) n,
        LATERAL (SELECT CASE WHEN n % 500 = 1 THEN 'transfer' WHEN n BETWEEN 10 AND 400 THEN 'refund' ELSE 'payment' END)
          k (type),
        LATERAL (SELECT CASE n % 100 WHEN 0 THEN 'failed' WHEN 1 THEN 'indeterminate' ELSE 'succeeded' END) s (state),
        LATERAL (SELECT to_timestamp(${epoch / 1000}::bigint + n)) t (at),
        LATERAL (SELECT CASE WHEN n <= 20 THEN at + interval '1 year' ELSE at END) u (updated)`
    yield* sql`ALTER TABLE operations ENABLE TRIGGER USER`
  }))
  return { identity, count }
})

type Filled = { readonly identity: GrantIdentity; readonly count: number }

const second = (n: number) => DateTime.makeUnsafe(epoch + n * 1000)

/** Queries of every kind, for an owner with `count` operations. */
const queries = (count: number): Readonly<Record<string, Partial<OperationQuery>>> => ({
  "the first page": {},
  "a page in the middle": {
    after: { created_at: second(count / 2), id: "ffffffff-ffff-7fff-bfff-ffffffffffff" as never }
  },
  "a state that most have": { states: ["succeeded"] },
  "a state that few have": { states: ["failed"] },
  "a state that none has": { states: ["cancelled"] },
  "several states": { states: ["failed", "indeterminate", "submitted"] },
  "a type that most have": { type: "payment" },
  "a type that few have": { type: "transfer" },
  "a type that was used long ago": { type: "refund" },
  "a state of a type that was used long ago": { type: "refund", states: ["succeeded"] },
  "a type that none has": { type: "unknown" },
  "a state of a type": { type: "transfer", states: ["failed"] },
  "what was created before most others": { created_before: second(20) },
  "what was created lately": { created_after: second(count - 20) },
  "what was created ever": { created_after: second(0) },
  "what was updated lately": { updated_after: second(count - 20) },
  "what was updated ever": { updated_after: second(0) },
  "what was updated last, though it is the oldest": { updated_after: second(count) },
  "what was updated after now": { updated_after: second(100_000_000) }
})

/** Rows of the table `operations` that were looked at, as PostgreSQL counts them, and full scans of it. */
const touched = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT pg_stat_force_next_flush()`
  const [row] = yield* sql<{ readonly rows: number; readonly scans: number }>`
    SELECT (seq_tup_read + idx_tup_fetch)::int AS rows, seq_scan::int AS scans
    FROM pg_stat_user_tables WHERE relname = 'operations'`
  return row!
})

layer(PostgresLedger, { excludeTestServices: true })("the cost of a list", (it) => {
  let owners: { readonly few: Filled; readonly many: Filled } | undefined
  const filled = Effect.gen(function*() {
    if (owners !== undefined) return owners
    const sql = yield* SqlClient.SqlClient
    owners = { few: yield* fill(1, small), many: yield* fill(2, large) }
    yield* sql`ANALYZE operations`
    return owners
  })

  /** One connection, so that what it counts is all there is to count. */
  const alone = Layer.fresh(OperationStore.layer).pipe(
    Layer.provideMerge(anotherPool({ maxConnections: 1 }))
  )

  for (const [name, filter] of Object.entries(queries(large))) {
    for (const page_size of [10, 100]) {
      it.effect(`does not depend on how many operations an owner has: ${name}, ${page_size} a page`, () =>
        Effect.gen(function*() {
          const { many } = yield* filled
          yield* Effect.gen(function*() {
            const store = yield* OperationStore
            const before = yield* touched
            // PostgreSQL plans a prepared statement anew five times, and may keep one plan for all values after that.
            const runs = 8
            for (let run = 0; run < runs; run++) {
              const page = yield* store.list(many.identity, { ...everything, ...filter, page_size })
              assert.isAtMost(page.operations.length, page_size)
            }
            const after = yield* touched
            // A type alone asks for each of seven states by name; one row more than the page tells of a next page.
            assert.isAtMost((after.rows - before.rows) / runs, 7 * (page_size + 1))
            assert.strictEqual(after.scans, before.scans, "full scans of the table")
          }).pipe(Effect.provide(alone))
        }))
    }
  }

  it.effect("of a plain list is that of the page alone, for few operations and for many", () =>
    Effect.gen(function*() {
      const { few, many } = yield* filled
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        for (const { identity } of [few, many]) {
          const before = yield* touched
          yield* store.list(identity, { ...everything, page_size: 50 })
          assert.strictEqual((yield* touched).rows - before.rows, 51)
        }
      }).pipe(Effect.provide(alone))
    }))

  it.effect("of finding one operation is one row", () =>
    Effect.gen(function*() {
      const { many } = yield* filled
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        const [operation] = (yield* store.list(many.identity, everything)).operations
        const before = yield* touched
        for (let run = 0; run < 8; run++) yield* store.find(many.identity, operation!.id)
        assert.strictEqual((yield* touched).rows - before.rows, 8)
      }).pipe(Effect.provide(alone))
    }))
})
