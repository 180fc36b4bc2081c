/**
 * What the queue stores of an outcome, that evidence is required, and that one of concurrent calls wins. `QueueModel` has the rest. The tests
 * run against PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber } from "effect"
import type { OperationState } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, conformance, fieldsOf, outcome, PostgresLedger, unknownId } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  recording,
  returnTerms
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { permittedTransitions, specifiedStates, uncertainStates } from "../../../fixtures/Specification.ts"

const terminalStates: ReadonlyArray<OperationState> = ["succeeded", "failed", "cancelled"]
const unsettled = ["submitting", "submitted", "indeterminate"] as const

/** Whether the effect died, as on a mistake of the caller. */
const dies = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(effect), (exit) => Exit.isFailure(exit) && Cause.hasDies(exit.cause))

conformance("the outcome of an operation", (it) => {
  for (const from of unsettled) {
    for (const to of specifiedStates.filter((to) => permittedTransitions.includes(`${from} -> ${to}`))) {
      it.effect(`is recorded with its evidence: ${from} -> ${to}`, () =>
        Effect.gen(function*() {
          const ledger = yield* OperationLedger
          const queue = yield* Queue
          const before = yield* queued(yield* issueAtNewProvider(), from)
          const history = yield* ledger.history(before.id)
          const evidence = { by: "test", answer: ["ünï", "\u0000", { nested: null }] }
          const after = yield* queue.record(before.id, before.revision, outcome(to), recording({ evidence }))
          const terminal = terminalStates.includes(to)
          assert.deepStrictEqual(after, {
            ...before,
            state: to,
            terminal,
            submission_uncertain: uncertainStates.includes(to),
            revision: before.revision + 1,
            updated_at: after.updated_at,
            completed_at: terminal ? after.updated_at : null,
            failure: to === "failed" ? { code: "declined", message: "The bank declined." } : null
          })
          assert.deepStrictEqual(yield* ledger.show(before.id), after)
          assert.deepStrictEqual(yield* ledger.history(before.id), [
            ...history,
            { revision: after.revision, from, to, at: after.updated_at, evidence }
          ])
          const { due_in } = yield* inspect(before.id)
          if (terminal) assert.isNull(due_in, "a settled operation has no schedule")
          else isAbout(due_in, Duration.minutes(5))
        }))
    }
  }

  it.effect("needs evidence to leave indeterminate: without evidence, the call dies and changes nothing", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const before = yield* queued(yield* issueAtNewProvider(), "indeterminate")
      for (const to of ["submitted", "succeeded", "failed"] as const) {
        assert.isTrue(
          yield* dies(queue.record(before.id, before.revision, outcome(to), recording({ evidence: {} })))
        )
      }
      assert.deepStrictEqual(yield* ledger.show(before.id), before)
    }))

  it.effect("cannot be recorded of an operation that does not exist, nor its claim be returned, nor a hold be placed or released", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim } = yield* claimedOperation()
      const attempts: ReadonlyArray<Effect.Effect<unknown, object>> = [
        queue.record(unknownId, 1, outcome("succeeded"), recording()),
        queue.recordHeld(unknownId, 1, outcome("succeeded"), recording()),
        queue.returnClaim({ operation: { ...claim.operation, id: unknownId }, revision: 2 }, returnTerms),
        queue.hold(unknownId),
        queue.release(unknownId)
      ]
      for (const attempt of attempts) {
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(attempt)), { _tag: "OperationNotFound", id: unknownId })
      }
    }))

  it.effect("of a held operation is recorded only once by concurrent callers", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      for (let round = 0; round < 10; round++) {
        const { id } = yield* heldOperation
        const results = yield* Effect.forEach(
          ["succeeded", "failed", "submitted", "succeeded"] as const,
          (to) => Effect.result(queue.recordHeld(id, 1, outcome(to), recording())),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(results.filter(({ _tag }) => _tag === "Success"), 1)
        for (const result of results) {
          if (result._tag === "Failure") {
            assert.deepInclude(fieldsOf(result.failure), { _tag: "StaleOperation", actual: 3 })
          }
        }
        assert.lengthOf(yield* ledger.history(id), 3)
      }
    }))

  it.effect("races with the rescue of a stale claim: one of them wins, and the operation moves once", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      for (let round = 0; round < 20; round++) {
        const { id } = yield* queued(issued, "submitting")
        yield* pass("1 hour")
        const [rescued, recorded] = yield* Effect.all(
          [queue.rescue(1000), Effect.result(queue.record(id, 2, outcome("succeeded"), recording()))],
          { concurrency: "unbounded" }
        )
        const { state } = yield* ledger.show(id)
        assert.strictEqual(recorded._tag, state === "succeeded" ? "Success" : "Failure")
        assert.strictEqual(rescued.includes(id), state !== "succeeded")
        assert.lengthOf(yield* ledger.history(id), 3)
      }
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("in PostgreSQL, a hold of one operation", (it) => {
  it.effect("waits for an open claim of the same row, and is refused once that commits", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const held = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("UPDATE operations SET state = 'submitting', revision = 2 WHERE id = $1", [id])
        const hold = yield* Effect.forkScoped(
          Effect.flatMap(Queue, (queue) => Effect.result(queue.hold(id))).pipe(Effect.provide(anotherProcess()))
        )
        yield* untilWaiting(1)
        yield* run("COMMIT")
        return yield* Fiber.join(hold)
      }))
      assert.strictEqual(held._tag === "Failure" && held.failure._tag, "IllegalTransition")
    }))
})
