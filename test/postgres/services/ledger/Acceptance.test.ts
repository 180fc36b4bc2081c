/**
 * A request binding stands for exactly one operation, and only a grant in good standing accepts requests. The tests run
 * against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { ProviderName, Scope } from "../../../../src/domain/Grant.ts"
import { isOperationId, Operation } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import {
  accept,
  conformance,
  drive,
  expiredIn,
  fieldsOf,
  issue,
  issueAgain,
  newClient,
  newKey,
  newOwner,
  newSubject,
  owned,
  pathTo
} from "../../../fixtures/ledger/Ledger.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

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

  for (const state of specifiedStates) {
    it.effect(`returns the same operation for the same request, also when it is ${state}`, () =>
      Effect.gen(function*() {
        const { identity } = yield* issue()
        const key = newKey()
        const first = yield* accept(identity, { key, payload: { a: 1, b: 2 } })
        const moved = yield* drive(first.operation, pathTo[state])
        for (let n = 0; n < 3; n++) {
          const again = yield* accept(identity, { key, payload: { b: 2, a: 1.0 } })
          assert.deepStrictEqual(again, { operation: moved, created: false })
        }
        assert.deepStrictEqual(yield* owned(identity), [moved])
      }))
  }

  it.effect("returns the same operation to a new grant of the same owner, subject and client", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issue()
      const key = newKey()
      const { operation } = yield* accept(identity, { key })
      yield* grants.revoke(grant.grant_id)
      const { identity: renewed } = yield* issueAgain(grant)
      assert.deepStrictEqual(yield* accept(renewed, { key }), { operation, created: false })
    }))

  it.effect("refuses another request under the same key, and records nothing", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const key = newKey()
      const first = yield* accept(identity, { key, payload: { amount: "1" } })
      const others = [{ payload: { amount: "2" } }, { payload: { amount: 1 } }, { payload: null }, { type: "refund" }]
      for (const other of others) {
        const error = yield* Effect.flip(accept(identity, { key, payload: { amount: "1" }, ...other }))
        assert.deepStrictEqual(fieldsOf(error), { _tag: "BindingConflict", key })
      }
      assert.deepStrictEqual(yield* owned(identity), [first.operation])
      assert.deepStrictEqual(yield* accept(identity, { key, payload: { amount: "1" } }), {
        operation: first.operation,
        created: false
      })
    }))

  it.effect("binds a key for one client and subject: the same key of another client or subject is another request binding", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issue()
      const key = newKey()
      const others = [{ subject: newSubject() }, { client_id: newClient() }]
      const identities = [
        identity,
        ...(yield* Effect.forEach(others, (other) => Effect.map(issueAgain(grant, other), (issued) => issued.identity)))
      ]
      const ids = new Set<string>()
      for (const bound of identities) {
        const { created, operation } = yield* accept(bound, { key })
        assert.isTrue(created)
        ids.add(operation.id)
      }
      // All three exist now: each caller gets its own operation.
      for (const [n, bound] of identities.entries()) {
        const { created, operation } = yield* accept(bound, { key })
        assert.isFalse(created)
        assert.strictEqual(operation.id, [...ids][n])
      }
      assert.strictEqual(ids.size, 3)
    }))

  it.effect("never returns the operation of another resource owner, even if client, subject and key are equal", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issue()
      const key = newKey()
      yield* accept(identity, { key })
      const { identity: other } = yield* issueAgain(grant, { resource_owner: newOwner() })
      assert.strictEqual((yield* Effect.flip(accept(other, { key })))._tag, "BindingConflict")
      assert.isEmpty(yield* owned(other))
    }))

  it.effect("never returns the operation of a request through another provider connection, even if client, subject, key and request are equal", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issue()
      const key = newKey()
      const { operation } = yield* accept(identity, { key })
      const { identity: elsewhere } = yield* issueAgain(grant, { provider: ProviderName.make("other_bank") })
      const error = yield* Effect.flip(accept(elsewhere, { key }))
      assert.deepStrictEqual(fieldsOf(error), { _tag: "BindingConflict", key })
      // A reconnection keeps the provider connection, and so the request binding.
      yield* grants.setProviderConnected(grant.provider_connection_id, false)
      yield* grants.setProviderConnected(grant.provider_connection_id, true)
      const { identity: renewed } = yield* issueAgain(grant)
      assert.deepStrictEqual(yield* accept(renewed, { key }), { operation, created: false })
      assert.deepStrictEqual(yield* owned(identity), [operation])
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

  it.effect("must not be expired", () =>
    Effect.gen(function*() {
      const { grant, identity: expired } = yield* issue({ expires_in: expiredIn })
      assert.deepStrictEqual(fieldsOf(yield* Effect.flip(accept(expired))), { _tag: "GrantRevoked", reason: "expired" })
      assert.isEmpty(yield* owned((yield* issueAgain(grant)).identity))
    }))

  it.effect("must not be revoked, have an active client and a connected provider; else nothing is recorded", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issue()
      const key = newKey()
      const { operation } = yield* accept(identity, { key })
      // The repetition of an earlier request is refused too: a grant in bad standing reads nothing.
      const refusals = Effect.forEach([key, newKey()], (key) => Effect.flip(accept(identity, { key })))
      const tags = Effect.map(refusals, (errors) => errors.map((error) => error._tag))

      yield* grants.setProviderConnected(grant.provider_connection_id, false)
      assert.deepStrictEqual(yield* tags, ["ProviderDisconnected", "ProviderDisconnected"])
      yield* grants.setClientActive(grant.client_id, false)
      assert.deepStrictEqual(yield* tags, ["ClientInactive", "ClientInactive"])
      yield* grants.revoke(grant.grant_id)
      assert.deepStrictEqual(yield* tags, ["GrantRevoked", "GrantRevoked"])

      yield* grants.setProviderConnected(grant.provider_connection_id, true)
      yield* grants.setClientActive(grant.client_id, true)
      assert.deepStrictEqual(yield* tags, ["GrantRevoked", "GrantRevoked"])
      const { identity: renewed } = yield* issueAgain(grant)
      assert.deepStrictEqual(yield* owned(renewed), [operation])
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
