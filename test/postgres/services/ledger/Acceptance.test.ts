/**
 * What an acceptance creates, and what it refuses. `QueueModel` has request bindings and the standing of grants. The tests run against
 * PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Scope } from "../../../../src/domain/Grant.ts"
import { isOperationId, Operation } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import {
  accept,
  conformance,
  fieldsOf,
  issue,
  issueAgain,
  newClient,
  newKey,
  newSubject,
  owned
} from "../../../fixtures/ledger/Ledger.ts"

conformance("the acceptance of a financial request", (it) => {
  it.effect("creates the first operation of the client and subject", () =>
    Effect.gen(function*() {
      const { isEmpty } = yield* OperationLedger
      const { identity } = yield* issue()
      assert.isTrue(yield* isEmpty)
      yield* accept(identity)
      assert.isFalse(yield* isEmpty)
    }))

  it.effect("is found by client, subject and key together, and by none of them alone", () =>
    Effect.gen(function*() {
      const { bound } = yield* OperationLedger
      const { identity } = yield* issue()
      const { client_id, subject } = identity
      const key = newKey()
      const { operation } = yield* accept(identity, { key })
      assert.deepStrictEqual(yield* bound({ client_id, subject, key }), operation)
      assert.isNull(yield* bound({ client_id: newClient(), subject, key }))
      assert.isNull(yield* bound({ client_id, subject: newSubject(), key }))
      assert.isNull(yield* bound({ client_id, subject, key: newKey() }))
    }))

  it.effect("creates an operation that is accepted, at revision 1, with a UUIDv7", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { created, operation } = yield* accept(identity, { type: "payment.refund" })
      assert.isTrue(created)
      assert.isTrue(Schema.is(Operation)(operation))
      assert.isTrue(isOperationId(operation.id))
      const { created_at, id, updated_at, ...rest } = operation
      assert.deepStrictEqual(rest, {
        type: "payment.refund",
        state: "accepted",
        terminal: false,
        submission_uncertain: false,
        under_review: false,
        revision: 1,
        completed_at: null,
        failure: null
      })
      assert.deepStrictEqual(created_at, updated_at)
      const ledger = yield* OperationLedger
      assert.deepStrictEqual(yield* ledger.show(id), operation)
      assert.deepStrictEqual(yield* ledger.history(id), [
        { revision: 1, from: null, to: "accepted", at: created_at, evidence: null }
      ])
    }))

  it.effect("refuses a request that is invalid, and records nothing", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const longest = "x".repeat(262_144 - 2)
      const refused = [
        [{ type: "BAD TYPE" }, "a lower-case name such as payment"],
        [{ payload: { memo: "\ud800" } }, ""],
        [{ payload: { "\udfff": 1 } }, ""],
        [{ payload: { amount: Number.NaN } }, ""],
        [{ payload: `${longest}x` }, "262144 bytes"]
      ] as const
      for (const [request, message] of refused) {
        const error = yield* Effect.flip(accept(identity, request))
        assert.strictEqual(error._tag, "InvalidFinancialRequest")
        assert.include(error.message, message)
      }
      assert.isEmpty(yield* owned(identity))
      assert.isTrue((yield* accept(identity, { payload: longest })).created, "256 KiB in canonical form")
    }))
})

conformance("a grant that accepts requests", (it) => {
  it.effect("must exist", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { identity: other } = yield* issue()
      const strangers = [
        { ...identity, grant_id: other.grant_id },
        { ...identity, client_id: other.client_id },
        { ...identity, subject: other.subject }
      ]
      for (const stranger of strangers) {
        assert.strictEqual((yield* Effect.flip(accept(stranger)))._tag, "GrantUnknown")
      }
    }))

  it.effect("must have the scope that the caller requires, also for a repetition; else nothing is recorded", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const write = Scope.make("payments:write")
      const { grant, identity } = yield* issue()
      const request = { type: "payment", key: newKey(), payload: 1 }
      const refused = Effect.map(Effect.flip(ledger.accept(identity, request, write)), fieldsOf)
      assert.deepInclude(yield* refused, { _tag: "InsufficientScope", required: write })
      assert.isTrue((yield* ledger.accept(identity, request)).created, "this call requires no scope")
      assert.deepInclude(yield* refused, { _tag: "InsufficientScope", required: write })
      const { identity: writer } = yield* issueAgain(grant, { scopes: [write] })
      const limited = yield* Effect.flip(ledger.accept({ ...writer, limited_to: [] }, request, write))
      assert.strictEqual(limited._tag, "InsufficientScope", "the credential is limited")
      assert.isTrue((yield* ledger.accept(writer, { ...request, key: newKey() }, write)).created)
    }))
})
