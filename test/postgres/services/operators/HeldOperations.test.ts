/** `operations held`: the counts by reason, and the next step, are those of the ledger. */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeSqlVerifications } from "../../../../src/cluster/witness/Verifications.ts"
import { nextStepOf } from "../../../../src/domain/operators/HeldOperations.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, issueAtNewProvider, readTerms } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

layer(OperationSearch.layer.pipe(Layer.provideMerge(PostgresLedger)), { excludeTestServices: true })(
  "The held operations",
  (it) => {
    it.effect("are counted by provider and reason, with the last comparison and the next step", () =>
      Effect.gen(function*() {
        const { held } = yield* OperationSearch
        const queue = yield* Queue
        const sql = yield* SqlClient.SqlClient
        const { grant: { provider }, identity } = yield* issueAtNewProvider()
        const [first] = yield* acceptSeveral(identity, 3)
        assert.include(nextStepOf(yield* held), "nothing")

        yield* queue.hold(first!)
        yield* sql`UPDATE operations SET timeline = timeline - 1 WHERE id <> ${first!}`
        const found = yield* held
        assert.strictEqual(found.held, 3)
        assert.deepStrictEqual(found.groups, [
          { provider, reason: "hold_placed", count: 1, examined: 1, releasable_from: null },
          { provider, reason: "timeline", count: 2, examined: 0, releasable_from: null }
        ])
        assert.isFalse(found.has_witness)
        assert.isNull(found.witness_check)
        assert.include(nextStepOf(found), "wait until the workers have examined")

        yield* queue.takeHeld(provider, 1, readTerms)
        yield* queue.takeHeld(provider, 10, { ...readTerms, rescue_after: Duration.hours(1) })
        const examined = yield* held
        assert.deepStrictEqual(examined.groups.map((group) => group.examined), [1, 2])
        const [unsent, lost] = examined.groups
        assert.isNull(unsent!.releasable_from, "it was never sent, so it can be released at once")
        const [latest] = yield* sql<{ readonly at: Date }>`
          SELECT max(send_before) AS at FROM operations WHERE provider = ${provider}`
        assert.deepStrictEqual(lost!.releasable_from, DateTime.fromDateUnsafe(latest!.at), "all of them")
        assert.include(nextStepOf(examined), "operations release ID")
      }))

    it.effect("wait for the comparison with the witness, and name the missing batches after it", () =>
      Effect.gen(function*() {
        const { held } = yield* OperationSearch
        const witness = yield* makeSqlVerifications
        const sql = yield* SqlClient.SqlClient
        const state = yield* witness.readWitnessState
        const [epoch, next] = [crypto.randomUUID(), crypto.randomUUID()]
        yield* witness.verify({ expected: state, epoch, batches: [], hadEpoch: false })
        assert.notInclude(nextStepOf(yield* held), "first stop", "nothing is known to be lost")
        yield* sql`UPDATE ledger_home SET epoch_life = 'an earlier life'`
        assert.include(nextStepOf(yield* held), "compare the ledger with its witness")

        const lost = { epoch, worker: crypto.randomUUID(), life: state.life, provider: "bank", batch: 4 }
        yield* witness.verify({ expected: { ...state, epoch }, epoch: next, batches: [lost], hadEpoch: true })
        const found = yield* held
        assert.isTrue(found.is_compared)
        assert.deepInclude(found.witness_check, { result: "missing", held: 3 })
        const { epoch: _, ...named } = lost
        assert.deepInclude(found.witness_check!.missing[0], { ...named, present: 0 })
        assert.deepStrictEqual(found.last_hold, found.witness_check)
        assert.match(nextStepOf(found), /^first stop the server that was replaced and its workers/u)
      }))
  }
)
