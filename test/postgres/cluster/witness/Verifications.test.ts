/**
 * What a comparison of the ledger with its witness holds and releases, and which claims a ledger with a witness gives.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Fiber, Latch } from "effect"
import { SqlClient } from "effect/sql"
import { checkpointOf, makeSqlVerifications } from "../../../../src/cluster/witness/Verifications.ts"
import type { GrantIdentity, ProviderName } from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import type { ClaimBatch } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimTerms,
  issueAtNewProvider,
  readTerms,
  returnTerms,
  takeOverSoon
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { untilWaiting } from "../../../fixtures/postgres/Pools.ts"

const worker = crypto.randomUUID()
const terms = { ...claimTerms, recorded_by: worker }

/** Compares with these batches, under the next epoch. */
const compare = Effect.fnUntraced(function*(batches: ReadonlyArray<ClaimBatch>) {
  const witness = yield* makeSqlVerifications
  const expected = yield* witness.readWitnessState
  const epoch = crypto.randomUUID()
  const verification = yield* witness.verify({ expected, epoch, batches, hadEpoch: expected.epoch !== null })
  return { epoch, expected, verification }
})

const settled = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`UPDATE ledger_home SET is_witness_settled = true`
)

const unsettled = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`UPDATE ledger_home SET is_witness_settled = false`
)

/** As an operator ends the witness. */
const endWitness = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`UPDATE ledger_home
      SET epoch = NULL, epoch_life = NULL, witnessed_since = NULL, is_witness_settled = false`
)

/** As if the operations of the provider were of the timeline before. */
const failOver = (provider: ProviderName) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`UPDATE operations SET timeline = timeline - 1 WHERE provider = ${provider}`
  )

/** Accepts an operation that waits for an approval. */
const acceptWaiting = (identity: GrantIdentity) =>
  Effect.map(
    accept(
      { ...identity, authorization_details: [{ type: "financial_operations", approval: { new_payees: true } }] },
      { terms: { amount: "1.00", currency: "EUR", payee: "A" } }
    ),
    ({ operation }) => operation.id
  )

/** Whether a decision about it counts. */
const isUnsent = (id: OperationId) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly is_unsent: boolean }>`SELECT is_unsent(o) FROM operations o WHERE id = ${id}`,
      ([row]) => row!.is_unsent
    )
  )

const stateOf = (id: Parameters<OperationLedger["Service"]["show"]>[0]) =>
  Effect.map(OperationLedger.use((ledger) => ledger.show(id)), ({ state }) => state)

const missing = (life: string): ClaimBatch => ({
  epoch: crypto.randomUUID(),
  worker: crypto.randomUUID(),
  life,
  provider: "lost",
  batch: 1
})

