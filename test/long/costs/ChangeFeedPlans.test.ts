/**
 * A page of the change feed reads changes of its owner alone, also beside an owner with nearly all operations of the ledger. The
 * tests read the plans of PostgreSQL for each state of its statistics.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ChangeQuery } from "../../../src/domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { beforeAllIds, type ChangePosition, startOfLedger } from "../../../src/services/rules/changePosition.ts"
import {
  changesOfGrant,
  changesOfLedger,
  lastChange,
  recordMark
} from "../../../src/services/sql/reads/changeStatements.ts"
import { fill } from "../../fixtures/ledger/FilledLedger.ts"
import { fillQueue } from "../../fixtures/ledger/FilledQueue.ts"
import { accept, issue, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { nodesOf, type Plan, planModes, planOf, ReaderConnection } from "../../fixtures/postgres/Plans.ts"
import type { Statement } from "../../fixtures/postgres/Statements.ts"

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

/** The nodes that choose the rows of a page: the limit above the ranges, and all below it. */
const choiceOf = (plan: Plan): ReadonlyArray<Plan> => {
  const isChoice = (node: Plan) =>
    node["Node Type"] === "Limit" && nodesOf(node).some((below) => below["Node Type"] === "Function Scan")
  return nodesOf(nodesOf(plan).filter(isChoice).at(-1) ?? plan)
}

/** Asserts that each read of the table uses the index alone, and reads a few rows of it. */
const assertIndex = Effect.fnUntraced(function*(statement: Statement, index: string, when: string) {
  for (const mode of planModes) {
    const label = `${when}, ${mode}`
    const nodes = yield* planOf(statement, mode)
    // A sort could choose other rows of a range than the first.
    if (statement.text.includes("ORDER BY r.n")) {
      const types = choiceOf(nodes[0]!).map((node) => node["Node Type"])
      assert.include(types, "Function Scan", label)
      assert.notMatch(types.join(), /Sort|Gather|Hash/, label)
    }
    for (const scan of nodes.filter((node) => node["Relation Name"] === "operations")) {
      assert.strictEqual(scan["Index Name"], index, label)
      assert.isAtMost(scan["Actual Rows"] + (scan["Rows Removed by Filter"] ?? 0), 3, label)
    }
  }
})

const assertPlans = Effect.fnUntraced(function*(grant: GrantIdentity, when: string) {
  for (const [place, from] of Object.entries(positions)) {
    for (const [name, query] of Object.entries(queries)) {
      const statement = changesOfGrant(grant, from, query)
      yield* assertIndex(statement, "operations_by_owner_change", `${when}, ${name}, ${place}`)
    }
    yield* assertIndex(changesOfLedger(from, 1), "operations_by_change", `${when}, the ledger, ${place}`)
  }
  yield* assertIndex({ text: lastChange, parameters: [] }, "operations_by_change", `${when}, the last change`)
}, Effect.provide(ReaderConnection))

/** With the settings of the database, as workers have. */
const assertPlanOfMark = Effect.fnUntraced(function*(when: string) {
  yield* SqlClient.SqlClient.use((sql) => sql`DELETE FROM change_marks`)
  yield* assertIndex({ text: recordMark, parameters: [] }, "operations_by_change", `${when}, the mark`)
})

layer(PostgresLedger, { excludeTestServices: true })("the cost of the change feed", (it) => {
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

layer(PostgresLedger, { excludeTestServices: true })("the cost of a mark", (it) => {
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
