/**
 * Only a good grant of an operation's resource owner, subject and client reads it. The tests try all 384 combinations
 * against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { ProviderName, Scope } from "../../../../src/domain/Grant.ts"
import { OperationId, type OperationState } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import {
  accept,
  conformance,
  everything,
  expiredIn,
  fieldsOf,
  issue,
  issueAgain,
  newClient,
  newOwner,
  newSubject,
  operationIn
} from "../../../fixtures/ledger/Ledger.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const unknownId = OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")
const booleans = [true, false]

/** Every combination of the properties that decide a read: 2 × 2 × 2 × 3 × 2 × 4 × 2 = 384. */
const combinations = booleans.flatMap((sameOwner) =>
  booleans.flatMap((sameSubject) =>
    booleans.flatMap((sameClient) =>
      (["active", "revoked", "expired"] as const).flatMap((status) =>
        booleans.flatMap((clientActive) =>
          [["operations:read"], ["a", "operations:read", "b"], ["operations:rea", "operations:read2"], []].flatMap(
            (scopes) =>
              booleans.map((connected) => ({
                sameOwner,
                sameSubject,
                sameClient,
                status,
                clientActive,
                scopes,
                connected
              }))
          )
        )
      )
    )
  )
)

type Combination = (typeof combinations)[number]

/** The specification's "Authentication" 3 and 4: the first check that fails, in order, or null. */
const refusalOf = (combination: Combination): object | null => {
  if (combination.status !== "active") return { _tag: "GrantRevoked", reason: combination.status }
  if (!combination.clientActive) return { _tag: "ClientInactive" }
  if (!combination.scopes.includes("operations:read")) {
    return { _tag: "InsufficientScope", required: "operations:read" }
  }
  if (!combination.connected) return { _tag: "ProviderDisconnected" }
  return null
}

const isOwner = ({ sameClient, sameOwner, sameSubject }: Combination) => sameClient && sameOwner && sameSubject

conformance("the reader of an operation", (it) => {
  it.effect("is a good grant of its resource owner, subject and client, and no other of 384 grants", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const store = yield* OperationStore
      const { grant, identity } = yield* issue()
      const { operation } = yield* accept(identity)
      let readers = 0
      for (const combination of combinations) {
        const reader = yield* issueAgain(grant, {
          ...(combination.sameOwner ? {} : { resource_owner: newOwner() }),
          ...(combination.sameSubject ? {} : { subject: newSubject() }),
          ...(combination.sameClient ? {} : { client_id: newClient() }),
          ...(combination.status === "expired" ? { expires_in: expiredIn } : {}),
          scopes: combination.scopes.map((scope) => Scope.make(scope))
        })
        const { client_id, grant_id, provider_connection_id } = reader.grant
        if (combination.status === "revoked") yield* grants.revoke(grant_id)
        yield* grants.setClientActive(client_id, combination.clientActive)
        yield* grants.setProviderConnected(provider_connection_id, combination.connected)

        const found = yield* Effect.result(store.find(reader.identity, operation.id))
        const listed = yield* Effect.result(store.list(reader.identity, everything))
        const name = JSON.stringify(combination)
        const refused = refusalOf(combination)
        if (refused !== null) {
          assert.deepStrictEqual(found._tag === "Failure" && fieldsOf(found.failure), refused, name)
          assert.deepStrictEqual(listed._tag === "Failure" && fieldsOf(listed.failure), refused, name)
        } else if (isOwner(combination)) {
          readers++
          assert.deepStrictEqual(found._tag === "Success" && found.success, operation, name)
          assert.deepStrictEqual(listed._tag === "Success" && listed.success.operations, [operation], name)
        } else {
          const expected = { _tag: "OperationNotFound", id: operation.id }
          assert.deepStrictEqual(found._tag === "Failure" && fieldsOf(found.failure), expected, name)
          assert.deepStrictEqual(listed._tag === "Success" && listed.success.operations, [], name)
        }
      }
      assert.strictEqual(readers, 2, "with the scope alone, and with the scope among others")
    }))

  it.effect("gets the same answer for a foreign operation and for one that does not exist", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { grant, identity } = yield* issue()
      const owners = [{ resource_owner: newOwner() }, { subject: newSubject() }, { client_id: newClient() }]
      const shown = (id: OperationId) =>
        Effect.map(
          Effect.flip(store.find(identity, id)),
          (error) => JSON.stringify([fieldsOf(error), error.name, error.message, String(error)]).replaceAll(id, "id")
        )
      const unknown = yield* shown(unknownId)
      for (const owner of owners) {
        const { identity: other } = yield* issueAgain(grant, owner)
        const { operation } = yield* accept(other)
        assert.strictEqual(yield* shown(operation.id), unknown)
      }
    }))

  it.effect("must name a grant that exists, with its own client and subject", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const { identity: other } = yield* issue()
      const { operation } = yield* accept(identity)
      const strangers = [
        { ...identity, grant_id: other.grant_id },
        { ...identity, client_id: other.client_id },
        { ...identity, subject: other.subject },
        { ...other, grant_id: identity.grant_id }
      ]
      for (const stranger of strangers) {
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(store.find(stranger, operation.id))), {
          _tag: "GrantUnknown"
        })
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(store.list(stranger, everything))), { _tag: "GrantUnknown" })
      }
    }))

  it.effect("gets the refusal of the grant before the answer whether the operation exists", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const store = yield* OperationStore
      const { grant, identity } = yield* issue()
      yield* grants.revoke(grant.grant_id)
      assert.strictEqual((yield* Effect.flip(store.find(identity, unknownId)))._tag, "GrantRevoked")
    }))

  it.effect("may hold another grant than the one that accepted it, also through another provider", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const store = yield* OperationStore
      const { grant, identity } = yield* issue()
      const operations = yield* Effect.forEach(
        specifiedStates,
        (state: OperationState) => operationIn(identity, state)
      )
      yield* grants.revoke(grant.grant_id)
      for (const provider of [grant.provider, ProviderName.make("broker")]) {
        const { identity: renewed } = yield* issueAgain(grant, { provider })
        for (const operation of operations) {
          assert.deepStrictEqual(yield* store.find(renewed, operation.id), operation)
        }
        assert.sameDeepMembers([...(yield* store.list(renewed, everything)).operations], operations)
      }
    }))
})
