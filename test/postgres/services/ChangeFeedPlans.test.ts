/**
 * A page of the change feed reads changes of its owner alone, also beside an owner with nearly all operations of the ledger. The
 * tests read the plans of PostgreSQL for each state of its statistics.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ChangeQuery } from "../../../src/domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { readerParameters } from "../../../src/node/postgres/Pools.ts"
import { beforeAllIds, type ChangePosition, startOfLedger } from "../../../src/services/rules/changePosition.ts"
import { changesOfGrant, changesOfLedger, lastChange, recordMark } from "../../../src/services/sql/changeStatements.ts"
import { fill } from "../../fixtures/FilledLedger.ts"
import { fillQueue } from "../../fixtures/FilledQueue.ts"
import { accept, issue, PostgresLedger } from "../../fixtures/Ledger.ts"
import { anotherPool } from "../../fixtures/Pools.ts"

const everything: ChangeQuery = { states: [], type: null, page_size: 100, after: null }

const queries: Readonly<Record<string, ChangeQuery>> = {
  "no filter": everything,
  "a state": { ...everything, states: ["failed"] },
  "a type": { ...everything, type: "payment" }
}

const positions: Readonly<Record<string, ChangePosition>> = {
  "the start": startOfLedger,
  "a pending position": {
    ...startOfLedger,
    high: { position: 2, id: beforeAllIds },
    pending: [{ position: 1, id: beforeAllIds }]
  }
}

/** One connection with the gateway's settings. */
const Reader = Layer.fresh(anotherPool({ maxConnections: 1, startupParameters: readerParameters }))

interface Plan {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Name"?: string
  readonly "Actual Rows": number
  readonly "Rows Removed by Filter"?: number
  readonly Plans?: ReadonlyArray<Plan>
}

const nodesOf = (plan: Plan): ReadonlyArray<Plan> => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

interface Statement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
}

/** The nodes that choose the rows of a page: the limit above the ranges, and all below it. */
const choiceOf = (plan: Plan): ReadonlyArray<Plan> => {
  const isChoice = (node: Plan) =>
    node["Node Type"] === "Limit" && nodesOf(node).some((below) => below["Node Type"] === "Function Scan")
  return nodesOf(nodesOf(plan).filter(isChoice).at(-1) ?? plan)
}

/** Asserts that each read of the table uses the index alone, and reads a few rows of it. */
const assertIndex = Effect.fnUntraced(function*({ parameters, text }: Statement, index: string, label: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: Plan }> }>(
    `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
    parameters
  )
  const plan = row!["QUERY PLAN"][0]!.Plan
  // A sort could choose other rows of a range than the first.
  if (text.includes("ORDER BY r.n")) {
    const types = choiceOf(plan).map((node) => node["Node Type"])
    assert.include(types, "Function Scan", label)
    assert.notMatch(types.join(), /Sort|Gather|Hash/, label)
  }
  for (const scan of nodesOf(plan).filter((node) => node["Relation Name"] === "operations")) {
    assert.strictEqual(scan["Index Name"], index, label)
    assert.isAtMost(scan["Actual Rows"] + (scan["Rows Removed by Filter"] ?? 0), 3, label)
  }
})

const assertPlans = Effect.fnUntraced(function*(grant: GrantIdentity, when: string) {
  const sql = yield* SqlClient.SqlClient
  for (const mode of ["force_custom_plan", "force_generic_plan"]) {
    yield* sql.unsafe(`SET plan_cache_mode = ${mode}`)
    for (const [place, from] of Object.entries(positions)) {
      for (const [name, query] of Object.entries(queries)) {
        const label = `${when}, ${mode}, ${name}, ${place}`
        yield* assertIndex(changesOfGrant(grant, from, query), "operations_by_owner_change", label)
      }
      yield* assertIndex(changesOfLedger(from, 1), "operations_by_change", `${when}, ${mode}, the ledger, ${place}`)
    }
    yield* assertIndex(
      { text: lastChange, parameters: [] },
      "operations_by_change",
      `${when}, ${mode}, the last change`
    )
  }
}, Effect.provide(Reader))

/** One connection with the settings of the database, as workers have. */
const Worker = Layer.fresh(anotherPool({ maxConnections: 1 }))

const assertPlanOfMark = Effect.fnUntraced(function*(when: string) {
  const sql = yield* SqlClient.SqlClient
  for (const mode of ["force_custom_plan", "force_generic_plan"]) {
    yield* sql.unsafe(`SET plan_cache_mode = ${mode}`)
    yield* sql`DELETE FROM change_marks`
    yield* assertIndex({ text: recordMark, parameters: [] }, "operations_by_change", `${when}, ${mode}, the mark`)
  }
}, Effect.provide(Worker))

layer(PostgresLedger, { excludeTestServices: true, timeout: "2 minutes" })("the cost of the change feed", (it) => {
  it.effect("is that of the owner's changes, whatever PostgreSQL knows about the table", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* fill(1, 20_000)
      const { identity } = yield* issue()
      yield* assertPlans(identity, "an owner without operations beside a large one, without statistics")
      yield* sql`ANALYZE`
      yield* assertPlans(identity, "an owner without operations beside a large one")
      for (let n = 0; n < 3; n++) yield* accept(identity)
      yield* assertPlans(identity, "an owner that is newer than the statistics")
      yield* sql`ANALYZE`
      yield* assertPlans(identity, "a small owner beside a large one")
    }))
})

layer(PostgresLedger, { excludeTestServices: true, timeout: "2 minutes" })("the cost of a mark", (it) => {
  it.effect("is that of the last change, also when most operations have one position, as after a load", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant } = yield* issue()
      yield* fillQueue(grant, { count: 20_000 })
      yield* assertPlanOfMark("without statistics")
      yield* sql`ANALYZE`
      yield* assertPlanOfMark("with statistics")
    }))
})
