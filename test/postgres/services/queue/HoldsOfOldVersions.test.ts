/** An operator's hold outlasts statements of versions that do not know its mark, and the migration marks the holds of before. The tests send raw SQL. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { operationIn, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, issueAtNewProvider, readTerms } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt, inModes } from "../../../fixtures/postgres/RawSql.ts"

/** As the first version released an operation that its provider did not find. */
const oldRelease =
  `UPDATE operations SET timeline = ledger_timeline(), hold_placed = false, examined_timeline = NULL, due_at = now(),
    waiting = false, send_before = NULL, under_review = false, reviewed_at = now(), reading_since = NULL
  WHERE id = $1 RETURNING hold_placed, hold_outlasts_approval, is_unsent(operations) AS unsent`
/** As a later one, which kept the hold, and its proof. */
const oldProof =
  `UPDATE operations o SET timeline = ledger_timeline(), unsent_in = h.history, examined_timeline = NULL, send_before = NULL
  FROM ledger_home h WHERE o.id = $1 RETURNING is_unsent(o) AS unsent`
const oldHold = "UPDATE operations SET hold_placed = true, examined_timeline = NULL, due_at = now() WHERE id = $1"
const backfill = /^UPDATE operations[^;]*;/m.exec(fs.readFileSync("migrations/0048_operator_holds.sql", "utf8"))![0]

layer(PostgresLedger, { excludeTestServices: true })("an operator's hold beside an old version", (it) => {
  inModes(
    it,
    "ends with no release that does not know it, and its mark ends with it",
    (mode) =>
      Effect.gen(function*() {
        const { grant: { provider }, identity } = yield* issueAtNewProvider()
        const { id } = yield* operationIn(identity, "accepted")
        const queue = yield* Queue
        yield* queue.hold(id)
        const kept = { hold_placed: true, hold_outlasts_approval: true }
        assert.deepStrictEqual(yield* attempt(mode, oldRelease, [id]), [{ ...kept, unsent: true }])
        yield* Backstage.use(({ failOver }) => failOver)
        assert.deepStrictEqual(yield* attempt(mode, oldRelease, [id]), [{ ...kept, unsent: false }], "no new proof")
        yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(oldRelease, [id]))
        assert.deepStrictEqual(yield* claimIds(provider), [])
        yield* queue.holdAll
        yield* queue.takeHeld(provider, 1, readTerms)
        yield* Backstage.use(({ pass }) => pass(readTerms.rescue_after))
        assert.deepStrictEqual(yield* attempt(mode, oldProof, [id]), [{ unsent: true }])
        const free = { hold_placed: false, hold_outlasts_approval: false, unsent: true }
        const { id: other } = yield* operationIn(identity, "accepted")
        assert.deepStrictEqual(
          yield* attempt(
            mode,
            "UPDATE operations SET hold_outlasts_approval = true WHERE id = $1 RETURNING hold_placed",
            [
              other
            ],
            `SELECT hold_placed, hold_outlasts_approval, is_unsent(o) AS unsent FROM operations o WHERE id = '${other}'`
          ),
          [free]
        )
      })
  )

  it.effect("is marked by the migration, from the record of operators, until a release", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider()
      /** Whether the migration marks an operation that is held without a proof, after these actions. */
      const isMarked = Effect.fn(function*(actions: ReadonlyArray<string>, result = "done") {
        const { id } = yield* operationIn(identity, "accepted")
        yield* sql.unsafe(oldHold, [id])
        for (const action of actions) {
          const ofAll = action.endsWith("_all")
          yield* sql`INSERT INTO operator_actions (operator, via, action, operation_id, affected, result)
            VALUES ('ada', 'console', ${action}, ${ofAll ? null : id}::uuid, ${ofAll ? 1 : null}::integer, ${result})`
        }
        const read = `SELECT hold_outlasts_approval AS marked FROM operations WHERE id = '${id}'`
        return yield* attempt("origin", backfill, [], read)
      })
      const marked = yield* Effect.forEach([
        isMarked(["hold"]),
        isMarked(["release", "hold", "hold_all"]),
        isMarked(["hold", "release"]),
        isMarked(["hold", "release_all"]),
        isMarked(["hold"], "refused"),
        isMarked(["hold_all"])
      ], (one) => one)
      assert.deepStrictEqual(marked, [true, true, false, false, false, false].map((marked) => [{ marked }]))
    }))
})
