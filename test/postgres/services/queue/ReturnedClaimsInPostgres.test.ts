/**
 * Row locks, triggers and the home of the ledger keep the rules of returned claims against other processes, other programs
 * and moves. The tests race real connections, and send raw SQL.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { accept, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  claimTerms,
  inspect,
  isAbout,
  issueAtNewProvider,
  returnTerms,
  takeOverIds,
  takeOverSoon
} from "../../../fixtures/ledger/Queue.ts"
import { Queue, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherQueue } from "../../../fixtures/postgres/Pools.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

const claimed = claimedOperation({}, { worker: "one" })

const now = { ...returnTerms, delay: Duration.zero }

const returned = Effect.tap(
  claimed,
  ({ claim }) => Effect.flatMap(Queue, (queue) => queue.returnClaim(claim, now))
)

layer(PostgresLedger, { excludeTestServices: true })("returned claims of several processes", (it) => {
  it.effect(
    "have one holder at most, when returns, repeated returns and take-overs race",
    () =>
      Effect.gen(function*() {
        const contexts = yield* Effect.all([anotherQueue(), anotherQueue(), anotherQueue()])
        const [one, two, three] = contexts.map(queueIn) as [Queue, Queue, Queue]
        const queues = [one, two, three] as const
        for (let round = 0; round < rounds(30, 100); round++) {
          const { claim: first, provider } = yield* claimed
          let [former, holder] = [first, first]
          for (let generation = 0; generation < 2; generation++) {
            const [returns, repeated, ...taken] = yield* Effect.all([
              Effect.exit(queues[0].returnClaim(holder, now)),
              // In the first generation both return the same claim.
              Effect.exit(queues[1].returnClaim(former, now)),
              ...queues.map((queue) => queue.claimReturned(provider, 1, claimTerms))
            ], { concurrency: "unbounded" })
            assert.strictEqual([returns, repeated].filter(({ _tag }) => _tag === "Success").length, 1)
            // The take-overs may have come before the return, or before the claim was due.
            const claims = taken.flat().length > 0 ? taken.flat() : [yield* takeOverSoon(provider)]
            assert.strictEqual(claims.length, 1)
            assert.isFalse(yield* queues[0].mayStillSend(holder))
            assert.isTrue(DateTime.isGreaterThan(claims[0]!.operation.send_before!, holder.operation.send_before!))
            former = holder
            holder = claims[0]!
          }
          assert.isTrue(yield* queues[0].mayStillSend(holder))
        }
      })
  )
})

layer(PostgresLedger, { excludeTestServices: true })("the trigger refuses", (it) => {
  const update = (id: string, change: string) => attempt("origin", `UPDATE operations SET ${change} WHERE id = '${id}'`)
  const refuses = Effect.fnUntraced(function*(id: string, changes: ReadonlyArray<string>, code = "23001") {
    for (const change of changes) assert.strictEqual(yield* update(id, change), code, change)
  })

  it.effect("a return that changes more than its reason, its next action and its review", () =>
    Effect.gen(function*() {
      const { id } = yield* claimed
      const others = [
        "send_before = send_before + interval '1 second'",
        "claimed_by = 'another'",
        "claimed_by = NULL",
        "waiting = true",
        "reads = reads + 1",
        "reviewed_at = now()",
        "reference = 'theirs'",
        "timeline = timeline + 1"
      ]
      yield* refuses(id, others.map((change) => `return_reason = 'x', ${change}`))
      assert.isArray(yield* update(id, "return_reason = 'x', due_at = now(), under_review = true"))
    }))

  it.effect("another reason, and a change of a returned claim that is no take-over", () =>
    Effect.gen(function*() {
      const { id } = yield* returned
      yield* refuses(id, [
        "return_reason = 'another'",
        "send_before = send_before + interval '1 second'",
        "claimed_by = 'another'"
      ])
      assert.isArray(yield* update(id, "due_at = now() + interval '1 minute', under_review = true"))
    }))

  it.effect("a take-over without a later send_before", () =>
    Effect.gen(function*() {
      const { id } = yield* returned
      yield* refuses(id, [
        "return_reason = NULL",
        "return_reason = NULL, send_before = send_before - interval '1 millisecond'",
        "return_reason = NULL, send_before = NULL",
        "return_reason = NULL, send_before = send_before + interval '1 second', timeline = timeline + 1"
      ])
      assert.isArray(yield* update(id, "return_reason = NULL, send_before = send_before + interval '1 millisecond'"))
    }))

  it.effect("a take-over of a claim from another timeline", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* returned
      yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_transition`
      yield* sql`UPDATE operations SET timeline = timeline - 1 WHERE id = ${id}`
      yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition`
      yield* refuses(id, ["return_reason = NULL, send_before = send_before + interval '1 second'"])
    }))

  it.effect("an earlier send_before of a claim that becomes indeterminate, and another one in every other transition", () =>
    Effect.gen(function*() {
      const { id } = yield* claimed
      const move = (state: string, send_before: string) =>
        `state = '${state}', revision = revision + 1, send_before = ${send_before}`
      yield* refuses(id, [
        move("indeterminate", "send_before - interval '1 second'"),
        move("indeterminate", "NULL"),
        move("submitted", "send_before + interval '1 second'"),
        move("succeeded", "send_before + interval '1 second'")
      ])
      assert.isArray(yield* update(id, move("indeterminate", "send_before + interval '1 second'")))
    }))

  it.effect("a returned operation in any other state, and a worker of an operation that nothing claimed", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* refuses(operation.id, ["return_reason = 'x'", "claimed_by = 'first'"], "23514")
      yield* refuses(operation.id, ["claimed_by = ''"], "23514")
      const { id } = yield* claimed
      yield* refuses(id, [`return_reason = ''`, `return_reason = '${"x".repeat(1025)}'`], "23514")
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("in another place", (it) => {
  // Another cluster, and new tables in the same database, as pg_restore --clean makes them.
  for (const move of ["system_identifier = system_identifier - 1", "operations_oid = 1"]) {
    it.effect(`nothing is taken over before a worker prepares; then all claims are indeterminate: ${move}`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const { claim, id, provider } = yield* returned
        const held = yield* claimed
        yield* sql.unsafe(`UPDATE ledger_home SET ${move}`)
        assert.deepStrictEqual(yield* takeOverIds(provider), [])
        assert.deepStrictEqual(yield* queue.prepare, { moved: true })
        const { revision, state } = yield* ledger.show(id)
        assert.deepStrictEqual([state, revision], ["indeterminate", 3])
        isAbout((yield* inspect(id)).send_before_in, Duration.minutes(5))
        assert.deepStrictEqual(yield* takeOverIds(provider), [])
        assert.isFalse(yield* queue.mayStillSend(claim))
        // A claim that a worker of the other place may have returned, and another one taken over and sent.
        assert.isFalse(yield* queue.mayStillSend(held.claim))
        assert.strictEqual((yield* ledger.show(held.id)).state, "indeterminate")
      }))

    it.effect(`a rescue before a worker prepares waits for a lost take-over, too: ${move}`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const queue = yield* Queue
        const { id } = yield* claimedOperation({}, { worker: "moved" })
        yield* sql.unsafe(`UPDATE ledger_home SET ${move}`)
        assert.strictEqual(yield* queue.rescueClaimsOf("moved"), 1)
        isAbout((yield* inspect(id)).send_before_in, Duration.minutes(5))
        assert.deepStrictEqual(yield* queue.prepare, { moved: true })
        const { id: later } = yield* claimedOperation({}, { worker: "moved" })
        assert.strictEqual(yield* queue.rescueClaimsOf("moved"), 1)
        isAbout((yield* inspect(later)).send_before_in, Duration.seconds(30))
      }))
  }

  it.effect("nothing is taken over on a database that could forget commits", () =>
    Effect.gen(function*() {
      const { provider } = yield* returned
      const careless = yield* anotherQueue({ startupParameters: { synchronous_commit: "off" } })
      assert.deepStrictEqual(yield* Effect.provideContext(takeOverIds(provider), careless), [])
      yield* takeOverSoon(provider)
    }))
})
