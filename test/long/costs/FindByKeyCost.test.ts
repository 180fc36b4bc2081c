/**
 * A list by idempotency key reads one row from the index of the request binding, for an owner with any number of operations.
 * The test reads the plans of PostgreSQL for each state of its statistics.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { operationStates } from "../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { listStatement } from "../../../src/services/sql/reads/readStatements.ts"
import { fill, second } from "../../fixtures/ledger/FilledLedger.ts"
import { everything, issue, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { planModes, planOf, ReaderConnection } from "../../fixtures/postgres/Plans.ts"

/** Each owner of `fill` has used the keys `key-1`, `key-2` and so on. */
const key = IdempotencyKey.make("key-5")
const large = 5000
const owners = 40

const id = "ffffffff-ffff-7fff-bfff-ffffffffffff" as never

/** The key alone, and with each other filter: those that its operation matches, and those that it does not. */
const filters: Readonly<Record<string, Partial<OperationQuery>>> = {
  "the key alone": {},
  "a state that most have": { states: ["succeeded"] },
  "a state that few have": { states: ["failed"] },
  "all states": { states: [...operationStates] },
  "a type": { type: "payment" },
  "a type and a state": { type: "refund", states: ["succeeded"] },
  "created at any time": { created_after: second(0) },
  "created before most others": { created_before: second(20) },
  "a cursor": { after: { created_at: second(large), id } },
  "all filters": {
    states: ["succeeded", "failed"],
    type: "payment",
    created_after: second(0),
    created_before: second(20),
    after: { created_at: second(large), id }
  }
}

/** Asserts that each list by key reads only the index of the request binding, and of that a few pages. */
const assertPlans = Effect.fnUntraced(function*(grant: GrantIdentity, when: string, mostExpected = Infinity) {
  for (const mode of planModes) {
    for (const [name, filter] of Object.entries(filters)) {
      const label = `${when}, ${mode}, ${name}`
      const nodes = yield* planOf(listStatement(grant, { ...everything, ...filter, key }), mode)
      const [scan, ...others] = nodes.filter((node) => node["Relation Name"] === "operations")
      assert.isEmpty(others, label)
      assert.strictEqual(scan?.["Index Name"], "operations_idempotency_key_client_id_subject_key", label)
      assert.match(
        scan["Index Cond"]!,
        /idempotency_key, client_id, subject.*>=.*idempotency_key, client_id, subject.*<=/
      )
      // The levels of the index, and the page of the row.
      assert.isAtMost(scan["Shared Hit Blocks"] + scan["Shared Read Blocks"], 5, label)
      assert.notInclude(nodes.map((node) => node["Node Type"]), "Sort", label)
      // A generic plan that seems to read many rows is never kept: each call would be planned anew.
      assert.isAtMost(scan["Plan Rows"], mostExpected, label)
    }
  }
}, Effect.provide(ReaderConnection))

const analyze = SqlClient.SqlClient.use((sql) => sql`ANALYZE`)

layer(PostgresLedger, { excludeTestServices: true })("the cost of a list by key", (it) => {
  it.effect("is that of the index of the request binding, with any statistics of the table", () =>
    Effect.gen(function*() {
      yield* assertPlans((yield* issue()).identity, "an empty table")
      for (let owner = 0; owner < owners; owner++) yield* fill(100 + owner, 5)
      const { identity: small } = yield* fill(1, 5)
      yield* assertPlans(small, "small owners without statistics")
      yield* analyze
      yield* assertPlans(small, "small owners")
      const { identity } = yield* fill(2, large)
      yield* assertPlans(identity, "an owner that has grown since the statistics")
      yield* analyze
      yield* assertPlans(identity, "a large owner", owners + 2)
      yield* assertPlans((yield* issue()).identity, "an owner without operations beside a large one")
    }))
})
