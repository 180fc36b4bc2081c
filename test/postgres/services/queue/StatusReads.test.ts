/**
 * A status read is due on schedule, is leased to one reader and changes no state, and age puts an operation under
 * review. The tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import {
  accept,
  expiredIn,
  issueAgain,
  newProvider,
  newSubject,
  outcome,
  queueConformance
} from "../../../fixtures/ledger/Ledger.ts"
import {
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  recording,
  reference,
  standingLosses,
  takeIds
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

const states = ["submitted", "indeterminate"] as const

const ages = {
  accepted: Duration.hours(1),
  submitted: readTerms.review_submitted_after,
  indeterminate: readTerms.review_indeterminate_after
}

const sweep = Effect.flatMap(Queue, (queue) => queue.reviewAged(1000, ages))

queueConformance("a status read that is due", (it) => {
  for (const state of states) {
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
          provider_account: null
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

  it.effect("can have the payload of its operation, for a provider that is asked about something else", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const payload = { consent: "7", to: ["ünïcode", null] }
      const { operation } = yield* accept(issued.identity, { payload })
      assert.deepStrictEqual(yield* queue.payloadOf({ operation }), payload)
    }))

  it.effect("is taken for no operation in another state, at any age", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      for (const state of ["accepted", "submitting", "succeeded", "failed", "cancelled"] as const) {
        yield* queued(issued, state)
        yield* pass("1 day")
        assert.deepStrictEqual(yield* takeIds("takeReads", issued.grant.provider), [], state)
      }
    }))

  it.effect("belongs to one reader for the lease, and is due again after it", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "submitted")
      const take = takeIds("takeReads", issued.grant.provider)
      yield* pass("1 hour")
      assert.deepStrictEqual(yield* take, [id])
      isAbout((yield* inspect(id)).due_in, readTerms.lease)
      yield* pass("43 seconds")
      assert.deepStrictEqual(yield* take, [])
      yield* pass("2 seconds")
      assert.deepStrictEqual(yield* take, [id])
    }))

  it.effect("is taken in the order of due times, up to the limit, of the named provider", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const ids: Array<OperationId> = []
      for (const minutes of [4, 1, 3, 2]) {
        const { id, revision } = yield* queued(issued, "submitted")
        yield* queue.postpone(id, revision, { due_in: Duration.minutes(minutes), reference: null })
        ids[minutes - 1] = id
      }
      yield* pass("1 hour")
      assert.deepStrictEqual(yield* takeIds("takeReads", newProvider()), [])
      assert.sameMembers([...yield* takeIds("takeReads", provider, 3)], ids.slice(0, 3))
      assert.sameMembers([...yield* takeIds("takeReads", provider, 3)], ids.slice(3))
    }))

  for (const { lose, name, restore } of standingLosses) {
    it.effect(`is postponed while ${name}, and taken once that is over`, () =>
      Effect.gen(function*() {
        const issued = yield* issueAtNewProvider()
        const { grant } = issued
        const { id } = yield* queued(issued, "indeterminate")
        yield* pass("1 hour")
        yield* lose(grant)
        const take = takeIds("takeReads", grant.provider)
        assert.deepStrictEqual(yield* take, [])
        assert.strictEqual((yield* inspect(id)).reads, 0, "nothing was read")
        isAbout((yield* inspect(id)).due_in, readTerms.idle)
        yield* restore(grant)
        assert.deepStrictEqual(yield* take, [])
        yield* pass(readTerms.idle)
        assert.deepStrictEqual(yield* take, [id])
      }))
  }

  it.effect("continues through a new grant, and not through one of another subject or an expired one", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const issued = yield* issueAtNewProvider()
      const { grant } = issued
      const { id } = yield* queued(issued, "indeterminate")
      const take = Effect.andThen(pass("1 hour"), takeIds("takeReads", grant.provider))
      yield* grants.revoke(grant.grant_id)
      yield* issueAgain(grant, { subject: newSubject() })
      yield* issueAgain(grant, { expires_in: expiredIn })
      assert.deepStrictEqual(yield* take, [])
      yield* issueAgain(grant, { expires_in: Duration.days(1) })
      assert.deepStrictEqual(yield* take, [id])
    }))

  for (
    const [state, age, before] of [["submitted", "3 days", "71 hours"], [
      "indeterminate",
      "15 minutes",
      "14 minutes"
    ]] as const
  ) {
    it.effect(`of an operation that is ${state} for ${age} puts it under review, and never changes its state`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const issued = yield* issueAtNewProvider()
        const { id } = yield* queued(issued, state)
        const look = Effect.andThen(takeIds("takeReads", issued.grant.provider), ledger.show(id))
        yield* pass(before)
        assert.deepInclude(yield* look, { state, under_review: false })
        yield* pass("1 hour")
        assert.deepInclude(yield* look, { state, under_review: true })
        yield* pass("3650 days")
        assert.deepInclude(yield* look, { state, under_review: true, revision: 3 })

        yield* ledger.review(id, false)
        yield* pass(before)
        assert.deepInclude(yield* look, { state, under_review: false }, "the age counts from the operator's decision")
        yield* pass("1 hour")
        assert.deepInclude(yield* look, { state, under_review: true })
      }))
  }

  for (
    const [state, before] of [
      ["accepted", "59 minutes"],
      ["submitted", "71 hours"],
      ["indeterminate", "14 minutes"]
    ] as const
  ) {
    it.effect(`of an operation that is ${state} puts it under review by a sweep also without claims and reads`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const issued = yield* issueAtNewProvider()
        const { id, revision } = yield* queued(issued, state)
        const look = Effect.andThen(sweep, ledger.show(id))
        yield* pass(before)
        assert.deepInclude(yield* look, { state, under_review: false })
        yield* pass("1 hour")
        assert.deepInclude(yield* look, { state, under_review: true, revision })
        assert.strictEqual(yield* sweep, 0, "once")
        yield* ledger.review(id, false)
        assert.deepInclude(yield* look, { state, under_review: false }, "the age counts from the operator's decision")
      }))
  }

  it.effect("by a sweep respects the limit, and never affects an operation that is being sent or is settled", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const others = []
      for (const state of ["submitting", "succeeded", "failed", "cancelled"] as const) {
        others.push(yield* queued(issued, state))
      }
      const aged = []
      for (let n = 0; n < 5; n++) aged.push(yield* queued(issued, "submitted"))
      yield* pass("4 days")
      assert.strictEqual(yield* queue.reviewAged(3, ages), 3)
      yield* sweep
      for (const { id } of aged) assert.isTrue((yield* ledger.show(id)).under_review)
      for (const { id, revision, state } of others) {
        assert.deepInclude(yield* ledger.show(id), { state, revision, under_review: false })
      }
    }))

  it.effect("puts an operation under review also while its grant allows no read", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const ledger = yield* OperationLedger
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "indeterminate")
      yield* grants.revoke(issued.grant.grant_id)
      yield* pass("1 hour")
      assert.deepStrictEqual(yield* takeIds("takeReads", issued.grant.provider), [])
      assert.deepInclude(yield* ledger.show(id), { state: "indeterminate", under_review: true })
    }))

  it.effect("depends on the age of the state alone: a new state starts at zero", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { id } = yield* queued(issued, "submitted")
      yield* pass("1 day")
      yield* queue.record(id, 3, outcome("indeterminate"), recording({ due_in: Duration.zero }))
      assert.deepStrictEqual(yield* takeIds("takeReads", issued.grant.provider), [id])
      assert.isFalse((yield* ledger.show(id)).under_review)
    }))
})

queueConformance("a status read that is postponed", (it) => {
  it.effect("is due at the given time, if the operation is still at the revision", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      for (const state of states) {
        const { id, revision } = yield* queued(yield* issueAtNewProvider(), state)
        const before = yield* ledger.show(id)
        yield* queue.postpone(id, revision, { due_in: Duration.hours(7), reference: null })
        isAbout((yield* inspect(id)).due_in, Duration.hours(7))
        for (const other of [revision - 1, revision + 1]) {
          yield* queue.postpone(id, other, { due_in: Duration.days(9), reference: reference("no") })
        }
        isAbout((yield* inspect(id)).due_in, Duration.hours(7))
        assert.isNull((yield* inspect(id)).reference)
        assert.deepStrictEqual(yield* ledger.show(id), before)
      }
    }))

  it.effect("changes nothing for an operation that is settled or does not exist", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, revision } = yield* queued(yield* issueAtNewProvider(), "succeeded")
      const before = yield* ledger.show(id)
      yield* queue.postpone(id, revision, { due_in: Duration.zero, reference: reference("late") })
      assert.deepStrictEqual(yield* ledger.show(id), before)
      assert.deepInclude(yield* inspect(id), { due_in: null, reference: null })
      yield* queue.postpone("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f" as OperationId, 1, {
        due_in: Duration.zero,
        reference: null
      })
    }))
})