layer(PostgresLedger, { excludeTestServices: true })("A ledger with a witness", (it) => {
  it.effect("gives claims only to workers with a witness, and counts each batch in the transaction of its claim", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const sql = yield* SqlClient.SqlClient
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* acceptSeveral(identity, 4)
      assert.lengthOf(yield* queue.claim(provider, 1, terms), 0, "the ledger has no witness yet")
      assert.lengthOf(yield* queue.claim(provider, 1, claimTerms), 1)

      const { epoch, expected: { life }, verification } = yield* compare([])
      assert.strictEqual(verification?.result, "begun")
      assert.lengthOf(yield* queue.claim(provider, 1, claimTerms), 0, "the worker has no witness")
      const [first] = yield* queue.claim(provider, 1, terms)
      assert.deepStrictEqual(first!.batch, { epoch, worker, life, provider, batch: 1 })
      const [second, third] = yield* queue.claim(provider, 2, terms)
      assert.deepStrictEqual([second!.batch!.batch, third!.batch!.batch], [2, 2], "one batch")
      yield* queue.returnClaim(first!, { ...returnTerms, delay: Duration.millis(1) })
      assert.strictEqual((yield* takeOverSoon(provider, terms)).batch!.batch, 3, "a take-over")
      assert.lengthOf(yield* queue.claim(provider, 1, terms), 0)
      const [row] = yield* sql<{ readonly batch: number }>`
        SELECT batch::integer AS batch FROM claim_batches WHERE worker = ${worker} AND provider = ${provider}`
      assert.strictEqual(row!.batch, 3, "nothing was claimed, nothing is counted")

      yield* acceptSeveral(identity, 1)
      yield* sql`UPDATE ledger_home SET epoch_life = 'an earlier life'`
      assert.lengthOf(yield* queue.claim(provider, 1, terms), 0, "not compared in this life")
      yield* compare([])
      assert.lengthOf(yield* queue.claim(provider, 1, terms), 1)
    }))

  it.effect("releases only what the timeline alone holds, once, and after the comparison", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const witness = yield* makeSqlVerifications
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const [held, heldLater, ...others] = yield* acceptSeveral(identity, 4)
      yield* queue.hold(held!)
      const waiting = yield* acceptWaiting(identity)
      yield* settled
      const earlier = yield* compare([])
      yield* failOver(provider)
      yield* queue.hold(heldLater!)

      const { epoch, expected: { life }, verification } = yield* compare([])
      assert.deepStrictEqual(verification, { result: "proven", held: 0, missing: [] })
      assert.isTrue((yield* witness.readWitnessState).isReleaseDue)
      assert.lengthOf(yield* queue.claim(provider, 9, terms), 0, "still held")
      assert.isNull(yield* witness.releaseProven(earlier.epoch, life), "another epoch")
      assert.isNull(yield* witness.releaseProven(epoch, "another life"))
      assert.isFalse(yield* isUnsent(waiting))
      assert.strictEqual(yield* witness.releaseProven(epoch, life), 2)
      assert.isNull(yield* witness.releaseProven(epoch, life), "once")
      const claims = yield* queue.claim(provider, 9, terms)
      assert.sameMembers(claims.map(({ operation }) => operation.id), others)
      assert.isTrue(yield* isUnsent(waiting), "it waits for its approval as before")
      assert.isTrue(yield* isUnsent(held!), "its hold proves what it proved before")
      assert.isFalse(yield* isUnsent(heldLater!))
    }))

  it.effect.each(["begun", "unsettled"] as const)(
    "keeps held for good what a failover held before a comparison that is %s, and an operator still releases it",
    (result) =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const witness = yield* makeSqlVerifications
        const sql = yield* SqlClient.SqlClient
        const { grant: { provider }, identity } = yield* issueAtNewProvider()
        const [examined, held] = yield* acceptSeveral(identity, 2)
        yield* queue.hold(held!)
        const waiting = yield* acceptWaiting(identity)
        yield* failOver(provider)
        yield* queue.takeHeld(provider, 9, readTerms)
        const [unread] = yield* acceptSeveral(identity, 1)
        yield* sql`UPDATE operations SET timeline = timeline - 1 WHERE id = ${unread!}`

        yield* result === "begun" ? endWitness : unsettled
        const first = yield* compare([])
        assert.strictEqual(first.verification?.result, result)
        assert.isNull(yield* witness.releaseProven(first.epoch, first.expected.life))
        yield* settled
        const { epoch, expected: { life }, verification } = yield* compare([
          checkpointOf(first.epoch, first.expected.life)
        ])
        assert.strictEqual(verification?.result, "proven")
        assert.strictEqual(yield* witness.releaseProven(epoch, life), 0)
        assert.lengthOf(yield* queue.claim(provider, 9, terms), 0)
        for (const id of [waiting, held!]) assert.isFalse(yield* isUnsent(id))
        assert.deepInclude(yield* Effect.flip(queue.release(unread!)), { _tag: "StillHeld", reason: "unexamined" })

        yield* sql`UPDATE operations SET send_before = now() - interval '1 second' WHERE id = ${examined!}`
        yield* queue.release(examined!)
        const [claim] = yield* queue.claim(provider, 9, terms)
        assert.strictEqual(claim!.operation.id, examined!)
      })
  )

  it.effect("settles a minute after its witness began, and only in a life that was compared", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* endWitness
      assert.strictEqual((yield* compare([])).verification?.result, "begun")
      yield* sql`UPDATE ledger_home SET witnessed_since = now() - interval '50 seconds'`
      assert.strictEqual((yield* compare([])).verification?.result, "unsettled")
      yield* sql`UPDATE ledger_home SET witnessed_since = now() - interval '70 seconds', epoch_life = 'an earlier life'`
      assert.strictEqual((yield* compare([])).verification?.result, "unsettled", "the failover was within the minute")
      assert.strictEqual((yield* compare([])).verification?.result, "proven")
    }))

  it.effect("never counts a batch back, and forgets only those that no claim counted for an hour", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const witness = yield* makeSqlVerifications
      const sql = yield* SqlClient.SqlClient
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* compare([])
      const claimOne = Effect.gen(function*() {
        yield* acceptSeveral(identity, 1)
        const [claim] = yield* queue.claim(provider, 1, terms)
        return claim!.batch!
      })
      const first = yield* claimOne
      yield* claimOne
      const { epoch, verification } = yield* compare([first, missing(first.life)])
      assert.strictEqual(verification?.result, "missing")
      assert.strictEqual((yield* claimOne).batch, 3)

      const old = missing(first.life)
      yield* sql`INSERT INTO claim_batches (worker, life, provider, batch, updated_at)
        VALUES (${old.worker}, ${old.life}, ${old.provider}, 1, now() - interval '61 minutes')`
      const isThere = ({ worker, provider }: ClaimBatch) =>
        Effect.map(
          sql`SELECT FROM claim_batches WHERE worker = ${worker} AND provider = ${provider}`,
          ({ length }) => length === 1
        )
      yield* witness.forgetBatches(crypto.randomUUID())
      assert.isTrue(yield* isThere(old), "another epoch")
      yield* witness.forgetBatches(epoch)
      assert.isFalse(yield* isThere(old))
      assert.isTrue(yield* isThere(first))
    }))

  it.effect("is compared by one of several verifiers, and only as they saw it", () =>
    Effect.gen(function*() {
      const witness = yield* makeSqlVerifications
      const expected = yield* witness.readWitnessState
      const request = () => ({ expected, epoch: crypto.randomUUID(), batches: [], hadEpoch: true })
      const ends = yield* Effect.all(
        [witness.verify(request()), witness.verify(request()), witness.verify(request())],
        {
          concurrency: "unbounded"
        }
      )
      assert.lengthOf(ends.filter((end) => end !== null), 1)
      const now = yield* witness.readWitnessState
      assert.isNull(yield* witness.verify({ ...request(), expected: { ...now, life: "another life" } }))
      const proof = yield* compare([checkpointOf(now.epoch!, now.life)])
      assert.strictEqual(proof.verification?.result, "proven", "the checkpoint of a comparison is there")
    }))

  it.effect(
    "holds all if a batch is missing, and ends every claim, so that none is returned and sent later",
    () =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const witness = yield* makeSqlVerifications
        const sql = yield* SqlClient.SqlClient
        const { grant: { provider }, identity } = yield* issueAtNewProvider()
        const [, , free, underWay] = yield* acceptSeveral(identity, 4)
        const [sending, returned] = yield* queue.claim(provider, 2, terms)
        yield* queue.returnClaim(returned!, { ...returnTerms, delay: Duration.millis(1) })

        // A claim that commits while the comparison runs.
        const lost = missing((yield* witness.readWitnessState).life)
        const begun = yield* Latch.make()
        const comparison = yield* Effect.forkDetach(Effect.andThen(begun.await, compare([lost])))
        yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql`UPDATE operations SET state = 'submitting', revision = 2, send_before = now() + interval '30 seconds',
          due_at = now() + interval '90 seconds' WHERE id = ${underWay!}`
          yield* begun.open
          yield* untilWaiting(1)
        }))
        const { verification } = yield* Fiber.join(comparison)
        assert.strictEqual(verification?.result, "missing")
        assert.deepStrictEqual(verification?.missing, [{ ...lost, present: 0 }])

        for (const id of [sending!.operation.id, returned!.operation.id, underWay!]) {
          assert.strictEqual(yield* stateOf(id), "indeterminate")
        }
        assert.strictEqual(yield* stateOf(free!), "accepted")
        assert.lengthOf(yield* queue.claim(provider, 9, terms), 0)
        assert.lengthOf(yield* queue.claimReturned(provider, 9, terms), 0)
        const late = yield* Effect.flip(queue.returnClaim(sending!, returnTerms))
        assert.strictEqual(late._tag, "StaleOperation")
        assert.strictEqual((yield* compare([lost])).verification?.result, "proven", "it is accounted for")
        assert.strictEqual((yield* compare([{ ...lost, batch: 2 }])).verification?.result, "missing")
      })
  )

  it.effect("releases nothing by a command for all that began before the comparison ended", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const witness = yield* makeSqlVerifications
      const sql = yield* SqlClient.SqlClient
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* acceptSeveral(identity, 2)
      yield* failOver(provider)
      yield* sql`UPDATE ledger_home SET epoch_life = 'an earlier life'`
      const { life } = yield* witness.readWitnessState

      const isHeld = yield* Latch.make()
      const command = yield* Effect.forkDetach(Effect.andThen(isHeld.await, queue.releaseAll))
      yield* sql.withTransaction(Effect.gen(function*() {
        assert.strictEqual((yield* compare([missing(life)])).verification?.result, "missing")
        yield* isHeld.open
        yield* Effect.raceFirst(untilWaiting(1), Fiber.await(command))
      }))
      assert.strictEqual(yield* Fiber.join(command), 0)
      assert.lengthOf(yield* queue.claim(provider, 9, terms), 0)
      assert.isAtLeast(yield* queue.releaseAll, 2, "the operator has seen the comparison")
      assert.lengthOf(yield* queue.claim(provider, 9, terms), 2)
    }))

  it.effect("holds all if the witness has forgotten its epoch", () =>
    Effect.gen(function*() {
      const witness = yield* makeSqlVerifications
      const { identity } = yield* issueAtNewProvider()
      yield* acceptSeveral(identity, 1)
      const expected = yield* witness.readWitnessState
      const request = { expected, epoch: crypto.randomUUID(), batches: [], hadEpoch: false }
      assert.deepInclude(yield* witness.verify(request), { result: "unprovable" })
      assert.isAbove(
        (yield* witness.verify({
          ...request,
          expected: yield* witness.readWitnessState,
          epoch: crypto.randomUUID()
        }))!.held,
        0
      )
    }))
})
