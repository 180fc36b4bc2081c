/**
 * When the ledger lets a fence be sent: only for an indeterminate operation that no worker can send, and that may be sent. Its beginning is
 * recorded once. The tests run against PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Grants } from "../../../../src/services/Grants.ts"
import { issueAgain, outcome, PostgresLedger, queueConformance } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  pass,
  readTerms,
  recording,
  reference,
  standingLosses
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

/** An operation whose attempt has ended: it is indeterminate, and was sent until 30 seconds after its claim. */
const uncertain = Effect.gen(function*() {
  const queue = yield* Queue
  const { claim, ...claimed } = yield* claimedOperation()
  const { revision } = yield* queue.record(claimed.id, claim.revision, outcome("indeterminate"), recording())
  const take = Effect.map(
    Effect.andThen(pass("1 hour"), queue.takeReads(claimed.provider, 1, readTerms)),
    ([read]) => read!
  )
  return { ...claimed, take, due: { operation: claim.operation, revision } }
})

queueConformance("a fence", (it) => {
  it.effect("may be sent once send_before has passed by more than clocks may differ, and keeps its beginning", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { due, take } = yield* uncertain
      assert.isFalse(yield* queue.mayFence(due))
      const read = yield* take
      assert.isNull(read.fence_started_at)
      assert.isTrue(yield* queue.mayFence(read))
      const begun = (yield* take).fence_started_at
      assert.isNotNull(begun)
      assert.isTrue(yield* queue.mayFence(yield* take))
      assert.deepStrictEqual((yield* take).fence_started_at, begun)
    }))

  it.effect("may not be sent at send_before, when a clock that is slow may still send", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { due } = yield* uncertain
      const after = (seconds: number) => {
        const send_before = DateTime.subtract(due.operation.send_before!, { seconds })
        return queue.mayFence({ ...due, operation: { ...due.operation, send_before } })
      }
      yield* pass("30 seconds")
      const isAllowed = yield* after(30)
      const age = (yield* queue.readClock).epochMilliseconds - due.operation.send_before!.epochMilliseconds + 30_000
      // On a busy machine, more than the difference of clocks may have passed by then.
      if (age <= 5000) assert.isFalse(isAllowed)
      yield* pass("6 seconds")
      assert.isTrue(yield* after(36))
    }))

  it.effect("may not be sent of another revision, of another claim, or with a reference", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { take } = yield* uncertain
      const read = yield* take
      assert.isFalse(yield* queue.mayFence({ ...read, revision: read.revision - 1 }))
      const send_before = DateTime.subtract(read.operation.send_before!, { seconds: 1 })
      assert.isFalse(yield* queue.mayFence({ ...read, operation: { ...read.operation, send_before } }))
      assert.isFalse(yield* queue.mayFence({ ...read, operation: { ...read.operation, send_before: null } }))
      yield* queue.postpone(read.operation.id, read.revision, {
        due_in: recording().due_in,
        reference: reference("theirs")
      })
      assert.isFalse(yield* queue.mayFence(read))
    }))

  for (const state of ["submitted", "succeeded", "failed"] as const) {
    it.effect(`may not be sent of an operation that is ${state}`, () =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const { take } = yield* uncertain
        const read = yield* take
        const { revision } = yield* queue.record(read.operation.id, read.revision, outcome(state), recording())
        assert.isFalse(yield* queue.mayFence({ ...read, revision }))
      }))
  }

  for (const { lose, name, restore } of standingLosses) {
    it.effect(`may not be sent while ${name}`, () =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const { grant, take } = yield* uncertain
        const read = yield* take
        yield* lose(grant)
        assert.isFalse(yield* queue.mayFence(read))
        yield* restore(grant)
        assert.isTrue(yield* queue.mayFence(yield* take))
      }))
  }

  it.effect("may not be sent through a grant that lacks a scope of the accepting one, which permits a read", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const queue = yield* Queue
      const { grant, take } = yield* uncertain
      yield* grants.revoke(grant.grant_id)
      yield* issueAgain(grant, { scopes: ["payments:write" as never], expires_in: Duration.days(1) })
      assert.isFalse(yield* queue.mayFence(yield* take))
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("the database", (it) => {
  it.effect("refuses any other record of a fence", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const { due, id, take } = yield* uncertain
      const set = (value: string) =>
        Effect.flip(sql.unsafe(`UPDATE operations SET fence_started_at = ${value} WHERE id = $1`, [id])).pipe(
          Effect.map((error) => String((error.reason.cause as Error).message))
        )
      assert.match(yield* set("now()"), /only after its send_before/)
      const read = yield* take
      assert.isTrue(yield* queue.mayFence(read))
      for (const value of ["NULL", "now() + interval '1 day'"]) assert.match(yield* set(value), /keeps the beginning/)
      const other = yield* uncertain
      const { operation: { id: otherId }, revision } = yield* other.take
      yield* queue.record(otherId, revision, outcome("submitted"), recording())
      const error = yield* Effect.flip(sql`UPDATE operations SET fence_started_at = now() WHERE id = ${otherId}`)
      assert.match(String((error.reason.cause as Error).message), /only while it is indeterminate/)
      assert.strictEqual(due.revision, read.revision)
    }))
})
