/**
 * A worker whose clock is wrong fails no payment at a provider that refuses late requests, and widens no deadline. The tests run the real
 * worker, with another clock, against a sandbox.
 */
import { assert } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, conformance } from "../../../fixtures/ledger/Ledger.ts"
import { inspect, pass } from "../../../fixtures/ledger/Queue.ts"
import { skewedClock } from "../../../fixtures/SkewedClock.ts"
import { engineAt, submissionScene } from "./SubmissionScene.ts"

/** Runs a worker with a clock that differs from that of the database. */
const skewedBy = <A, E, R>(skew: number, work: Effect.Effect<A, E, R>) =>
  Effect.updateService(work, Clock.Clock, skewedClock(skew).over)

conformance("A worker whose clock is", (it) => {
  for (const [name, skew] of [["60 s behind", -60_000], ["an hour ahead", 3_600_000]] as const) {
    it.effect(`${name} sends no payment to a provider that refuses late requests, and a right one sends them all`, () =>
      Effect.gen(function*() {
        const { grant, identity, sandbox, work } = yield* submissionScene
        const accepted = yield* Effect.forEach([1, 2, 3, 4, 5], () => accept(identity))
        const ids = accepted.map(({ operation }) => operation.id)
        const { show } = yield* OperationLedger
        yield* skewedBy(skew, work)
        assert.deepStrictEqual(yield* sandbox.record, [])
        for (const id of ids) {
          assert.deepInclude(yield* show(id), { state: "submitting", failure: null })
          assert.match((yield* inspect(id)).return_reason!, /^the clock of this worker is /)
        }
        yield* pass("10 minutes")
        yield* (yield* engineAt(grant.provider, sandbox.url)).work
        const received = yield* sandbox.record
        assert.sameMembers(received.map(({ key }) => key), ids)
        assert.notInclude(received.map(({ outcome }) => outcome), "too_late")
      }))
  }
})
