/**
 * An operator can cancel only an operation that was never sent, and a review changes no state. The tests run against
 * PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { gatewayFailure } from "../../../../src/domain/GatewayFailures.ts"
import type { ProviderName } from "../../../../src/domain/Grant.ts"
import { Operation, type OperationId } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import {
  accept,
  conformance,
  fieldsOf,
  nextMillisecond,
  outcome,
  PostgresLedger,
  unknownId
} from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  claimIds,
  failOver,
  inspect,
  issueAtNewProvider,
  pass,
  queued,
  recording,
  returnTerms,
  takeIds,
  takeOverIds,
  takeOverSoon
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import { anotherQueue } from "../../../fixtures/postgres/Pools.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

conformance("a cancellation", (it) => {
  it.effect("of an accepted operation is recorded with its evidence, once, and no worker claims the operation afterwards", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      const cancelled = yield* ledger.cancel(operation.id, { by: "operator" })
      assert.isTrue(Schema.is(Operation)(cancelled))
      assert.deepInclude(cancelled, { state: "cancelled", terminal: true, revision: 2, failure: null })
      assert.deepStrictEqual(cancelled.completed_at, cancelled.updated_at)
      assert.deepStrictEqual(yield* ledger.show(operation.id), cancelled)
      const { evidence, from, to } = (yield* ledger.history(operation.id))[1]!
      assert.deepStrictEqual({ evidence, from, to }, {
        evidence: { by: "operator" },
        from: "accepted",
        to: "cancelled"
      })
      assert.isNull((yield* inspect(operation.id)).due_in)
      assert.deepStrictEqual(yield* ledger.cancel(operation.id, { by: "a repetition" }), cancelled)
      assert.lengthOf(yield* ledger.history(operation.id), 2)
      yield* pass("1 day")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
    }))

  for (const state of specifiedStates.filter((state) => state !== "accepted" && state !== "cancelled")) {
    it.effect(`of an operation that is ${state} is refused at any age, and changes nothing`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { id } = yield* queued(yield* issueAtNewProvider(), state)
        yield* pass("3650 days")
        const before = yield* ledger.show(id)
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(ledger.cancel(id, { by: "age" }))), {
          _tag: "IllegalTransition",
          id,
          from: state,
          to: "cancelled",
          reason: "not_permitted"
        })
        assert.deepStrictEqual(yield* ledger.show(id), before)
      }))
  }

  for (
    const [before, prepare] of Object.entries({
      "before any claim": Effect.succeed,
      "after its release": (id: OperationId) =>
        Effect.gen(function*() {
          const queue = yield* Queue
          yield* failOver
          yield* queue.releaseAll
          yield* queue.hold(id)
          yield* queue.release(id)
        })
    })
  ) {
    it.effect(`of an operation that an operator held ${before} is recorded, and no worker sends it`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const { grant: { provider }, identity } = yield* issueAtNewProvider()
        const { operation: { id } } = yield* accept(identity)
        yield* prepare(id)
        yield* queue.hold(id)
        assert.deepInclude(yield* ledger.cancel(id, { by: "operator" }), { state: "cancelled", revision: 2 })
        assert.isFalse((yield* inspect(id)).is_held)
        assert.deepStrictEqual(yield* claimIds(provider), [])
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [])
      }))
  }

  for (
    const [reason, lose] of Object.entries({
      "all operations were held, too, as after a restore": () => Effect.flatMap(Queue, ({ holdAll }) => holdAll),
      "a failover followed": () => failOver,
      "a worker reported that it may have sent it": (id: OperationId) =>
        Effect.flatMap(Queue, ({ report }) => report(id, null))
    })
  ) {
    it.effect(`of a held operation is refused if ${reason}`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const { identity } = yield* issueAtNewProvider()
        const { operation: { id } } = yield* accept(identity)
        yield* queue.hold(id)
        yield* lose(id)
        const before = yield* ledger.show(id)
        for (
          const end of [
            ledger.cancel(id, null),
            ledger.transition(id, 1, { state: "cancelled" }, null),
            ledger.transition(id, 1, outcome("failed"), null)
          ]
        ) {
          assert.deepInclude(fieldsOf(yield* Effect.flip(end)), { _tag: "IllegalTransition", reason: "held" })
        }
        assert.deepStrictEqual(yield* ledger.show(id), before)
        assert.strictEqual((yield* Effect.flip(queue.release(id)))._tag, "StillHeld")
      }))
  }

  it.effect("of an operation whose claim was returned ends it as failed, once, and no worker takes it over", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { claim, id, provider } = yield* claimedOperation()
      yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero })
      const failed = yield* ledger.cancel(id, { by: "operator" })
      assert.deepInclude(failed, { state: "failed", revision: 3, failure: gatewayFailure("cancelled_unsent") })
      assert.deepStrictEqual((yield* ledger.history(id))[2]!.evidence, { by: "operator" })
      assert.deepStrictEqual(yield* ledger.cancel(id, { by: "a repetition" }), failed)
      yield* pass("1 hour")
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      assert.isFalse(yield* queue.mayStillSend(claim))
    }))

  it.effect("of an operation whose returned claim was taken over, or may have been before a failover, is refused", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      for (
        const lose of [(provider: ProviderName) => Effect.asVoid(takeOverSoon(provider)), () => failOver]
      ) {
        const { claim, id, provider } = yield* claimedOperation()
        yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero })
        yield* lose(provider)
        const before = yield* ledger.show(id)
        const cancellation = fieldsOf(yield* Effect.flip(ledger.cancel(id, null)))
        assert.deepInclude(cancellation, { _tag: "IllegalTransition", from: "submitting", reason: "not_permitted" })
        const failure = fieldsOf(yield* Effect.flip(ledger.transition(id, 2, outcome("failed"), null)))
        assert.deepInclude(failure, { _tag: "IllegalTransition", reason: "claimed" })
        assert.deepStrictEqual(yield* ledger.show(id), before)
      }
    }))

  it.effect("of a claim of an earlier timeline is no failure either, at any age: a return and a take-over may be lost", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id } = yield* claimedOperation()
      yield* failOver
      yield* pass("1 day")
      const failure = fieldsOf(yield* Effect.flip(ledger.transition(id, 2, outcome("failed"), null)))
      assert.deepInclude(failure, { _tag: "IllegalTransition", reason: "claimed" })
    }))

  it.effect("of an operation that may still be sent is no failure either, although its outcome is unknown", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { claim: { revision }, id } = yield* claimedOperation()
      const uncertain = yield* queue.record(id, revision, outcome("indeterminate"), recording())
      const fail = ledger.transition(id, uncertain.revision, outcome("failed"), { saw: "no record" })
      assert.deepInclude(fieldsOf(yield* Effect.flip(fail)), { _tag: "IllegalTransition", reason: "sendable" })
      yield* pass("1 day")
      assert.strictEqual((yield* fail).state, "failed")
      const { claim, id: booked } = yield* claimedOperation()
      yield* queue.record(booked, claim.revision, outcome("indeterminate"), recording())
      const succeeded = yield* ledger.transition(booked, uncertain.revision, outcome("succeeded"), { saw: "a booking" })
      assert.strictEqual(succeeded.state, "succeeded")
    }))

  for (const state of ["submitted", "indeterminate"] as const) {
    it.effect(`of a ${state} operation about which an operator asked less than a minute after its send_before is no failure either, at any age`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const { claim, id } = yield* claimedOperation()
        const { revision } = yield* queue.record(id, claim.revision, outcome(state), recording())
        const { created_at } = yield* ledger.show(id)
        const { send_before } = claim.operation
        const fail = (asked: DateTime.Utc) =>
          ledger.transition(id, revision, outcome("failed"), { by: "operator", ...evidenceOf({ created_at: asked }) })
        const error = yield* Effect.flip(fail(created_at))
        assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", reason: "evidence_refused" })
        const [asked, until] = [created_at, send_before!].map(DateTime.formatIso)
        assert.include(
          error.message,
          `asked_at ${asked} is less than a minute after ${until}, until which the request could`
        )
        yield* pass("1 day")
        const passed = DateTime.subtract(send_before!, { days: 1, minutes: -1 })
        const early = yield* Effect.flip(fail(DateTime.subtract(passed, { milliseconds: 1 })))
        assert.deepInclude(fieldsOf(early), { _tag: "IllegalTransition", reason: "evidence_refused" })
        assert.strictEqual((yield* fail(passed)).state, "failed")
      }))
  }

  it.effect("of an operation whose claim was returned is a failure, whenever the operator asked", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { claim, id } = yield* claimedOperation()
      yield* queue.returnClaim(claim, returnTerms)
      const operation = yield* ledger.show(id)
      const evidence = { by: "operator", ...evidenceOf(operation) }
      assert.strictEqual(
        (yield* ledger.transition(id, operation.revision, outcome("failed"), evidence)).state,
        "failed"
      )
    }))

  it.effect("ends a review, and needs no grant in good standing", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* ledger.review(operation.id, true)
      yield* grants.revoke(grant.grant_id)
      assert.deepInclude(yield* ledger.cancel(operation.id, null), { state: "cancelled", under_review: false })
    }))

  it.effect("is refused for an operation that does not exist", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      for (const attempt of [ledger.cancel(unknownId, null), ledger.review(unknownId, true)] as const) {
        const error = yield* Effect.flip(attempt as Effect.Effect<unknown, object>)
        assert.deepStrictEqual(fieldsOf(error), { _tag: "OperationNotFound", id: unknownId })
      }
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("a cancellation in PostgreSQL", (it) => {
  for (const state of ["submitting", "submitted", "indeterminate"] as const) {
    it.effect(`of a ${state} operation that may still be sent is refused by the database, if a person says or was told that it failed`, () =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const { claim, id } = yield* claimedOperation()
        if (state !== "submitting") yield* queue.record(id, claim.revision, outcome(state), recording())
        const { send_before } = claim.operation
        const fail = (by: string, asked: DateTime.Utc) =>
          attempt(
            "replica",
            `UPDATE operations SET state = 'failed', revision = revision + 1, evidence = $2, failure_code = 'none', failure_message = 'None'
          WHERE id = $1`,
            [id, JSON.stringify({ by, ...evidenceOf({ created_at: asked }), answer: "\0" })]
          )
        assert.strictEqual(yield* fail("operator", send_before!), "23001")
        assert.isArray(yield* fail("status_read", send_before!))
        yield* pass("1 day")
        const passed = DateTime.subtract(send_before!, { days: 1, minutes: -1 })
        const early = DateTime.subtract(passed, { milliseconds: 1 })
        assert.strictEqual(yield* fail("operator", early), "23001")
        assert.isArray(yield* fail("status_read", early))
        assert.isArray(yield* fail("operator", passed))
      }))
  }

  for (
    const [reason, lose, restore] of [
      [
        "an earlier version held all operations",
        "UPDATE ledger_home SET history = gen_random_uuid()",
        "SELECT 1"
      ],
      [
        "the ledger moved, and no worker has started there",
        "UPDATE ledger_home SET system_identifier = system_identifier + 1",
        "UPDATE ledger_home SET system_identifier = system_identifier - 1"
      ],
      [
        "the ledger was not compared with its witness since the server started",
        "UPDATE ledger_home SET epoch = gen_random_uuid(), epoch_life = 'another'",
        "UPDATE ledger_home SET epoch = NULL, epoch_life = NULL"
      ]
    ] as const
  ) {
    it.effect(`is refused if ${reason}`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const sql = yield* SqlClient.SqlClient
        const { identity } = yield* issueAtNewProvider()
        const { operation: { id: free } } = yield* accept(identity)
        const { operation: { id: held } } = yield* accept(identity)
        const { claim, id: returned } = yield* claimedOperation()
        yield* queue.hold(held)
        yield* queue.returnClaim(claim, returnTerms)
        yield* sql.unsafe(lose)
        const ids = restore === "SELECT 1" ? [held] : [free, held, returned]
        for (const id of ids) {
          assert.strictEqual((yield* Effect.flip(ledger.cancel(id, null)))._tag, "IllegalTransition", id)
          const move = `UPDATE operations SET state = CASE state WHEN 'accepted' THEN 'cancelled' ELSE 'failed' END,
            failure_code = CASE state WHEN 'submitting' THEN 'x' END, failure_message = CASE state WHEN 'submitting' THEN 'x' END,
            revision = revision + 1 WHERE id = $1`
          assert.strictEqual(yield* attempt("origin", move, [id]), "23001", "the trigger has the same rule")
        }
        yield* sql.unsafe(restore)
      }))
  }

  it.effect(`of a returned claim races with take-overs: exactly one wins, ${races} times`, () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const other = yield* anotherQueue()
      const wins = { cancel: 0, take_over: 0 }
      for (let round = 0; round < races; round++) {
        const { claim, id, provider } = yield* claimedOperation()
        yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero })
        yield* nextMillisecond
        const cancel = Effect.map(Effect.result(ledger.cancel(id, null)), ({ _tag }) => _tag === "Success")
        const takeOver = Effect.map(Effect.provideContext(takeOverIds(provider), other), (ids) => ids.includes(id))
        const [cancelled, taken] = yield* Effect.all([cancel, takeOver], { concurrency: "unbounded" })
        assert.notStrictEqual(cancelled, taken, `round ${round}`)
        wins[cancelled ? "cancel" : "take_over"]++
      }
      assert.isAbove(wins.cancel + wins.take_over, 0)
    }))
})

const races = rounds(40, 1000)
