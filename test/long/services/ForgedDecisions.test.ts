/**
 * Of 10,000 forged decisions none counts, neither by the service nor by statements of each role. The service records each with the reason of
 * its refusal.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import type { Decision } from "../../../src/domain/Approval.ts"
import { Approvals } from "../../../src/services/Approvals.ts"

import { Backstage } from "../../fixtures/ledger/Backstage.ts"
import { forgeDecisions, reasonOf } from "../../fixtures/ledger/ForgedDecisions.ts"
import { PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { sqlStateOf } from "../../fixtures/postgres/RawSql.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const count = 10_000

/** As another program writes a decision. */
const written = ({ decider, decision, operation_id, request_digest }: Decision) =>
  SqlClient.SqlClient.use((sql) =>
    sql`
    UPDATE approvals SET state = ${decision}, decided_digest = decode(${request_digest}, 'hex'), decided_as = ${decider.as},
      decider = ${decider.name.replaceAll("\0", "?")}
    WHERE operation_id = ${operation_id} RETURNING 1`
  )

const isRefused = (decision: Decision) =>
  Effect.map(
    Effect.result(written(decision)),
    (result) =>
      result._tag === "Failure" ? /^(23...|42501)$/.test(sqlStateOf(result.failure)) : result.success.length === 0
  )

describe("A forged decision", () => {
  it.live(`is refused by the service and by the database, ${count} times`, () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const owner = yield* Layer.build(
        Layer.merge(PostgresServices, Backstage.layerPostgres).pipe(Layer.provideMerge(as("owner")))
      )
      const { forged, stay } = yield* Effect.provideContext(forgeDecisions, owner)
      const decisions = fc.sample(forged, count)
      const asWriter = yield* Layer.build(Approvals.layer.pipe(Layer.provideMerge(as("writer"))))
      const reasons = yield* Effect.forEach(
        decisions,
        (decision) => Effect.map(Effect.exit(Approvals.use((approvals) => approvals.decide(decision))), reasonOf),
        { concurrency: 8 }
      ).pipe(Effect.provideContext(asWriter))
      assert.deepStrictEqual(reasons.filter((reason) => !String(reason).startsWith("DecisionRefused ")), [])
      assert.sameMembers(
        [...new Set(reasons)],
        ["not_asked", "other_request", "decided", "late", "requesting_client", "other_owner"].map((reason) =>
          `DecisionRefused ${reason}`
        )
      )
      const [recorded] = yield* Effect.provideContext(
        SqlClient.SqlClient.use((sql) =>
          sql<{ readonly count: number }>`
            SELECT count(*)::int AS count FROM operator_actions WHERE action IN ('approve', 'deny') AND result <> 'done'`
        ),
        asWriter
      )
      assert.strictEqual(recorded!.count, count)
      // The reader has no privilege to decide.
      for (const [role, most] of [["writer", count], ["owner", count], ["reader", 100]] as const) {
        const tried = decisions.slice(0, most)
        const refused = yield* Effect.forEach(tried, isRefused, { concurrency: 8 }).pipe(Effect.provide(as(role)))
        assert.deepStrictEqual(tried.filter((_, n) => !refused[n]), [], role)
      }
      yield* Effect.provideContext(stay, owner)
    }).pipe(Effect.scoped, Effect.provide(Platform)), 600_000)
})
