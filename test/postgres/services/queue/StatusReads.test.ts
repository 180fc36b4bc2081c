/**
 * What a status read yields, and what a hint changes. `QueueModel` has which reads are due, and when. The tests run against PostgreSQL and
 * the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { mostHinted } from "../../../../src/services/queue/StatusReads.ts"
import { accept, fieldsOf, nextMillisecond, PostgresLedger, queueConformance } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimIds,
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  reference,
  takeIds
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

const [interval, hour] = [Duration.minutes(2), Duration.hours(1)]

queueConformance("a status read that is due", (it) => {
  for (const state of ["submitted", "indeterminate"] as const) {
    it.effect(`is taken for an operation that is ${state}, with all that the read needs, and changes no state`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const issued = yield* issueAtNewProvider()
        const { grant } = issued
        const { id, revision } = yield* queued(issued, state)
        yield* queue.postpone(id, revision, { due_in: Duration.minutes(1), reference: reference("theirs") })
        assert.deepStrictEqual(yield* takeIds("takeReads", grant.provider), [], "it is not due yet")
        yield* pass("1 minute")
        const before = yield* ledger.show(id)
        const [read, ...others] = yield* queue.takeReads(grant.provider, 10, readTerms)
        assert.isEmpty(others)
        const { created_at, operation, taken_at, ...rest } = read!
        const now = yield* queue.readClock
        isAbout(taken_at.epochMilliseconds - now.epochMilliseconds, Duration.zero)
        assert.deepStrictEqual(rest, {
          provider: grant.provider,
          state,
          revision,
          reference: reference("theirs"),
          acknowledged: true,
          reads: 1,
          fence_started_at: null,
          provider_account: null,
          sent_as: null
        })
        assert.deepStrictEqual(created_at, before.created_at)
        assert.deepStrictEqual({ ...operation, send_before: null }, {
          id,
          type: "payment",
          resource_owner: grant.resource_owner,
          provider_connection_id: grant.provider_connection_id,
          send_before: null
        })
        isAbout(operation.send_before!.epochMilliseconds - Date.now(), Duration.seconds(-30))
        assert.deepStrictEqual(yield* ledger.show(id), before)
      }))
  }

  it.effect("is taken for a held operation as after a new claim, and puts it under review", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { grant, id, provider } = yield* heldOperation
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [])
      const [read, ...others] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.isEmpty(others)
      const { created_at: _, operation, taken_at, ...rest } = read!
      isAbout(taken_at.epochMilliseconds - Date.now(), Duration.zero)
      assert.deepStrictEqual(rest, {
        provider,
        state: "accepted",
        revision: 1,
        reference: null,
        acknowledged: false,
        reads: 1,
        fence_started_at: null,
        provider_account: null,
        sent_as: null
      })
      assert.deepInclude(operation, {
        id,
        resource_owner: grant.resource_owner,
        provider_connection_id: grant.provider_connection_id
      })
      isAbout(operation.send_before!.epochMilliseconds - Date.now(), readTerms.rescue_after)
      assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review: true })
      isAbout((yield* inspect(id)).due_in, readTerms.lease)
      const refused = fieldsOf(yield* Effect.flip(queue.release(id)))
      assert.deepInclude(refused, { _tag: "StillHeld", id, reason: "sendable", until: operation.send_before })
    }))

  it.effect("can have the payload of its operation, for a provider that is asked about something else", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const payload = { consent: "7", to: ["ünïcode", null] }
      const { operation } = yield* accept(issued.identity, { payload })
      assert.deepStrictEqual(yield* queue.payloadOf({ operation }), payload)
    }))

  it.effect("leaves the review of aged operations to a sweep, up to the limit", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      for (let n = 0; n < 5; n++) yield* queued(issued, "submitted")
      yield* pass("4 days")
      const age = readTerms.review_submitted_after
      const review = queue.reviewAged(3, { accepted: age, submitted: age, indeterminate: age })
      assert.strictEqual(yield* review, 3)
      assert.isAbove(yield* review, 0)
    }))

  it.effect("is due by a hint, whose reference finds all operations of the provider with it, up to a hundred", () =>
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
        if (n < 2) yield* nextMillisecond
      }
      assert.strictEqual(yield* queue.hint(provider, { reference: given }, interval), "due")
      assert.sameMembers([...yield* takeIds("takeReads", provider, 1000)], ids.slice(2), "those that changed last")
    }))
})

/** A new operation in this state whose status is read in an hour. */
const readInAnHour = Effect.fnUntraced(function*(state: "submitted" | "indeterminate") {
  const queue = yield* Queue
  const issued = yield* issueAtNewProvider()
  const { id, revision } = yield* queued(issued, state)
  yield* queue.postpone(id, revision, { due_in: hour, reference: null })
  return { id, hint: queue.hint(issued.grant.provider, { operation_id: id }, interval) }
})

layer(PostgresLedger, { excludeTestServices: true })("in PostgreSQL, a hint", (it) => {
  it.effect("changes two columns of the row, and takes no position of the change feed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { hint, id } = yield* readInAnHour("submitted")
      const row = Effect.map(
        sql<
          Record<string, unknown>
        >`SELECT to_jsonb(o) - 'due_at' - 'hinted_at' AS row FROM operations o WHERE id = ${id}`,
        ([found]) => found
      )
      const before = yield* row
      assert.strictEqual(yield* hint, "due")
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
