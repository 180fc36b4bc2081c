/**
 * A person ends no operation as failed while its worker may wait for the answer, and proof that comes after a final state is kept. The tests
 * run against PostgreSQL and the memory store. Those that only PostgreSQL can hold try its triggers.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { conformance, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  issueAtNewProvider,
  pass,
  queued,
  recording,
  reference
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { operatorEvidence } from "../../../fixtures/OperatorEvidence.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

/** The evidence of a person who asked so many milliseconds from now. */
const askedIn = (millis: number) =>
  Effect.map(
    Effect.flatMap(Queue, ({ readClock }) => readClock),
    (now) => ({
      by: "operator",
      ...operatorEvidence,
      reference_of: "answer",
      asked_at: DateTime.formatIso(DateTime.add(now, { milliseconds: millis }))
    })
  )

const proof = { state: "succeeded", reference: reference("PAID-1"), evidence: { paid: true } } as const
const kept = { proves: "succeeded", reference: "PAID-1", evidence: { paid: true } }

conformance("a failure that a person records", (it) => {
  it.effect("is refused while the worker may wait for the answer, and the refusal says when it can be recorded", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { claim, id } = yield* claimedOperation({}, { send_within: Duration.seconds(10) })
      yield* pass(Duration.seconds(80))
      const before = yield* ledger.show(id)
      const move = (to: "failed" | "indeterminate") =>
        Effect.flatMap(askedIn(0), (evidence) => ledger.transition(id, claim.revision, outcome(to), evidence))
      for (const to of ["failed", "indeterminate"] as const) {
        const { message } = yield* Effect.flip(move(to))
        assert.include(message, `cannot become ${to} yet: a worker may be sending it, or wait for the answer`)
        assert.match(message, /: not before \S+Z, and it is \S+Z now$/u)
      }
      assert.deepStrictEqual(yield* ledger.show(id), before)
      yield* pass(Duration.seconds(20))
      assert.strictEqual((yield* move("failed")).state, "failed")
    }))

  it.effect("is refused if the person asked in the future of the ledger's clock, and the refusal tells the present time", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id, revision } = yield* queued(yield* issueAtNewProvider(), "submitted")
      const fail = (ahead: number) =>
        Effect.flatMap(askedIn(ahead), (evidence) => ledger.transition(id, revision, outcome("failed"), evidence))
      const error = yield* Effect.flip(fail(30_000))
      assert.match(error.message, /is in the future: it is \S+Z now/u)
      yield* pass(Duration.minutes(5))
      assert.strictEqual((yield* fail(0)).state, "failed")
    }))
})

conformance("a proof that comes after a final state", (it) => {
  it.effect("is recorded once, and changes nothing of the operation", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { reversal } = yield* Backstage
      const issued = yield* issueAtNewProvider()
      for (const state of ["failed", "cancelled"] as const) {
        const { id } = yield* queued(issued, state)
        const before = [yield* ledger.show(id), yield* ledger.history(id)]
        assert.deepInclude(yield* queue.contradict(id, proof), { state, reference: null })
        assert.deepInclude(yield* queue.contradict(id, { ...proof, reference: null }), { state })
        assert.deepStrictEqual((yield* reversal(id)).evidence, kept)
        assert.deepStrictEqual([yield* ledger.show(id), yield* ledger.history(id)], before)
      }
    }))

  it.effect("is none if it agrees with the state, or if that is not final", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { reversal } = yield* Backstage
      const issued = yield* issueAtNewProvider()
      for (const state of ["accepted", "submitting", "submitted", "indeterminate", "succeeded"] as const) {
        const { id } = yield* queued(issued, state)
        assert.isNull(yield* queue.contradict(id, proof), state)
        assert.isNull((yield* reversal(id)).evidence)
      }
    }))

  it.effect("is known from a status read that changed nothing", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, revision } = yield* queued(yield* issueAtNewProvider(), "submitted")
      const postpone = queue.postpone(id, revision, { due_in: Duration.minutes(1), reference: null })
      assert.isTrue(yield* postpone)
      yield* queue.record(id, revision, outcome("failed"), recording())
      assert.isFalse(yield* postpone)
    }))
})

const Operators = Layer.merge(OperationSearch.layer, LedgerFigures.layer).pipe(Layer.provideMerge(PostgresLedger))

layer(Operators, { excludeTestServices: true })("in PostgreSQL, a late proof", (it) => {
  it.effect("tells operators of a failed operation that needs them", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const search = yield* OperationSearch
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const { id } = yield* queued(issued, "failed")
      assert.strictEqual((yield* search.detail(id)).next.by, "none")
      yield* queue.contradict(id, proof)
      const { next, operation, reversal } = yield* search.detail(id)
      assert.deepStrictEqual([operation.state, reversal?.evidence, next.by], ["failed", kept, "operator"])
      const listed = yield* search.list({ queue: "reversed", provider, order: "newest", limit: 10 })
      assert.deepStrictEqual(listed.operations.map(({ next }) => next), [next])
      const { reversed } = yield* LedgerFigures.use(({ now }) => now)
      assert.deepInclude(reversed, { provider, state: "failed", count: 1 })
    }))

  it.effect("and a failure of a person while an answer may come, are held to their rules in the database too", () =>
    Effect.gen(function*() {
      const move = (id: string, to: string, evidence: unknown) =>
        attempt(
          "origin",
          `UPDATE operations SET state = '${to}', revision = revision + 1, evidence = '${JSON.stringify(evidence)}'${
            to === "failed" ? ", failure_code = 'x', failure_message = 'x'" : ""
          } WHERE id = '${id}'`
        )
      const { id } = yield* claimedOperation({}, { send_within: Duration.millis(1) })
      const { id: sent } = yield* queued(yield* issueAtNewProvider(), "submitted")
      yield* pass(Duration.seconds(80))
      for (const to of ["failed", "indeterminate"]) {
        assert.strictEqual(yield* move(id, to, yield* askedIn(0)), "23001", to)
      }
      assert.strictEqual(yield* move(sent, "failed", yield* askedIn(30_000)), "23001")
      yield* pass(Duration.seconds(20))
      for (const operation of [id, sent]) assert.isArray(yield* move(operation, "failed", yield* askedIn(0)))
    }))
})
