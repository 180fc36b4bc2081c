/**
 * An operator can cancel only an operation that was never sent, and a review changes no state. The tests run against
 * PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Operation } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { accept, conformance, fieldsOf, unknownId } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, claimTerms, inspect, issueAtNewProvider, pass, queued } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const unsettled = ["accepted", "submitting", "submitted", "indeterminate"] as const
const settled = ["succeeded", "failed", "cancelled"] as const

conformance("a cancellation", (it) => {
  it.effect("of an accepted operation is recorded with its evidence, once, and no worker claims the operation afterwards", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      const cancelled = yield* ledger.cancel(operation.id, { by: "operator" })
      assert.isTrue(Schema.is(Operation)(cancelled))
      assert.deepInclude(cancelled, { state: "cancelled", terminal: true, revision: 2, failure: null })
      assert.deepStrictEqual(cancelled.completed_at, cancelled.updated_at)
      assert.deepStrictEqual(yield* ledger.show(operation.id), cancelled)
      const { evidence, from, to } = (yield* ledger.history(operation.id))[1]!
      assert.deepStrictEqual({ evidence, from, to }, {
        evidence: { by: "operator" },
        from: "accepted",
        to: "cancelled"
      })
      assert.isNull((yield* inspect(operation.id)).due_in)
      assert.deepStrictEqual(yield* ledger.cancel(operation.id, { by: "a repetition" }), cancelled)
      assert.lengthOf(yield* ledger.history(operation.id), 2)
      yield* pass("1 day")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
    }))

  for (const state of specifiedStates.filter((state) => state !== "accepted" && state !== "cancelled")) {
    it.effect(`of an operation that is ${state} is refused at any age, and changes nothing`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { id } = yield* queued(yield* issueAtNewProvider(), state)
        yield* pass("3650 days")
        const before = yield* ledger.show(id)
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(ledger.cancel(id, { by: "age" }))), {
          _tag: "IllegalTransition",
          id,
          from: state,
          to: "cancelled",
          reason: "not_permitted"
        })
        assert.deepStrictEqual(yield* ledger.show(id), before)
      }))
  }

  it.effect("ends a review, and needs no grant in good standing", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* ledger.review(operation.id, true)
      yield* grants.revoke(grant.grant_id)
      assert.deepInclude(yield* ledger.cancel(operation.id, null), { state: "cancelled", under_review: false })
    }))

  it.effect("is refused for an operation that does not exist", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      for (const attempt of [ledger.cancel(unknownId, null), ledger.review(unknownId, true)] as const) {
        const error = yield* Effect.flip(attempt as Effect.Effect<unknown, object>)
        assert.deepStrictEqual(fieldsOf(error), { _tag: "OperationNotFound", id: unknownId })
      }
    }))
})

conformance("a review", (it) => {
  for (const state of unsettled) {
    it.effect(`begins and ends while the operation is ${state}, which is no transition`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const store = yield* OperationStore
        const issued = yield* issueAtNewProvider()
        const operation = yield* queued(issued, state)
        const history = yield* ledger.history(operation.id)
        const { due_in } = yield* inspect(operation.id)
        for (const under_review of [true, true, false, false, true]) {
          assert.deepStrictEqual(yield* ledger.review(operation.id, under_review), { ...operation, under_review })
          assert.deepStrictEqual(yield* store.find(issued.identity, operation.id), {
            ...operation,
            under_review
          })
        }
        assert.deepStrictEqual(yield* ledger.history(operation.id), history)
        assert.closeTo((yield* inspect(operation.id)).due_in!, due_in!, 2000, "the schedule is unchanged")
      }))
  }

  for (const state of settled) {
    it.effect(`of an operation that is ${state} is refused: a final state leaves nothing to review`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const operation = yield* queued(yield* issueAtNewProvider(), state)
        for (const underReview of [true, false]) {
          const error = yield* Effect.flip(ledger.review(operation.id, underReview))
          assert.deepStrictEqual(fieldsOf(error), { _tag: "AlreadySettled", id: operation.id, state })
          assert.include(error.message, `${state}, which is final`)
        }
        assert.deepStrictEqual(yield* ledger.show(operation.id), operation)
      }))
  }

  it.effect("does not stop a worker from claiming the operation", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* ledger.review(operation.id, true)
      assert.lengthOf(yield* queue.claim(grant.provider, 1, claimTerms), 1)
      assert.deepInclude(yield* ledger.show(operation.id), { state: "submitting", under_review: true })
    }))
})
