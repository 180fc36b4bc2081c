/**
 * When the ledger lets a fence be sent: only once no worker can send its operation. Its beginning is recorded once. `QueueModel` has the
 * operations that may be fenced. The tests run against PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Exit, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { fieldsOf, outcome, PostgresLedger, queueConformance } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  claimTerms,
  late,
  pass,
  readTerms,
  recording,
  reference
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import { anotherPool, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

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

type Take = Effect.Success<typeof uncertain>["take"]

/** A fence that begins with a read. */
const fence = Effect.fnUntraced(function*(take: Take) {
  const queue = yield* Queue
  const read = yield* take
  const begun = (yield* queue.mayFence(read))!
  const { operation: { id }, revision } = read
  /** A status read that knows of the fence, after its answer. */
  const postpone = queue.postpone(id, revision, { ...recording(), fence_started_at: begun })
  return { id, revision, read, begun, postpone }
})
type Fence = Pick<Effect.Success<ReturnType<typeof fence>>, "id" | "revision">

/** A person who asked the provider at an instant ends an operation. */
const end = ({ id, revision }: Fence, state: "succeeded" | "failed", created_at: DateTime.Utc) =>
  OperationLedger.use((ledger) =>
    ledger.transition(id, revision, outcome(state), { by: "operator", ...evidenceOf({ created_at }) })
  )

const assertUnderWay = Effect.fnUntraced(function*(fence: Fence, asked: DateTime.Utc) {
  for (const state of ["succeeded", "failed"] as const) {
    const error = yield* Effect.flip(end(fence, state, asked))
    assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", reason: "evidence_refused" })
    assert.match(error.message, /may be under way until .* Try again after that/)
  }
})

