/**
 * A hint moves the next status read of an operation to now, at most once an interval, and changes nothing else. The tests run
 * against PostgreSQL and the memory store. One that only PostgreSQL can hold tries its trigger.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { mostHinted } from "../../../../src/services/queue/StatusReads.ts"
import {
  conformance,
  newProvider,
  nextMillisecond,
  outcome,
  PostgresLedger,
  unknownId
} from "../../../fixtures/ledger/Ledger.ts"
import {
  claimIds,
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  recording,
  reference,
  takeIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

const interval = Duration.minutes(2)
/** The delay that the tests give the next read: much longer than the interval. */
const hour = Duration.hours(1)
const hint = (provider: Parameters<Queue["hint"]>[0], operation_id: OperationId) =>
  Effect.flatMap(Queue, (queue) => queue.hint(provider, { operation_id }, interval))

/** A new operation in this state whose status is read in an hour. */
const readInAnHour = Effect.fnUntraced(function*(state: "submitted" | "indeterminate", given: string | null = null) {
  const queue = yield* Queue
  const issued = yield* issueAtNewProvider()
  const operation = yield* queued(issued, state)
  const postpone = queue.postpone(operation.id, operation.revision, {
    due_in: hour,
    reference: given === null ? null : reference(given)
  })
  yield* postpone
  return { ...operation, ...issued, provider: issued.grant.provider, postpone }
})

