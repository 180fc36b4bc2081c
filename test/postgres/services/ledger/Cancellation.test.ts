/**
 * An operator can cancel only an operation that was never sent. `QueueModel` has what is cancelled. The tests run against PostgreSQL and the
 * memory store.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import {
  accept,
  conformance,
  fieldsOf,
  nextMillisecond,
  outcome,
  PostgresLedger,
  unknownId
} from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  issueAtNewProvider,
  pass,
  recording,
  returnTerms,
  takeOverIds
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import { anotherQueue } from "../../../fixtures/postgres/Pools.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

conformance("a cancellation", (it) => {
  it.effect("of an accepted operation is recorded with its evidence", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      assert.isNull((yield* ledger.cancel(operation.id, { by: "operator" })).failure)
      const { evidence, from, to } = (yield* ledger.history(operation.id))[1]!
      assert.deepStrictEqual({ evidence, from, to }, {
        evidence: { by: "operator" },
        from: "accepted",
        to: "cancelled"
      })
    }))

  for (const state of ["submitted", "indeterminate"] as const) {
    it.effect(`of a ${state} operation about which an operator asked less than a minute after its send_before is no failure either, at any age`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const { claim, id } = yield* claimedOperation()
        const { revision } = yield* queue.record(id, claim.revision, outcome(state), recording())
        const { created_at } = yield* ledger.show(id)
        const { send_before } = claim.operation
        const fail = (asked: DateTime.Utc) =>
          ledger.transition(id, revision, outcome("failed"), { by: "operator", ...evidenceOf({ created_at: asked }) })
        const error = yield* Effect.flip(fail(created_at))
        assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", reason: "evidence_refused" })
        const [asked, until] = [created_at, send_before!].map(DateTime.formatIso)
        assert.include(
          error.message,
          `asked_at ${asked} is less than a minute after ${until}, until which the request could`
        )
        yield* pass("1 day")
        const passed = DateTime.subtract(send_before!, { days: 1, minutes: -1 })
        const early = yield* Effect.flip(fail(DateTime.subtract(passed, { milliseconds: 1 })))
        assert.deepInclude(fieldsOf(early), { _tag: "IllegalTransition", reason: "evidence_refused" })
        assert.strictEqual((yield* fail(passed)).state, "failed")
      }))
  }

  it.effect("is refused for an operation that does not exist", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      for (const attempt of [ledger.cancel(unknownId, null), ledger.review(unknownId, true)] as const) {
        const error = yield* Effect.flip(attempt as Effect.Effect<unknown, object>)
        assert.deepStrictEqual(fieldsOf(error), { _tag: "OperationNotFound", id: unknownId })
      }
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("a cancellation in PostgreSQL", (it) => {
  for (const state of ["submitting", "submitted", "indeterminate"] as const) {
    it.effect(`of a ${state} operation that may still be sent is refused by the database, if a person says or was told that it failed`, () =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const { claim, id } = yield* claimedOperation()
        if (state !== "submitting") yield* queue.record(id, claim.revision, outcome(state), recording())
        const { send_before } = claim.operation
        const fail = (by: string, asked: DateTime.Utc) =>
          attempt(
            "replica",
            `UPDATE operations SET state = 'failed', revision = revision + 1, evidence = $2, failure_code = 'none', failure_message = 'None'
          WHERE id = $1`,
            [id, JSON.stringify({ by, ...evidenceOf({ created_at: asked }), answer: "\0" })]
          )
        assert.strictEqual(yield* fail("operator", send_before!), "23001")
        assert.isArray(yield* fail("status_read", send_before!))
        yield* pass("1 day")
        const passed = DateTime.subtract(send_before!, { days: 1, minutes: -1 })
        const early = DateTime.subtract(passed, { milliseconds: 1 })
        assert.strictEqual(yield* fail("operator", early), "23001")
        assert.isArray(yield* fail("status_read", early))
        assert.isArray(yield* fail("operator", passed))
      }))
  }

  for (
    const [reason, lose, restore] of [
      [
        "an earlier version held all operations",
        "UPDATE ledger_home SET history = gen_random_uuid()",
        "SELECT 1"
      ],
      [
        "the ledger moved, and no worker has started there",
        "UPDATE ledger_home SET system_identifier = system_identifier + 1",
        "UPDATE ledger_home SET system_identifier = system_identifier - 1"
      ],
      [
        "a dump was restored into its database, and no worker has started since",
        "UPDATE ledger_home SET operations_oid = 1",
        "UPDATE ledger_home SET operations_oid = 'operations'::regclass::oid"
      ],
      [
        "the ledger was not compared with its witness since the server started",
        "UPDATE ledger_home SET epoch = gen_random_uuid(), epoch_life = 'another'",
        "UPDATE ledger_home SET epoch = NULL, epoch_life = NULL"
      ]
    ] as const
  ) {
    it.effect(`is refused if ${reason}`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const sql = yield* SqlClient.SqlClient
        const { identity } = yield* issueAtNewProvider()
        const { operation: { id: free } } = yield* accept(identity)
        const { operation: { id: held } } = yield* accept(identity)
        const { claim, id: returned } = yield* claimedOperation()
        yield* queue.hold(held)
        yield* queue.returnClaim(claim, returnTerms)
        yield* sql.unsafe(lose)
        const ids = restore === "SELECT 1" ? [held] : [free, held, returned]
        for (const id of ids) {
          assert.strictEqual((yield* Effect.flip(ledger.cancel(id, null)))._tag, "IllegalTransition", id)
          const move = `UPDATE operations SET state = CASE state WHEN 'accepted' THEN 'cancelled' ELSE 'failed' END,
            failure_code = CASE state WHEN 'submitting' THEN 'x' END, failure_message = CASE state WHEN 'submitting' THEN 'x' END,
            revision = revision + 1 WHERE id = $1`
          assert.strictEqual(yield* attempt("origin", move, [id]), "23001", "the trigger has the same rule")
        }
        yield* sql.unsafe(restore)
      }))
  }

  it.effect(`of a returned claim races with take-overs: exactly one wins, ${races} times`, () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const other = yield* anotherQueue()
      const wins = { cancel: 0, take_over: 0 }
      for (let round = 0; round < races; round++) {
        const { claim, id, provider } = yield* claimedOperation()
        yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero })
        yield* nextMillisecond
        const cancel = Effect.map(Effect.result(ledger.cancel(id, null)), ({ _tag }) => _tag === "Success")
        const takeOver = Effect.map(Effect.provideContext(takeOverIds(provider), other), (ids) => ids.includes(id))
        const [cancelled, taken] = yield* Effect.all([cancel, takeOver], { concurrency: "unbounded" })
        assert.notStrictEqual(cancelled, taken, `round ${round}`)
        wins[cancelled ? "cancel" : "take_over"]++
      }
      assert.isAbove(wins.cancel + wins.take_over, 0)
    }))
})

const races = rounds(40, 1000)
