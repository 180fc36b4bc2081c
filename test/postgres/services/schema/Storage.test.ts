/**
 * PostgreSQL stores no token in plain text, dates every change itself and keeps reviews apart from states. The tests
 * read the tables.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import {
  accept,
  drive,
  everything,
  issue,
  nextMillisecond,
  operationIn,
  outcome,
  PostgresLedger
} from "../../../fixtures/ledger/Ledger.ts"

const sha256 = (text: string) => createHash("sha256").update(text, "utf8").digest()

layer(PostgresLedger, { excludeTestServices: true })("PostgreSQL", (it) => {
  it.effect("stores the SHA-256 of a token, and no table holds the token", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { access_token, grant, identity } = yield* issue()
      yield* accept(identity)
      const token = Redacted.value(access_token)
      const rows = yield* sql<{ readonly digest: Uint8Array }>`
        SELECT digest FROM access_tokens WHERE grant_id = ${grant.grant_id}`
      assert.deepStrictEqual(rows.map(({ digest }) => Buffer.from(digest)), [sha256(token)])

      const tables = yield* sql<{ readonly name: string }>`
        SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`
      assert.isAtLeast(tables.length, 8)
      // Bytes as text are hexadecimal: search for the token, its secret and the hexadecimal of both.
      const secret = token.slice(6, 49)
      const needles = [secret, Buffer.from(secret).toString("hex")]
      for (const { name } of tables) {
        const found = yield* sql.unsafe(
          `SELECT 1 FROM ${name} r WHERE strpos(r::text, $1) > 0 OR strpos(lower(r::text), $2) > 0`,
          needles
        )
        assert.isEmpty(found, name)
      }
      const digest = yield* sql`SELECT 1 FROM access_tokens r WHERE strpos(r::text, ${
        sha256(token).toString("hex")
      }) > 0`
      assert.lengthOf(digest, 1, "the search finds the digest, which is stored")
    }))

  it.effect("stores the canonical payload of a request apart from the columns for readers, and the digest that binds it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity, { payload: { b: [1.0, "€"], a: "\u0000" } })
      const canonical = `{"a":"\\u0000","b":[1,"€"]}`
      const [row] = yield* sql<{ readonly payload: Uint8Array; readonly digest: Uint8Array }>`
        SELECT payload, request_digest AS digest
        FROM operation_payloads JOIN operations ON id = operation_id WHERE id = ${operation.id}`
      assert.strictEqual(Buffer.from(row!.payload).toString("utf8"), canonical)
      assert.deepStrictEqual(Buffer.from(row!.digest), sha256(`{"payload":${canonical},"type":"payment"}`))
    }))

  it.effect("keeps an operation under review through transitions, until it is settled", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const operation = yield* operationIn(identity, "indeterminate")
      yield* sql`UPDATE operations SET under_review = true WHERE id = ${operation.id}`
      const submitted = yield* drive(operation, ["submitted"])
      assert.isTrue(submitted.under_review)
      assert.isFalse((yield* drive(submitted, ["succeeded"])).under_review)
    }))

  it.effect("dates each operation itself, not by the times that a statement gives", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      yield* nextMillisecond
      const [row] = yield* sql<{ readonly created: boolean; readonly updated: boolean }>`
        INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
          idempotency_key, request_digest, state, revision, created_at, updated_at)
        SELECT '019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f', client_id, resource_owner, subject, grant_id,
          provider_connection_id, type, 'another', request_digest, state, revision, 'epoch', 'infinity'
        FROM operations WHERE id = ${operation.id}
        RETURNING created_at > ${
        DateTime.toDateUtc(operation.created_at)
      } AS created, updated_at = created_at AS updated`
      assert.deepStrictEqual(row, { created: true, updated: true })
    }))

  it.effect("never sets an update time before the last one, also when the clock was set back", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      // The triggers prevent a future time, but a clock that was ahead at the acceptance can cause one.
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_transition`
        yield* sql`UPDATE operations SET updated_at = '2999-01-01Z' WHERE id = ${operation.id}`
        yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition`
      }))
      const moved = yield* ledger.transition(operation.id, 1, outcome("cancelled"), null)
      assert.strictEqual(DateTime.formatIso(moved.updated_at), "2999-01-01T00:00:00.000Z")
      assert.deepStrictEqual(moved.completed_at, moved.updated_at)
    }))

  it.effect("orders operations of one millisecond by their ids in a walk", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const ids = yield* Effect.all(
        Array.from({ length: 9 }, () => Effect.map(accept(identity), ({ operation }) => operation.id)),
        { concurrency: "unbounded" }
      )
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_transition`
        yield* sql`UPDATE operations SET created_at = '2026-01-01Z' WHERE client_id = ${identity.client_id}`
        yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition`
      }))
      const expected = ids.toSorted().toReversed()
      for (const filter of [{}, { states: ["accepted"] as const }, { type: "payment" }]) {
        const seen: Array<string> = []
        let after = everything.after
        do {
          const page = yield* store.list(identity, { ...everything, ...filter, page_size: 2, after })
          seen.push(...page.operations.map(({ id }) => id))
          after = page.next
        } while (after !== null)
        assert.deepStrictEqual(seen, expected)
      }
    }))
})
