/**
 * Claims of several processes never yield an operation twice, and none succeeds after consent was revoked. The tests
 * race real connections to PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { submittingStatement } from "../../fixtures/Changes.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { fillQueue } from "../../fixtures/FilledQueue.ts"
import { accept, PostgresLedger } from "../../fixtures/Ledger.ts"
import { anotherPool, anotherProcess, openTransaction, terminate, untilWaiting } from "../../fixtures/Pools.ts"
import { acceptSeveral, claimIds, claimTerms, issueAtNewProvider, pass, queued, takeIds } from "../../fixtures/Queue.ts"
import { Queue, queueIn } from "../../fixtures/QueueServices.ts"

const operations = rounds(2000, 10_000)
const races = rounds(200, 1000)

/** The queue of another process, on a connection of its own. */
const anotherQueue = (applicationName = "another") =>
  Layer.build(
    Layer.fresh(SubmissionQueue.layer).pipe(
      Layer.provideMerge(anotherPool({ maxConnections: 1, multiplex: false, applicationName }))
    )
  )

layer(PostgresLedger, { excludeTestServices: true })("claims of several processes", (it) => {
  it.effect(`never yield an operation twice: ${operations} operations, 16 claimers`, () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant } = yield* issueAtNewProvider()
      yield* fillQueue(grant, { count: operations })
      const left = Effect.map(
        sql<{ readonly left: number }>`
          SELECT count(*)::int AS left FROM operations WHERE provider = ${grant.provider} AND state = 'accepted'`,
        ([row]) => row!.left
      )
      const claimUntilNothingIsLeft = Effect.gen(function*() {
        const queue = queueIn(yield* anotherQueue())
        const claimed: Array<string> = []
        do {
          const claims = yield* queue.claim(grant.provider, 1 + Math.floor(Math.random() * 40), claimTerms)
          claimed.push(...claims.map(({ operation }) => operation.id))
          // An empty claim may also mean that other claimers have the remaining rows locked.
          if (claims.length === 0 && (yield* left) === 0) break
        } while (true)
        return claimed
      })
      const claimed = yield* Effect.all(Array.from({ length: 16 }, () => claimUntilNothingIsLeft), {
        concurrency: "unbounded"
      })
      assert.strictEqual(claimed.flat().length, operations)
      assert.strictEqual(new Set(claimed.flat()).size, operations)
      assert.isAbove(claimed.filter((ids) => ids.length > 0).length, 8, "most claimers took a share")
      const [history] = yield* sql`
        SELECT count(*)::int AS claims FROM operation_history h JOIN operations o ON o.id = h.operation_id
        WHERE o.provider = ${grant.provider} AND to_state = 'submitting'`
      assert.deepStrictEqual(history, { claims: operations })
    }), 120_000)

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
    }), 120_000)

  const endings: Readonly<Record<string, (grant: Grant) => Effect.Effect<unknown, unknown, Grants>>> = {
    "a revocation": ({ grant_id }) => Grants.use((grants) => grants.revoke(grant_id)),
    "a disconnection": ({ provider_connection_id }) =>
      Grants.use((grants) => grants.setProviderConnected(provider_connection_id, false)),
    "the deactivation of a client": ({ client_id }) => Grants.use((grants) => grants.setClientActive(client_id, false))
  }
  for (const [name, end] of Object.entries(endings)) {
    it.effect(`never succeed when they start after ${name}, while others are under way`, () =>
      Effect.gen(function*() {
        const others = yield* Effect.all(Array.from({ length: 3 }, () => anotherQueue()))
        for (let round = 0; round < rounds(5, 15); round++) {
          const { grant } = yield* issueAtNewProvider()
          yield* fillQueue(grant, { count: 300 })
          let ended = false
          const claiming = yield* Deferred.make<void>()
          const claimers = yield* Effect.forkChild(Effect.forEach(
            others,
            Effect.fnUntraced(function*(other) {
              while (true) {
                const before = ended
                const claimed = yield* Effect.provideContext(claimIds(grant.provider, 1), other)
                yield* Deferred.succeed(claiming, void 0)
                if (before) return assert.deepStrictEqual(claimed, [])
              }
            }),
            { concurrency: "unbounded", discard: true }
          ))
          yield* Deferred.await(claiming)
          yield* end(grant)
          ended = true
          yield* Fiber.join(claimers)
        }
      }))
  }

  it.effect("do not wait for a claim that hangs before its commit, and neither do other statements", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const hanging = yield* anotherQueue("hanging")
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const { id: submitted } = yield* queued(issued, "submitted")
      const ids = yield* acceptSeveral(issued.identity, 6)
      yield* pass("1 hour")
      // Operations that the other tests left behind.
      yield* Effect.flatMap(Queue, (queue) => queue.rescue(100_000))
      const claimed = yield* Deferred.make<ReadonlyArray<string>>()
      const other = Context.get(hanging, SqlClient.SqlClient)
      const transaction = yield* Effect.forkScoped(
        other.withTransaction(
          claimIds(provider, 4).pipe(
            Effect.flatMap((ids) => Deferred.succeed(claimed, ids)),
            Effect.andThen(Effect.never)
          )
        ).pipe(Effect.provideContext(hanging), Effect.exit)
      )
      assert.sameMembers([...yield* Deferred.await(claimed)], ids.slice(0, 4))
      assert.sameMembers([...yield* claimIds(provider)], ids.slice(4))
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
      assert.includeMembers(again, ids.slice(0, 4))
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

  it.effect("make a cancellation wait for their commit, and the cancellation is then too late", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const hanging = yield* anotherQueue("claiming")
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const claimed = yield* Deferred.make<void>()
      const commit = yield* Deferred.make<void>()
      const transaction = yield* Effect.forkScoped(
        Context.get(hanging, SqlClient.SqlClient).withTransaction(
          claimIds(grant.provider).pipe(
            Effect.andThen(Deferred.succeed(claimed, void 0)),
            Effect.andThen(Deferred.await(commit))
          )
        ).pipe(Effect.provideContext(hanging))
      )
      yield* Deferred.await(claimed)
      // On a connection of its own: otherwise the query for waiting sessions could wait behind it.
      const operator = yield* Layer.build(anotherProcess({ maxConnections: 1 }))
      const cancellation = yield* Effect.forkScoped(
        Effect.flip(Context.get(operator, OperationLedger).cancel(id, null))
      )
      yield* untilWaiting(1)
      yield* Deferred.succeed(commit, void 0)
      yield* Fiber.join(transaction)
      const error = yield* Fiber.join(cancellation)
      assert.strictEqual(error._tag, "IllegalTransition")
      assert.strictEqual((yield* ledger.show(id)).state, "submitting")
    }))
})
