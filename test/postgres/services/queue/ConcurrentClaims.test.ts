/**
 * Claims of several processes never yield an operation twice, and wait for no other claim. The tests race real connections to
 * PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../../src/services/queue/SubmissionQueue.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { submittingStatement } from "../../../fixtures/ledger/Changes.ts"
import { fillQueue } from "../../../fixtures/ledger/FilledQueue.ts"
import { accept, newProvider, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimIds,
  claimTerms,
  issueAtNewProvider,
  pass,
  queued,
  takeIds
} from "../../../fixtures/ledger/Queue.ts"
import { Queue, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherPool, openTransaction, terminate, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

const operations = rounds(1000, 10_000)
const races = rounds(60, 1000)

/** The queue of another process, on a connection of its own. */
const anotherQueue = (applicationName = "another") =>
  Layer.build(
    Layer.fresh(SubmissionQueue.layer).pipe(
      Layer.provideMerge(anotherPool({ maxConnections: 1, multiplex: false, applicationName }))
    )
  )

layer(PostgresLedger, { excludeTestServices: true })("claims of several processes", (it) => {
  it.effect(
    `never yield an operation twice, and leave none: ${operations} operations of one client, 8 other clients, 16 claimers`,
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const provider = newProvider()
        const counts = [operations, ...Array.from({ length: 8 }, () => 40)]
        const total = operations + 8 * 40
        for (const count of counts) yield* fillQueue((yield* issueAtNewProvider({ provider })).grant, { count })
        const left = Effect.map(
          sql<{ readonly left: number }>`
          SELECT count(*)::int AS left FROM operations WHERE provider = ${provider} AND state = 'accepted'`,
          ([row]) => row!.left
        )
        const claimUntilNothingIsLeft = Effect.gen(function*() {
          const queue = queueIn(yield* anotherQueue())
          const claimed: Array<string> = []
          do {
            const claims = yield* queue.claim(provider, 1 + Math.floor(Math.random() * 40), claimTerms)
            claimed.push(...claims.map(({ operation }) => operation.id))
            // An empty claim may also mean that other claimers have the remaining rows locked.
            if (claims.length === 0 && (yield* left) === 0) break
          } while (true)
          return claimed
        })
        const claimed = yield* Effect.all(Array.from({ length: 16 }, () => claimUntilNothingIsLeft), {
          concurrency: "unbounded"
        })
        assert.lengthOf(claimed.flat(), total)
        assert.strictEqual(new Set(claimed.flat()).size, total)
        assert.isAbove(claimed.filter((ids) => ids.length > 0).length, 8, "most claimers took a share")
        const [history] = yield* sql`
        SELECT count(*)::int AS claims FROM operation_history h JOIN operations o ON o.id = h.operation_id
        WHERE o.provider = ${provider} AND to_state = 'submitting'`
        assert.deepStrictEqual(history, { claims: total })
      })
  )

  it.effect(`race with cancellations: exactly one wins, ${races} times`, () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const other = yield* anotherQueue()
      const { grant, identity } = yield* issueAtNewProvider()
      const wins = { cancel: 0, claim: 0 }
      for (let round = 0; round < races; round++) {
        const { operation: { id } } = yield* accept(identity)
        const cancel = Effect.map(Effect.result(ledger.cancel(id, null)), ({ _tag }) => _tag === "Success")
        const claim = Effect.map(Effect.provideContext(claimIds(grant.provider), other), (ids) => ids.includes(id))
        const [first, second] = yield* Effect.all(round % 2 === 0 ? [cancel, claim] : [claim, cancel], {
          concurrency: "unbounded"
        })
        const [cancelled, claimed] = round % 2 === 0 ? [first, second] : [second, first]
        assert.notStrictEqual(cancelled, claimed, `round ${round}`)
        wins[cancelled ? "cancel" : "claim"]++
        assert.strictEqual((yield* ledger.show(id)).state, cancelled ? "cancelled" : "submitting")
        assert.lengthOf(yield* ledger.history(id), 2)
      }
      assert.isAbove(wins.cancel, 0)
      assert.isAbove(wins.claim, 0)
    }))

  it.effect("do not wait for a claim that hangs before its commit, and neither do other statements", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const hanging = yield* anotherQueue("hanging")
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const other = yield* issueAtNewProvider({ provider })
      const { id: submitted } = yield* queued(issued, "submitted")
      const queues = [yield* acceptSeveral(issued.identity, 3), yield* acceptSeveral(other.identity, 3)]
      const taken = queues.flatMap((ids) => ids.slice(0, 2))
      yield* pass("1 hour")
      // Operations that the other tests left behind.
      yield* Effect.flatMap(Queue, (queue) => queue.rescue(100_000))
      const claimed = yield* Deferred.make<ReadonlyArray<string>>()
      const transaction = yield* Effect.forkScoped(
        Context.get(hanging, SqlClient.SqlClient).withTransaction(
          claimIds(provider, 4).pipe(
            Effect.flatMap((ids) => Deferred.succeed(claimed, ids)),
            Effect.andThen(Effect.never)
          )
        ).pipe(Effect.provideContext(hanging), Effect.exit)
      )
      assert.sameMembers([...yield* Deferred.await(claimed)], taken)
      assert.sameMembers(
        [...yield* claimIds(provider)],
        queues.flatMap((ids) => ids.slice(2)),
        "the next of each client"
      )
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [submitted])
      assert.deepStrictEqual(yield* Effect.flatMap(Queue, (queue) => queue.rescue(10)), [])
      assert.isTrue((yield* accept(issued.identity)).created)
      const [waiting] = yield* sql`
        SELECT count(*)::int AS waiting FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`
      assert.deepStrictEqual(waiting, { waiting: 0 })

      // A claim that was never committed took nothing.
      assert.strictEqual(yield* terminate("hanging"), 1)
      yield* Fiber.interrupt(transaction)
      const again: Array<string> = []
      while (again.length < 5) again.push(...yield* claimIds(provider))
      assert.includeMembers(again, taken)
    }))

  it.effect("end with a hold of all operations, also those for whose commit it waited", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const holding = yield* anotherQueue("holding")
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const run = yield* openTransaction
      yield* run(submittingStatement, [id])
      const hold = yield* Effect.forkChild(queueIn(holding).holdAll)
      yield* untilWaiting(1)
      yield* run("COMMIT")
      yield* Fiber.join(hold)
      assert.strictEqual((yield* ledger.show(id)).state, "indeterminate")
    }).pipe(Effect.scoped))
})