queueConformance("a fence", (it) => {
  it.effect("may be sent once send_before has passed by more than clocks may differ, and keeps its beginning", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { due, take } = yield* uncertain
      assert.isNull(yield* queue.mayFence(due))
      const read = yield* take
      assert.isNull(read.fence_started_at)
      const begun = yield* queue.mayFence(read)
      assert.isNotNull(begun)
      assert.deepStrictEqual(yield* queue.mayFence(yield* take), begun)
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
      const begun = yield* after(30)
      const age = (yield* queue.readClock).epochMilliseconds - due.operation.send_before!.epochMilliseconds + 30_000
      // On a busy machine, more than the difference of clocks may have passed by then.
      if (age <= 5000) assert.isNull(begun)
      yield* pass("6 seconds")
      assert.isNotNull(yield* after(36))
    }))

  it.effect("refuses what a read from before its beginning found, which may be the order of the fence", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { take } = yield* uncertain
      const { begun, id, read: { fence_started_at }, revision } = yield* fence(take)
      const found = { ...recording(), reference: reference("of-the-fence"), fence_started_at }
      const refused = yield* Effect.flip(queue.record(id, revision, outcome("submitted"), found))
      assert.strictEqual(refused._tag, "StaleOperation")
      assert.deepStrictEqual(
        yield* queue.recordAll([{ id, revision, outcome: outcome("submitted"), recording: found }]),
        [false]
      )
      yield* queue.postpone(id, revision, found)
      const later = yield* take
      assert.deepInclude(later, { revision, reference: null, acknowledged: false })
      yield* queue.postpone(id, revision, { ...found, fence_started_at: begun })
      assert.isTrue((yield* take).acknowledged, "what was read after its beginning counts")
    }))

  it.effect("lets a person end its operation as failed only by an answer from after its last fence, also if that ended", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { take } = yield* uncertain
      const first = yield* fence(take)
      yield* first.postpone
      yield* assertUnderWay(first, yield* queue.readClock)
      yield* pass("2 minutes")
      const asked = yield* queue.readClock
      yield* (yield* fence(take)).postpone
      yield* pass("1 minute")
      const early = yield* Effect.flip(end(first, "failed", DateTime.subtract(asked, { hours: 1, minutes: 1 })))
      assert.include(early.message, "Cancel the order that waits under this key")
      const { id, revision } = first
      const other = ledger.transition(id, revision, outcome("failed"), { by: "batch job", answer: "never received" })
      assert.deepInclude(fieldsOf(yield* Effect.flip(other)), { _tag: "IllegalTransition", reason: "fenced" })
      yield* pass("1 minute")
      assert.strictEqual((yield* end(first, "failed", yield* queue.readClock)).state, "failed")
    }))

  it.effect("lets a person end its operation only after the lease of a reader that stopped, by an answer from after that", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const stopped = yield* fence((yield* uncertain).take)
      yield* assertUnderWay(stopped, stopped.begun)
      yield* pass("45 seconds")
      const early = yield* Effect.flip(end(stopped, "failed", DateTime.subtract(stopped.begun, { seconds: 45 })))
      assert.include(early.message, "could be sent")
      yield* pass("1 minute")
      assert.strictEqual((yield* end(stopped, "failed", yield* queue.readClock)).state, "failed")
    }))

  it.effect("fails only by a fence of that beginning until its provider names the order", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const ofPerson = (created_at: DateTime.Utc) => ({
        by: "operator",
        ...evidenceOf({ created_at }),
        reference_of: "answer"
      })
      const proofs = (begun: DateTime.Utc) => [
        { by: "fence", fence_started_at: DateTime.formatIso(begun) },
        { by: "fence", fence_started_at: DateTime.formatIso(DateTime.subtract(begun, { milliseconds: 1 })) },
        { by: "fence" },
        { by: "status_read", answer: { status: "canceled" } },
        { fence_started_at: DateTime.formatIso(begun) },
        // Below, the lease of the fence has ended 75 seconds ago. The clock of a person may be a minute ahead,
        ofPerson(DateTime.subtract(begun, { seconds: 30 })),
        ofPerson(begun),
        // and that of this one has not.
        ofPerson(begun)
      ]
      for (const acknowledged of [false, true]) {
        const settled: Array<boolean> = []
        for (const which of proofs(DateTime.makeUnsafe(0)).keys()) {
          const { begun: fence_started_at, id, revision } = yield* fence((yield* uncertain).take)
          const known = { ...recording(), fence_started_at, reference: reference("named") }
          const isRead = which === proofs(fence_started_at).length - 1
          if (!isRead) {
            yield* queue.postpone(id, revision, { ...known, reference: acknowledged ? known.reference : null })
            yield* pass("2 minutes")
          } else if (acknowledged) yield* queue.report(id, late(known.reference))
          const evidence = proofs(fence_started_at)[which]!
          const recorded = { ...recording(), evidence, fence_started_at }
          if (isRead) yield* Effect.flip(Effect.sandbox(queue.record(id, revision, outcome("succeeded"), recorded)))
          settled.push(Exit.isSuccess(yield* Effect.exit(queue.record(id, revision, outcome("failed"), recorded))))
        }
        assert.deepStrictEqual(
          settled,
          acknowledged
            ? [false, false, false, true, true, false, true, false]
            : [true, false, false, false, false, false, true, false]
        )
      }
    }))
})

