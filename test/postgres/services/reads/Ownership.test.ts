/**
 * Only a grant of an operation's resource owner, subject and client reads it. `GrantStandings` has the grants that read nothing. The
 * tests run against PostgreSQL and the memory store.
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

/** Every combination of the properties that decide which operations a good grant reads: 2 × 2 × 2 × 4 = 32. */
const combinations = booleans.flatMap((sameOwner) =>
  booleans.flatMap((sameSubject) =>
    booleans.flatMap((sameClient) =>
      [["operations:read"], ["a", "operations:read", "b"], ["operations:rea", "operations:read2"], []].map(
        (scopes) => ({ sameOwner, sameSubject, sameClient, scopes })
      )
    )
  )
)

conformance("the reader of an operation", (it) => {
  it.effect("is a grant of its resource owner, subject and client with the scope, and no other of 32 grants", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { grant, identity } = yield* issue()
      const { operation } = yield* accept(identity)
      for (const { sameClient, sameOwner, sameSubject, scopes } of combinations) {
        const reader = yield* issueAgain(grant, {
          ...(sameOwner ? {} : { resource_owner: newOwner() }),
          ...(sameSubject ? {} : { subject: newSubject() }),
          ...(sameClient ? {} : { client_id: newClient() }),
          scopes: scopes.map((scope) => Scope.make(scope))
        })
        const found = yield* Effect.result(store.find(reader.identity, operation.id))
        const listed = yield* Effect.result(store.list(reader.identity, everything))
        const name = JSON.stringify({ sameClient, sameOwner, sameSubject, scopes })
        if (!scopes.includes("operations:read")) {
          const refused = { _tag: "InsufficientScope", required: "operations:read" }
          assert.deepStrictEqual(found._tag === "Failure" && fieldsOf(found.failure), refused, name)
          assert.deepStrictEqual(listed._tag === "Failure" && fieldsOf(listed.failure), refused, name)
        } else if (sameClient && sameOwner && sameSubject) {
          assert.deepStrictEqual(found._tag === "Success" && found.success, operation, name)
          assert.deepStrictEqual(listed._tag === "Success" && listed.success.operations, [operation], name)
        } else {
          const expected = { _tag: "OperationNotFound", id: operation.id }
          assert.deepStrictEqual(found._tag === "Failure" && fieldsOf(found.failure), expected, name)
          assert.deepStrictEqual(listed._tag === "Success" && listed.success.operations, [], name)
        }
      }
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
