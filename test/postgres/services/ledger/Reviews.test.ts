/**
 * A review changes no state, and only unsettled operations have one. The tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { accept, conformance, fieldsOf } from "../../../fixtures/ledger/Ledger.ts"
import { claimTerms, inspect, issueAtNewProvider, queued } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

const unsettled = ["accepted", "submitting", "submitted", "indeterminate"] as const

const settled = ["succeeded", "failed", "cancelled"] as const

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