conformance("a hint", (it) => {
  for (const state of ["submitted", "indeterminate"] as const) {
    it.effect(`makes the status read of an operation that is ${state} due at once, and changes nothing else`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { id, provider } = yield* readInAnHour(state)
        const look = Effect.all([ledger.show(id), ledger.history(id), inspect(id)])
        const [operation, history, interior] = yield* look
        assert.deepStrictEqual(yield* takeIds("takeReads", provider), [])
        assert.strictEqual(yield* hint(provider, id), "due")
        const [after, historyAfter, interiorAfter] = yield* look
        assert.deepStrictEqual([after, historyAfter], [operation, history])
        const timeless = { due_in: null, send_before_in: null, hinted_in: null }
        assert.deepStrictEqual({ ...interiorAfter, ...timeless }, { ...interior, ...timeless })
        assert.deepStrictEqual(yield* takeIds("takeReads", provider), [id])
      }))
  }

  it.effect("about an operation with nothing to read, of another provider or unknown changes nothing", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, provider } = yield* readInAnHour("submitted", "theirs")
      assert.strictEqual(yield* hint(newProvider(), id), "ignored")
      assert.strictEqual(yield* queue.hint(newProvider(), { reference: reference("theirs") }, interval), "ignored")
      assert.strictEqual(yield* hint(provider, unknownId), "ignored")
      assert.strictEqual(yield* queue.hint(provider, { reference: reference("another") }, interval), "ignored")
      isAbout((yield* inspect(id)).due_in, hour)
      const issued = yield* issueAtNewProvider()
      for (const state of ["accepted", "succeeded", "failed", "cancelled"] as const) {
        const { id } = yield* queued(issued, state)
        const before = yield* inspect(id)
        assert.strictEqual(yield* hint(issued.grant.provider, id), "ignored", state)
        const after = yield* inspect(id)
        assert.strictEqual(after.due_in === null, before.due_in === null)
        // An accepted one would be claimed at another time.
        assert.closeTo(after.due_in ?? 0, before.due_in ?? 0, 5000)
      }
    }))

  it.effect("by reference finds all operations of the provider with it, up to a hundred", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const given = reference(`theirs-of-${provider}`)
      const ids: Array<OperationId> = []
      for (let n = 0; n < mostHinted + 2; n++) {
        const { id, revision } = yield* queued(issued, "submitted")
        yield* queue.postpone(id, revision, { due_in: hour, reference: given })
        ids.push(id)
      }
      assert.strictEqual(yield* queue.hint(provider, { reference: given }, interval), "due")
      const taken = yield* takeIds("takeReads", provider, 1000)
      assert.lengthOf(taken, mostHinted)
      assert.isEmpty(taken.filter((id) => !ids.includes(id)))
    }))

  it.effect("that follows another too soon moves the read to the end of the interval", () =>
    Effect.gen(function*() {
      const { id, postpone, provider } = yield* readInAnHour("submitted")
      assert.strictEqual(yield* hint(provider, id), "due")
      assert.strictEqual(yield* hint(provider, id), "ignored", "the read is due already")
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [id])
      yield* postpone
      isAbout((yield* inspect(id)).due_in, hour)
      // The provider may have decided after the read: this hint counts, too.
      assert.strictEqual(yield* hint(provider, id), "noted")
      isAbout((yield* inspect(id)).due_in, interval)
      assert.strictEqual(yield* hint(provider, id), "ignored")
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [])
      yield* pass(interval)
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [id])
      yield* postpone
      yield* pass(interval)
      assert.strictEqual(yield* hint(provider, id), "due")
    }))

  it.effect("never delays a read", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, provider, revision } = yield* readInAnHour("submitted")
      yield* hint(provider, id)
      yield* takeIds("takeReads", provider)
      yield* queue.postpone(id, revision, { due_in: Duration.seconds(30), reference: null })
      assert.strictEqual(yield* hint(provider, id), "ignored")
      isAbout((yield* inspect(id)).due_in, Duration.seconds(30))
    }))

  it.effect("during a submission makes the first read due when the outcome is recorded", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      for (const state of ["submitted", "indeterminate"] as const) {
        for (const isHinted of [true, false]) {
          const { id, revision } = yield* queued(issued, "submitting")
          const { due_in } = yield* inspect(id)
          if (isHinted) {
            assert.strictEqual(yield* hint(provider, id), "noted")
            assert.strictEqual(yield* hint(provider, id), "ignored")
          }
          assert.closeTo((yield* inspect(id)).due_in!, due_in!, 5000, "the claim is rescued at its time")
          yield* queue.record(id, revision, outcome(state), recording({ due_in: hour }))
          yield* nextMillisecond
          assert.deepStrictEqual(yield* takeIds("takeReads", provider), isHinted ? [id] : [])
        }
      }
    }))

  it.effect("during a read starts no second one, and makes the next read due when this one is recorded", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const record = (id: OperationId, revision: number, to: "submitted" | "indeterminate") =>
        queue.record(id, revision, outcome(to), recording({ due_in: hour }))
      for (
        const [state, end] of [
          ["submitted", "postpone"],
          ["indeterminate", "postpone"],
          ["submitted", "record"],
          ["indeterminate", "record"]
        ] as const
      ) {
        const { id, postpone, provider, revision } = yield* readInAnHour(state)
        yield* pass(hour)
        assert.deepStrictEqual(yield* takeIds("takeReads", provider), [id])
        assert.strictEqual(yield* hint(provider, id), "noted")
        assert.strictEqual(yield* hint(provider, id), "ignored")
        assert.deepStrictEqual(yield* takeIds("takeReads", provider), [], "one read at a time")
        yield* end === "postpone"
          ? postpone
          : record(id, revision, state === "submitted" ? "indeterminate" : "submitted")
        yield* nextMillisecond
        assert.deepStrictEqual(yield* takeIds("takeReads", provider), [id])
        // The hint has led to its read.
        const { revision: now } = yield* OperationLedger.use((ledger) => ledger.show(id))
        yield* queue.postpone(id, now, { due_in: hour, reference: null })
        isAbout((yield* inspect(id)).due_in, hour)
      }
    }))

  it.effect("makes the examination of a held operation due, and leaves a released one alone", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, provider } = yield* heldOperation
      yield* waitOut(provider)
      const [read] = yield* queue.takeHeld(provider, 1, readTerms)
      const { send_before } = read!.operation
      yield* queue.postpone(id, 1, { due_in: hour, reference: null, send_before })
      assert.strictEqual(yield* hint(provider, id), "due")
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
      yield* queue.postpone(id, 1, { due_in: hour, reference: null, send_before })
      yield* queue.release(id)
      assert.strictEqual(yield* hint(provider, id), "ignored")
      assert.deepStrictEqual(yield* claimIds(provider), [id])
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("in PostgreSQL, a hint", (it) => {
  it.effect("changes two columns of the row, and takes no position of the change feed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { id, provider } = yield* readInAnHour("submitted")
      const row = Effect.map(
        sql<
          Record<string, unknown>
        >`SELECT to_jsonb(o) - 'due_at' - 'hinted_at' AS row FROM operations o WHERE id = ${id}`,
        ([found]) => found
      )
      const before = yield* row
      assert.strictEqual(yield* hint(provider, id), "due")
      assert.deepStrictEqual(yield* row, before)
    }))

  it.effect("is refused by the trigger if it carries a state, a review or another value, or delays the next action", () =>
    Effect.gen(function*() {
      const { id } = yield* readInAnHour("indeterminate")
      const refused = [
        `state = 'succeeded', revision = revision + 1, evidence = '{"by": "webhook"}'`,
        "under_review = true",
        "reference = 'theirs'",
        "reads = reads + 1",
        "waiting = true",
        "reviewed_at = now()",
        "reading_since = now()",
        "due_at = due_at + interval '1 second'"
      ]
      for (const change of refused) {
        const statement = `UPDATE operations SET hinted_at = now(), ${change} WHERE id = '${id}'`
        assert.strictEqual(yield* attempt("origin", statement), "23001", change)
      }
      assert.isArray(
        yield* attempt("origin", `UPDATE operations SET hinted_at = now(), due_at = now() WHERE id = '${id}'`)
      )
      const { id: claimed } = yield* queued(yield* issueAtNewProvider(), "submitting")
      const rescue = `UPDATE operations SET hinted_at = now(), due_at = now() WHERE id = '${claimed}'`
      assert.strictEqual(yield* attempt("origin", rescue), "23001")
    }))
})
