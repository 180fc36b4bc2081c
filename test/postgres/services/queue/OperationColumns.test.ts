/**
 * The columns of the workers hold one thing each: a hold, an examination, an acknowledgement, a time. Both stores for the
 * rules, raw SQL for what only PostgreSQL has.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, fieldsOf, operationIn, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  queued,
  takeIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

layer(PostgresLedger, { excludeTestServices: true })("an examined operation", (it) => {
  it.effect("stays held in another cluster, where a timeline of the same number begins", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* heldOperation
      yield* takeIds("takeHeld", provider)
      yield* sql`UPDATE operations SET timeline = ledger_timeline() WHERE id = ${id}::uuid`
      // A free operation has nothing to release, so that would be no error.
      assert.deepInclude(fieldsOf(yield* Effect.flip(queue.release(id))), { _tag: "StillHeld" })
      const error = yield* Effect.flip(ledger.cancel(id, null))
      assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", reason: "held" })
      const failure = yield* Effect.flip(ledger.transition(id, 1, outcome("failed"), null))
      assert.deepInclude(fieldsOf(failure), { _tag: "IllegalTransition" })
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("in PostgreSQL", (it) => {
  it.effect("a transition keeps its due_at, also the one that the row had, and null leaves the time to the trigger", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider()
      const move = (due_at: string, to: string) =>
        Effect.gen(function*() {
          const { id } = yield* operationIn(identity, "accepted")
          const before = (yield* inspect(id)).due_in!
          yield* sql.unsafe(
            `UPDATE operations SET state = '${to}', revision = 2, due_at = ${due_at}, failure_code = $2, failure_message = $2
             WHERE id = $1`,
            [id, to === "failed" ? "x" : null]
          )
          return { before, due_in: (yield* inspect(id)).due_in }
        })
      const kept = yield* move("due_at", "submitting")
      assert.closeTo(kept.due_in!, kept.before, 1000)
      assert.isAtMost(kept.due_in!, 0)
      isAbout((yield* move("now() + interval '1 hour'", "submitting")).due_in, Duration.hours(1))
      isAbout((yield* move("NULL", "submitting")).due_in, Duration.minutes(5))
      assert.isNull((yield* move("now()", "failed")).due_in)
    }))

  it.effect("only a trigger sets acknowledged, and nothing takes it away", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "indeterminate")
      yield* sql`UPDATE operations SET acknowledged = true WHERE id = ${id}`
      assert.isFalse((yield* inspect(id)).acknowledged)
      const submitted = yield* queued(issued, "submitted")
      yield* sql`UPDATE operations SET acknowledged = false WHERE id = ${submitted.id}`
      assert.isTrue((yield* inspect(submitted.id)).acknowledged)
    }))

  it.effect("a hold and an examination are columns of accepted operations alone, and an examination sets send_before", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      for (const state of ["submitting", "submitted", "indeterminate"] as const) {
        const { id } = yield* operationIn(identity, state)
        for (const change of ["hold_placed = true", "examined_timeline = 1", "timeline = timeline + 1"]) {
          assert.strictEqual(yield* attempt("origin", `UPDATE operations SET ${change} WHERE id = '${id}'`), "23001")
        }
      }
      const { id } = yield* operationIn(identity, "accepted")
      const examine = `UPDATE operations SET examined_timeline = 1 WHERE id = '${id}'`
      assert.strictEqual(yield* attempt("origin", examine), "23514")
    }))

  for (const move of ["system_identifier = system_identifier - 1", "operations_oid = 1"]) {
    it.effect(`a move of the ledger holds what is accepted, and ends every examination: ${move}`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const queue = yield* Queue
        const { id, provider } = yield* heldOperation
        yield* waitOut(provider)
        const { operation: free } = yield* accept((yield* issueAtNewProvider()).identity)
        const { operation: unsent } = yield* accept((yield* issueAtNewProvider()).identity)
        yield* queue.hold(unsent.id)
        yield* sql.unsafe(`UPDATE ledger_home SET ${move}`)
        assert.deepStrictEqual(yield* queue.prepare, { moved: true })
        assert.isTrue((yield* inspect(free.id)).is_held)
        const proofs = yield* sql`SELECT is_unsent(o) AS is_unsent FROM operations o WHERE id = ${unsent.id}`
        assert.deepStrictEqual(proofs, [{ is_unsent: false }], "another ledger may have released and sent it")
        const error = yield* Effect.flip(queue.release(id))
        assert.deepInclude(fieldsOf(error), { _tag: "StillHeld", reason: "unexamined" })
      }))
  }
})
