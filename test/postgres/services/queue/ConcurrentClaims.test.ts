/**
 * Claims, status reads and rescues of several processes never yield an operation twice, and wait for no locked row. The tests race real
 * connections to PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import type { ProviderName } from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { submittingStatement } from "../../../fixtures/ledger/Changes.ts"
import { fillQueue } from "../../../fixtures/ledger/FilledQueue.ts"
import { accept, newProvider, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimIds,
  claimTerms,
  heldOperation,
  issueAtNewProvider,
  pass,
  queued,
  takeIds
} from "../../../fixtures/ledger/Queue.ts"
import { Queue, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherQueue, inTime, openTransaction, terminate, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

const operations = rounds(1000, 10_000)
const races = rounds(60, 1000)

/** Takes work until none is left that meets the condition, and returns the ids. */
const drain = Effect.fnUntraced(
  function*(kind: "claim" | "claimReturned", provider: ProviderName, condition: string) {
    const sql = yield* SqlClient.SqlClient
    const queue = queueIn(yield* anotherQueue())
    const taken: Array<OperationId> = []
    while (true) {
      const claims = yield* queue[kind](provider, 1 + Math.floor(Math.random() * 40), claimTerms)
      taken.push(...claims.map(({ operation }) => operation.id))
      if (claims.length > 0) continue
      // Other processes may also have the remaining rows locked.
      const left = yield* sql.unsafe(`SELECT 1 FROM operations WHERE provider = $1 AND ${condition} LIMIT 1`, [
        provider
      ])
      if (left.length === 0) return taken
    }
  }
)

const assertOnce = (taken: ReadonlyArray<ReadonlyArray<OperationId>>, total: number) => {
  assert.lengthOf(taken.flat(), total)
  assert.strictEqual(new Set(taken.flat()).size, total)
  assert.isAbove(taken.filter((ids) => ids.length > 0).length, taken.length / 2, "most took a share")
}

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
        const claimers = Array.from({ length: 16 }, () => drain("claim", provider, "state = 'accepted'"))
        assertOnce(yield* Effect.all(claimers, { concurrency: "unbounded" }), total)
        const [history] = yield* sql`
        SELECT count(*)::int AS claims FROM operation_history h JOIN operations o ON o.id = h.operation_id
        WHERE o.provider = ${provider} AND to_state = 'submitting'`
        assert.deepStrictEqual(history, { claims: total })
      })
  )

  it.effect("take over each returned claim once: 2,000 claims, 8 workers", () =>
    Effect.gen(function*() {
      const { grant } = yield* issueAtNewProvider()
      yield* fillQueue(grant, { count: 2000, state: "submitting", returned: true })
      const workers = Array.from(
        { length: 8 },
        () => drain("claimReturned", grant.provider, "return_reason IS NOT NULL")
      )
      assertOnce(yield* Effect.all(workers, { concurrency: "unbounded" }), 2000)
    }))

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
      const hanging = yield* anotherQueue({ applicationName: "hanging" })
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
      const holding = yield* anotherQueue()
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

const due = (state: "submitting" | "submitted") =>
  Effect.gen(function*() {
    const issued = yield* issueAtNewProvider()
    const { id } = yield* queued(issued, state)
    yield* pass("1 hour")
    return { id, provider: issued.grant.provider }
  })

const rescued = Effect.flatMap(Queue, (queue) => queue.rescue(1000))

const kinds = {
  "a status read": Effect.map(due("submitted"), ({ id, provider }) => ({ id, take: takeIds("takeReads", provider) })),
  "an examination of a held operation": Effect.map(heldOperation, ({ id, provider }) => ({
    id,
    take: takeIds("takeHeld", provider)
  })),
  "a rescue": Effect.map(due("submitting"), ({ id }) => ({ id, take: rescued }))
}

layer(PostgresLedger, { excludeTestServices: true })("while its operation is locked", (it) => {
  for (const [name, scene] of Object.entries(kinds)) {
    it.effect(`${name} is left to the holder of the lock, and waits for nothing`, () =>
      Effect.gen(function*() {
        const { id, take } = yield* scene
        const run = yield* openTransaction
        yield* run("SELECT 1 FROM operations WHERE id = $1 FOR UPDATE", [id])
        assert.notInclude(yield* inTime(take), id)
        yield* run("COMMIT")
        assert.include(yield* take, id)
      }).pipe(Effect.scoped))
  }
})
