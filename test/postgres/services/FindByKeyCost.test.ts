/**
 * A list by idempotency key reads one row from the index of the request binding, for an owner with any number of operations.
 * The tests count rows and pages of PostgreSQL, and read its plans for each state of its statistics.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { operationStates } from "../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { readerParameters } from "../../../src/node/postgres/Pools.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { listStatement } from "../../../src/services/sql/readStatements.ts"
import { fill, second, touched } from "../../fixtures/FilledLedger.ts"
import { everything, issue, PostgresLedger } from "../../fixtures/Ledger.ts"
import { anotherPool } from "../../fixtures/Pools.ts"

/** Each owner of `fill` has used the keys `key-1`, `key-2` and so on. */
const key = IdempotencyKey.make("key-5")
const large = 5000

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

/** One connection with the gateway's settings. Its counters include every statement of the test. */
const Reader = Layer.fresh(OperationStore.layer).pipe(
  Layer.provideMerge(anotherPool({
    maxConnections: 1,
    startupParameters: { ...readerParameters, statement_timeout: "0" }
  }))
)

interface Plan {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Name"?: string
  readonly "Index Cond"?: string
  readonly "Plan Rows": number
  readonly "Shared Hit Blocks": number
  readonly "Shared Read Blocks": number
  readonly Plans?: ReadonlyArray<Plan>
}

const nodesOf = (plan: Plan): ReadonlyArray<Plan> => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

const literal = (value: unknown): string => {
  if (Array.isArray(value)) return `'{${value.join(",")}}'`
  return `'${value instanceof Date ? DateTime.formatIso(DateTime.fromDateUnsafe(value)) : String(value)}'`
}

/** The plan of a prepared list, as PostgreSQL executes it. */
const planOf = Effect.fnUntraced(function*(grant: GrantIdentity, query: OperationQuery) {
  const sql = yield* SqlClient.SqlClient
  const run = (text: string) => sql.unsafe<{ readonly "QUERY PLAN": ReadonlyArray<{ Plan: Plan }> }>(text).unprepared
  const { parameters, text } = listStatement(grant, query)
  yield* run(`PREPARE list AS ${text}`)
  const [row] = yield* run(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE list (${parameters.map(literal).join(", ")})`
  )
  yield* run("DEALLOCATE list")
  return nodesOf(row!["QUERY PLAN"][0]!.Plan)
})

/** Asserts that each list by key reads only the index of the request binding, and of that a few pages. */
const assertPlans = Effect.fnUntraced(function*(grant: GrantIdentity, when: string) {
  const sql = yield* SqlClient.SqlClient
  for (const mode of ["force_custom_plan", "force_generic_plan"]) {
    yield* sql.unsafe(`SET plan_cache_mode = ${mode}`).unprepared
    for (const [name, filter] of Object.entries(filters)) {
      const label = `${when}, ${mode}, ${name}`
      const nodes = yield* planOf(grant, { ...everything, ...filter, key })
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
    }
  }
}, Effect.provide(Reader))

/** How many operations PostgreSQL expects for the key alone, with either kind of plan. */
const expectedRows = (grant: GrantIdentity) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    return yield* Effect.forEach(["force_custom_plan", "force_generic_plan"], (mode) =>
      Effect.gen(function*() {
        yield* sql.unsafe(`SET plan_cache_mode = ${mode}`).unprepared
        const nodes = yield* planOf(grant, { ...everything, key })
        return nodes.find((node) => node["Relation Name"] === "operations")!["Plan Rows"]
      }))
  }).pipe(Effect.provide(Reader))

const analyze = SqlClient.SqlClient.use((sql) => sql`ANALYZE`)

layer(PostgresLedger, { excludeTestServices: true, timeout: "2 minutes" })("the cost of a list by key", (it) => {
  it.effect("is that of the index of the request binding, whatever PostgreSQL knows about the table", () =>
    Effect.gen(function*() {
      yield* assertPlans((yield* issue()).identity, "an empty table")
      for (let owner = 0; owner < 40; owner++) yield* fill(100 + owner, 5)
      const { identity: small } = yield* fill(1, 5)
      yield* assertPlans(small, "small owners without statistics")
      yield* analyze
      yield* assertPlans(small, "small owners")
      const { identity } = yield* fill(2, large)
      yield* assertPlans(identity, "an owner that has grown since the statistics")
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        for (const [name, filter] of Object.entries(filters)) {
          const before = yield* touched
          // PostgreSQL plans the first five executions of a prepared statement, and may then keep one plan for all values.
          for (let run = 0; run < 8; run++) yield* store.list(identity, { ...everything, ...filter, key })
          const after = yield* touched
          assert.strictEqual(after.rows - before.rows, 8, name)
          assert.strictEqual(after.scans, before.scans, name)
        }
      }).pipe(Effect.provide(Reader))
      yield* analyze
      yield* assertPlans(identity, "a large owner")
      // A generic plan that seems to read many rows is never kept: each call would be planned anew. 42 owners used the key.
      for (const rows of yield* expectedRows(identity)) assert.isAtMost(rows, 42)
      yield* assertPlans((yield* issue()).identity, "an owner without operations beside a large one")
    }))
})
