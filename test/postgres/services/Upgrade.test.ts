import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { Provider } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { migrate, migrationsTable } from "../../../src/services/Migrations.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { pathTo, PostgresServices } from "../../fixtures/Ledger.ts"
import { claimIds, takeIds } from "../../fixtures/Queue.ts"
import { specifiedStates } from "../../fixtures/Specification.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/TestDatabase.ts"

/** Applies the first so many migrations, as an earlier version of the gateway did. */
const migrateTo = (count: number) =>
  Migrator.make({})({
    table: migrationsTable,
    loader: Effect.sync(() =>
      fs.readdirSync("migrations").toSorted().slice(0, count).map((name): Migrator.ResolvedMigration => {
        const [, id, title] = /^(\d+)_(.+)\.sql$/.exec(name)!
        const text = fs.readFileSync(`migrations/${name}`, "utf8")
        const apply = SqlClient.SqlClient.use((sql) =>
          sql.unsafe(`DO $migration$BEGIN EXECUTE $file$${text}$file$; END$migration$`).unprepared
        )
        return [Number(id), title!, Effect.succeed(apply)]
      })
    )
  })

const uuid = (n: number) => `019aa4f0-5c00-7b1e-8d2f-${String(n).padStart(12, "0")}`

/** An operation in each state, with its payload, all of them under review, as the schema of then allowed. */
const fill = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO clients (id) VALUES ('client')`
  yield* sql`INSERT INTO provider_connections (id, resource_owner, provider) VALUES (${uuid(100)}, 'owner', 'bank')`
  yield* sql`
    INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at)
    VALUES (${uuid(101)}, 'client', 'owner', 'subject', ${uuid(100)}, '{}', now() + interval '1 day')`
  for (const [n, state] of specifiedStates.entries()) {
    yield* sql`
      INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
        idempotency_key, request_digest, state, revision)
      VALUES (${uuid(n)}, 'client', 'owner', 'subject', ${uuid(101)}, ${uuid(100)}, 'payment', ${state},
        sha256('{"payload":{"amount":1},"type":"payment"}'), 'accepted', 1)`
    yield* sql`
      INSERT INTO operation_payloads (operation_id, client_id, payload)
      VALUES (${uuid(n)}, 'client', ${new TextEncoder().encode("{\"amount\":1}")})`
    yield* sql`UPDATE operations SET under_review = true WHERE id = ${uuid(n)}`
    for (const to of pathTo[state]) {
      const failure = to === "failed" ? "declined" : null
      yield* sql`
        UPDATE operations SET state = ${to}, revision = revision + 1, failure_code = ${failure},
          failure_message = ${failure}, evidence = '{"saw":1}'
        WHERE id = ${uuid(n)}`
    }
  }
})

const idOf = Object.fromEntries(specifiedStates.map((state, n) => [state, uuid(n) as OperationId]))
const settled = ["succeeded", "failed", "cancelled"]

const kept = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return {
    operations: yield* sql`
      SELECT id, state, revision, created_at, updated_at, completed_at, failure_code, request_digest FROM operations
      ORDER BY id`,
    history: yield* sql`SELECT * FROM operation_history ORDER BY operation_id, revision`
  }
})

const onOldDatabase = <A, E>(
  body: Effect.Effect<A, E, SqlClient.SqlClient | OperationLedger | SubmissionQueue | Layer.Success<typeof Platform>>
) =>
  Effect.scoped(Effect.flatMap(createDatabase({ empty: true }), (database) =>
    Effect.provide(
      Effect.andThen(Effect.andThen(migrateTo(2), fill), body),
      Layer.fresh(PostgresServices).pipe(Layer.provideMerge(layerFor(database)))
    ))).pipe(Effect.provide(Platform))

describe("A ledger that was filled before operations moved by themselves", () => {
  it.live("keeps its operations and their history, and gives every unsettled one a schedule", () =>
    onOldDatabase(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const before = yield* kept
      assert.deepStrictEqual(yield* migrate, ["0003_submission", "0004_authorization", "0005_accepted_scopes"])
      assert.deepStrictEqual(yield* kept, before)
      const rows = yield* sql`
        SELECT o.state, o.provider, o.due_at <= now() AS due, o.timeline = ledger_timeline() AS here, o.under_review,
          o.reads, o.reference, y.payload IS NOT NULL AS payload
        FROM operations o LEFT JOIN operation_payloads y ON y.operation_id = o.id ORDER BY o.id`
      assert.deepStrictEqual(
        rows,
        specifiedStates.map((state) => ({
          state,
          provider: "bank",
          due: settled.includes(state) ? null : true,
          here: true,
          under_review: !settled.includes(state),
          reads: 0,
          reference: null,
          payload: !settled.includes(state)
        }))
      )
    })))

  it.live("has them claimed, rescued and read like any other", () =>
    onOldDatabase(Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      yield* migrate
      const bank = Provider.make("bank")
      assert.deepStrictEqual(yield* queue.prepare, { moved: false })
      const [claim, ...others] = yield* queue.claim(bank, 10, {
        send_within: Duration.seconds(30),
        rescue_after: Duration.seconds(90),
        idle: Duration.seconds(1),
        review_after: Duration.hours(1)
      })
      assert.isEmpty(others)
      assert.strictEqual(claim!.operation.id, idOf["accepted"])
      assert.deepStrictEqual(yield* claim!.payload, { amount: 1 })
      assert.deepStrictEqual(yield* queue.rescue(10), [idOf["submitting"]!])
      const expected = [idOf["submitting"]!, idOf["submitted"]!, idOf["indeterminate"]!]
      assert.sameMembers([...yield* takeIds("takeReads", bank)], expected)
      assert.deepStrictEqual(yield* takeIds("takeHeld", bank), [])
      assert.deepStrictEqual(yield* claimIds(bank), [])
      for (const state of settled) assert.strictEqual((yield* ledger.show(idOf[state]!)).state, state)
    })))

  it.live("has every guard on afterwards, also for replication", () =>
    onOldDatabase(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* migrate
      const rows = yield* sql<{ readonly name: string; readonly enabled: string }>`
        SELECT tgname AS name, tgenabled::text AS enabled FROM pg_trigger
        WHERE NOT tgisinternal ORDER BY tgname`
      assert.isAtLeast(rows.length, 10)
      assert.deepStrictEqual(rows.filter(({ enabled }) => enabled !== "A"), [])
      assert.includeMembers(rows.map(({ name }) => name), [
        "operations_transition",
        "operation_payloads_guard",
        "operation_payloads_permanent"
      ])
    })))
})
