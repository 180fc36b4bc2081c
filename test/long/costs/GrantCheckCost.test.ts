/** The check of the grants of waiting requests looks up each grant, and reads no others. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { operationsRead } from "../../../src/domain/Grant.ts"
import { refusedStatement } from "../../../src/services/sql/reads/readStatements.ts"
import { withoutReferences } from "../../fixtures/ledger/FilledLedger.ts"
import { issue, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { planModes, planOf, ReaderConnection } from "../../fixtures/postgres/Plans.ts"

/** As many as may wait. */
const asked = 4096

layer(PostgresLedger, { excludeTestServices: true })("the check of grants", (it) => {
  it.effect("looks up each grant by its id", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant } = yield* issue()
      yield* sql.withTransaction(Effect.andThen(
        withoutReferences,
        sql`
        INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at)
        SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, ${grant.client_id},
          ${grant.resource_owner}, ${grant.subject}, ${grant.provider_connection_id}::uuid, ARRAY[${operationsRead}],
          now() + interval '1 day'
        FROM generate_series(1, 20000) n`
      ))
      yield* sql`ANALYZE`
      const grants = yield* sql<{ readonly id: string; readonly client_id: string; readonly subject: string }>`
        SELECT id, client_id, subject FROM grants LIMIT ${asked}`
      const parameters = [
        grants.map(({ id }) => id),
        grants.map(({ client_id }) => client_id),
        grants.map(({ subject }) => subject),
        operationsRead
      ]
      for (const mode of planModes) {
        const plan = planOf({ text: refusedStatement, parameters }, mode)
        const scans = (yield* Effect.provide(plan, ReaderConnection)).filter((node) =>
          node["Relation Name"] === "grants"
        )
        assert.deepStrictEqual(scans.map((scan) => scan["Actual Loops"]), [asked], mode)
        // Both unique indexes begin with the id, and versions of PostgreSQL differ in their choice.
        const unique = ["grants_pkey", "grants_id_client_id_resource_owner_subject_provider_connect_key"]
        for (const scan of scans) assert.include(unique, scan["Index Name"], mode)
      }
    }))
})