queueConformance("the account of a claim, and how it was sent", (it) => {
  it.effect("are those of the last worker that could send, and a status read has them", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, id, provider } = yield* claimedOperation({}, { provider_account: "first", sent_as: "one" })
      yield* queue.returnClaim(claim, { reason: "no key", delay: Duration.zero, review_after: Duration.hours(1) })
      yield* pass("1 hour")
      const [taken] = yield* queue.claimReturned(provider, 1, {
        ...claimTerms,
        provider_account: "second",
        sent_as: "two"
      })
      yield* queue.record(id, taken!.revision, outcome("indeterminate"), recording())
      yield* pass("1 hour")
      assert.deepInclude((yield* queue.takeReads(provider, 1, readTerms))[0], {
        provider_account: "second",
        sent_as: "two"
      })
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("the database", (it) => {
  it.effect("keeps the account of a claim that may have been sent, and forgets how it was sent alone", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const operation of [uncertain, claimedOperation()]) {
        const { id } = yield* operation
        for (const column of ["provider_account", "sent_as"]) {
          const error = yield* Effect.flip(sql`UPDATE operations SET ${sql(column)} = 'other' WHERE id = ${id}`)
          assert.match(String((error.reason.cause as Error).message), /changes only with a claim/)
        }
        yield* sql`UPDATE operations SET sent_as = NULL WHERE id = ${id}`
      }
    }))

  it.effect("keeps nothing of how it was sent once a claim is returned, since an older version may take it over", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const { claim, id } = yield* claimedOperation({}, { sent_as: "one" })
      const sentAs = sql`SELECT sent_as FROM operations WHERE id = ${id}`
      assert.deepStrictEqual(yield* sentAs, [{ sent_as: "one" }])
      yield* queue.returnClaim(claim, { reason: "no key", delay: Duration.zero, review_after: Duration.hours(1) })
      assert.deepStrictEqual(yield* sentAs, [{ sent_as: null }])
    }))

  it.effect("keeps a person from ending a fenced operation whose fence is sent meanwhile", () =>
    Effect.gen(function*() {
      const fenced = yield* fence((yield* uncertain).take)
      yield* fenced.postpone
      yield* pass("1 minute")
      const run = yield* openTransaction
      yield* run("UPDATE operations SET fencing_until = due_at WHERE id = $1", [fenced.id])
      const ended = yield* Effect.forkChild(Effect.flip(end(fenced, "succeeded", fenced.begun)))
      yield* Effect.provide(untilWaiting(1), anotherPool({ maxConnections: 1 }))
      yield* run("COMMIT")
      assert.include((yield* Fiber.join(ended)).message, "may be under way until")
    }))

  it.effect("refuses any other record of a fence", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const { due, id, take } = yield* uncertain
      const set = (value: string, of = id) =>
        Effect.flip(sql.unsafe(`UPDATE operations SET fence_started_at = ${value} WHERE id = $1`, [of])).pipe(
          Effect.map((error) => String((error.reason.cause as Error).message))
        )
      assert.match(yield* set("now()"), /is sent only after its send_before/)
      const read = yield* take
      assert.isNotNull(yield* queue.mayFence(read))
      for (const value of ["NULL", "now() + interval '1 day'"]) assert.match(yield* set(value), /keeps the beginning/)
      for (const value of ["NULL", "fencing_until - interval '1 ms'"]) {
        assert.match(yield* set(`fence_started_at, fencing_until = ${value}`), /recorded until the end of the lease/)
      }
      yield* pass("1 minute")
      assert.match(yield* set("fence_started_at, fencing_until = now() + interval '1 day'"), /sent only by its reader/)
      const other = yield* uncertain
      const { operation: { id: otherId }, revision } = yield* other.take
      yield* queue.record(otherId, revision, outcome("submitted"), recording())
      const error = yield* Effect.flip(sql`UPDATE operations SET fence_started_at = now() WHERE id = ${otherId}`)
      assert.match(String((error.reason.cause as Error).message), /is sent only while it is indeterminate/)

      const begin = "now(), fencing_until = due_at"
      const hinted = yield* uncertain
      yield* hinted.take
      assert.match(yield* set(`${begin}, hinted_at = now()`, hinted.id), /is sent only while it is indeterminate/)
      const had = yield* uncertain
      const { revision: before } = yield* had.take
      const acknowledged = yield* queue.record(had.id, before, outcome("submitted"), recording())
      yield* queue.record(had.id, acknowledged.revision, outcome("indeterminate"), recording())
      yield* had.take
      assert.match(yield* set(begin, had.id), /is sent only while it is indeterminate/)
      assert.strictEqual(due.revision, read.revision)
    }))
})
