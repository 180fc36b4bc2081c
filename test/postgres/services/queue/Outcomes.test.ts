/**
 * The queue records outcomes only along the transition table, once, and with evidence where required; the rescuer moves
 * stale claims. The tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Cause, Duration, Effect, Exit } from "effect"
import type { OperationId, OperationState } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, conformance, fieldsOf, outcome, unknownId } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimIds,
  claimTerms,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  recording,
  reference
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
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

  it.effect("cannot be recorded of an operation that does not exist", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const attempts: ReadonlyArray<Effect.Effect<unknown, object>> = [
        queue.record(unknownId, 1, outcome("succeeded"), recording()),
        queue.recordHeld(unknownId, 1, outcome("succeeded"), recording()),
        queue.release(unknownId)
      ]
      for (const attempt of attempts) {
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(attempt)), { _tag: "OperationNotFound", id: unknownId })
      }
    }))

  it.effect("is recorded in any standing of grant, client and provider connection", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "submitting")
      yield* grants.revoke(issued.grant.grant_id)
      yield* grants.setClientActive(issued.grant.client_id, false)
      yield* grants.setProviderConnected(issued.grant.provider_connection_id, false)
      assert.strictEqual((yield* queue.record(id, 2, outcome("submitted"), recording())).state, "submitted")
      assert.strictEqual((yield* queue.record(id, 3, outcome("succeeded"), recording())).state, "succeeded")
    }))

  it.effect("keeps the first reference of the provider", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id } = yield* queued(yield* issueAtNewProvider(), "submitting")
      const record = (revision: number, to: OperationState, given: string | null) =>
        queue.record(id, revision, outcome(to), recording({ reference: given === null ? null : reference(given) }))
      yield* record(2, "submitted", "first")
      yield* record(3, "indeterminate", null)
      assert.strictEqual((yield* inspect(id)).reference, "first")
      yield* record(4, "submitted", "first")
      assert.strictEqual((yield* inspect(id)).reference, "first")
      yield* record(5, "succeeded", null)
      assert.strictEqual((yield* inspect(id)).reference, "first")
    }))
})

conformance("a rescue", (it) => {
  /** Rescues all stale claims, and yields those of these ids. */
  const rescue = Effect.fnUntraced(function*(ids: ReadonlyArray<OperationId>) {
    const queue = yield* Queue
    const rescued = yield* queue.rescue(1000)
    return rescued.filter((id) => ids.includes(id))
  })

  it.effect("moves a stale claim to indeterminate, returns it, and makes its status read due at once", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id, revision } = yield* queued(yield* issueAtNewProvider(), "submitting")
      yield* pass(Duration.subtract(claimTerms.rescue_after, Duration.seconds(10)))
      assert.deepStrictEqual(yield* rescue([id]), [], "it is not stale yet")
      yield* pass("10 seconds")
      assert.deepStrictEqual(yield* rescue([id]), [id])
      assert.deepInclude(yield* ledger.show(id), { state: "indeterminate", revision: revision + 1 })
      const { evidence, from, to } = (yield* ledger.history(id))[2]!
      assert.deepStrictEqual({ from, to }, { from: "submitting", to: "indeterminate" })
      assert.deepInclude(evidence, { by: "rescuer" })
      isAbout((yield* inspect(id)).due_in, Duration.zero)
      assert.deepStrictEqual(yield* rescue([id]), [])
    }))

  it.effect("changes no operation in another state, at any age", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const issued = yield* issueAtNewProvider()
      const ids: Array<OperationId> = []
      for (const state of ["submitted", "indeterminate", "succeeded", "failed", "cancelled", "accepted"] as const) {
        ids.push((yield* queued(issued, state)).id)
      }
      yield* pass("3650 days")
      const before = yield* Effect.forEach(ids, ledger.show)
      assert.deepStrictEqual(yield* rescue(ids), [])
      assert.deepStrictEqual(yield* Effect.forEach(ids, ledger.show), before)
    }))

  it.effect("takes the oldest claims first, up to the limit, of any provider", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      yield* pass("1 hour")
      yield* rescue([])
      const ids: Array<OperationId> = []
      for (let n = 0; n < 5; n++) {
        ids.push((yield* queued(yield* issueAtNewProvider(), "submitting")).id)
        yield* pass("1 second")
      }
      yield* pass("1 hour")
      assert.sameMembers([...yield* queue.rescue(2)], ids.slice(0, 2))
      assert.sameMembers([...yield* queue.rescue(2)], ids.slice(2, 4))
      assert.sameMembers([...yield* queue.rescue(2)], ids.slice(4))
    }))

  it.effect("rescues in any standing of grant, client and provider connection", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "submitting")
      yield* grants.revoke(issued.grant.grant_id)
      yield* grants.setProviderConnected(issued.grant.provider_connection_id, false)
      yield* pass("1 hour")
      assert.deepStrictEqual(yield* rescue([id]), [id])
    }))

  it.effect("races with a record for a stale claim: one of them wins, and the operation moves once", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      for (let round = 0; round < 20; round++) {
        const { id } = yield* queued(issued, "submitting")
        yield* pass("1 hour")
        const [rescued, recorded] = yield* Effect.all(
          [rescue([id]), Effect.result(queue.record(id, 2, outcome("succeeded"), recording()))],
          { concurrency: "unbounded" }
        )
        const { state } = yield* ledger.show(id)
        assert.strictEqual(recorded._tag, state === "succeeded" ? "Success" : "Failure")
        assert.deepStrictEqual(rescued, state === "succeeded" ? [] : [id])
        assert.lengthOf(yield* ledger.history(id), 3)
      }
    }))

  it.effect("waits five minutes for an operation that an operator claimed", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      yield* ledger.transition(id, 1, outcome("submitting"), null)
      yield* pass("4 minutes")
      assert.deepStrictEqual(yield* rescue([id]), [])
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* rescue([id]), [id])
      assert.deepStrictEqual(yield* claimIds((yield* inspect(id)).provider as never), [])
    }))
})
