/**
 * No caller dates a revocation, and no extreme value in one row delays other rows. The tests write such dates and
 * counts to PostgreSQL in both replication modes.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Grants } from "../../../../src/services/Grants.ts"
import {
  isRevoked,
  later,
  newExternalId,
  newRegistration,
  register,
  revocations
} from "../../../fixtures/ledger/ExternalGrants.ts"
import { issue, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  failOver,
  issueAtNewProvider,
  queued,
  readTerms,
  takeIds
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt, inModes } from "../../../fixtures/postgres/RawSql.ts"

const dates = ["infinity", "3000-01-01T00:00:00Z", "-infinity", "1970-01-01T00:00:00Z"]

layer(PostgresLedger, { excludeTestServices: true })("a revocation", (it) => {
  const now = "BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp()"
  const datedOf = (client_id: string) =>
    `SELECT revoked_at ${now} AS dated FROM grant_revocations WHERE client_id = '${client_id}'`

  inModes(
    it,
    "is dated by the database, not by its statement, and so is the registration by an event",
    (mode) =>
      Effect.gen(function*() {
        const { client_id } = newRegistration()
        const { grant_id } = yield* register(newRegistration({ learned_from: "token" }))
        const insert = "INSERT INTO grant_revocations (client_id, revoked_at) VALUES ($1, $2)"
        const update = (column: string) => `UPDATE grants SET ${column} = $2 WHERE id = $1`
        const dated = [
          [insert, client_id, datedOf(client_id)],
          ...["revoked_at", "registered_by_event_at"].map((column) =>
            [
              update(column),
              grant_id,
              `SELECT ${column} ${now} AS dated FROM grants WHERE id = '${grant_id}'`
            ] as const
          )
        ] as const
        for (const [statement, id, written] of dated) {
          for (const date of dates) {
            const rows = yield* attempt(mode, statement, [id, date], written)
            assert.deepStrictEqual(rows, [{ dated: true }], `${statement} ${date}`)
          }
        }
      })
  )

  inModes(it, "is renewed to the time of the database, and never to an earlier one", (mode) =>
    Effect.gen(function*() {
      const registration = newRegistration()
      yield* revocations["its client"](registration)
      const { client_id } = registration
      for (const date of dates) {
        const outcome = yield* attempt(
          mode,
          "UPDATE grant_revocations SET revoked_at = $2 WHERE client_id = $1",
          [client_id, date],
          datedOf(client_id)
        )
        assert.deepStrictEqual(outcome, /^(?:infinity|3000)/.test(date) ? [{ dated: true }] : "23001", date)
      }
    }))

  inModes(it, "keeps its time when it is renewed by a clock that was set back", (mode) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const registration = newRegistration()
      yield* revocations["its client"](registration)
      const { client_id } = registration
      yield* sql`ALTER TABLE grant_revocations DISABLE TRIGGER grant_revocations_guard`
      yield* sql`UPDATE grant_revocations SET revoked_at = '2100-01-01' WHERE client_id = ${client_id}`
      yield* sql`ALTER TABLE grant_revocations ENABLE ALWAYS TRIGGER grant_revocations_guard`
      const rows = yield* attempt(
        mode,
        "UPDATE grant_revocations SET revoked_at = '3000-01-01' WHERE client_id = $1",
        [client_id],
        `SELECT revoked_at = '2100-01-01' AS kept FROM grant_revocations WHERE client_id = '${client_id}'`
      )
      assert.deepStrictEqual(rows, [{ kept: true }])
    }))

  it.effect("with a forged far date revokes no grant that is made after it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const registration = newRegistration({ granted_at: later("1 minute") })
      yield* sql`INSERT INTO grant_revocations (client_id, revoked_at) VALUES (${registration.client_id}, '3000-01-01')`
      assert.isFalse(isRevoked(yield* register(registration)))
      yield* sql`
        UPDATE grant_revocations SET revoked_at = '3000-01-01' WHERE client_id = ${registration.client_id}`
      assert.isFalse(isRevoked(yield* register({ ...registration, grant: newExternalId() })))
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("a row with an extreme value", (it) => {
  const most = 2_147_483_647

  const count = (ids: ReadonlyArray<string>) =>
    SqlClient.SqlClient.use((sql) =>
      Effect.map(
        sql<
          { readonly reads: number }
        >`SELECT reads FROM operations WHERE id = ANY (${ids}::uuid[]) ORDER BY created_at`,
        (rows) => rows.map(({ reads }) => reads)
      )
    )

  const fill = (id: string, reads: number) =>
    SqlClient.SqlClient.use((sql) => sql`UPDATE operations SET reads = ${reads} WHERE id = ${id}`)

  it.effect("of status reads fails no batch of reads, and keeps its value", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const sql = yield* SqlClient.SqlClient
      const issued = yield* issueAtNewProvider()
      const full = yield* queued(issued, "submitted")
      const other = yield* queued(issued, "indeterminate")
      const ids = [full.id, other.id]
      yield* fill(full.id, most)
      for (let times = 1; times <= 2; times++) {
        yield* sql`UPDATE operations SET due_at = now() WHERE id = ANY (${ids}::uuid[])`
        const reads = yield* queue.takeReads(issued.grant.provider, 10, readTerms)
        assert.sameDeepMembers(reads.map(({ operation, reads }) => [operation.id, reads]), [
          [full.id, most],
          [other.id, times]
        ])
        assert.deepStrictEqual(yield* count(ids), [most, times])
      }
      // Also when no read is taken.
      yield* Grants.use((grants) => grants.setProviderConnected(issued.grant.provider_connection_id, false))
      yield* sql`UPDATE operations SET due_at = now() WHERE id = ANY (${ids}::uuid[])`
      assert.deepStrictEqual(yield* takeIds("takeReads", issued.grant.provider), [])
      assert.deepStrictEqual(yield* count(ids), [most, 2])
    }))

  it.effect("of status reads fails no batch of held operations, and keeps its value", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      const ids = yield* acceptSeveral(issued.identity, 3)
      yield* failOver
      yield* fill(ids[1]!, most)
      assert.sameMembers([...yield* takeIds("takeHeld", issued.grant.provider)], [...ids])
      assert.deepStrictEqual(yield* count(ids), [1, most, 1])
    }))

  inModes(it, "that processes cannot read is refused", (mode) =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "accepted")
      const { grant_id } = yield* register(newRegistration())
      yield* issue()
      const statements = [
        `UPDATE operations SET reads = -1 WHERE id = '${id}'`,
        `UPDATE operations SET send_before = 'infinity' WHERE id = '${id}'`,
        `UPDATE operations SET due_at = 'infinity' WHERE id = '${id}'`,
        ...["infinity", "-infinity", "10000-01-01T00:00:00Z"].map((date) =>
          `UPDATE grants SET expires_at = '${date}' WHERE id = '${grant_id}'`
        )
      ]
      for (const statement of statements) assert.strictEqual(yield* attempt(mode, statement), "23514", statement)
    }))
})
