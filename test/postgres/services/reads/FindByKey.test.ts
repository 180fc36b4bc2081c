/**
 * A list by idempotency key finds the one operation that the grant's client and subject requested under it, if the grant has
 * its owner. The tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { type Operation, OperationType } from "../../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import {
  accept,
  conformance,
  everything,
  issue,
  newClient,
  newKey,
  newOwner,
  newSubject
} from "../../../fixtures/ledger/Ledger.ts"

const choices = [0, 1]

/** A grant of each combination of two owners, two subjects and two clients: first those of the first owner. */
const issueAll = Effect.suspend(() => {
  const owners = [newOwner(), newOwner()]
  const subjects = [newSubject(), newSubject()]
  const clients = [newClient(), newClient()]
  const parties = choices.flatMap((o) => choices.flatMap((s) => choices.map((c) => [o, s, c] as const)))
  return Effect.forEach(
    parties,
    ([o, s, c]) => issue({ resource_owner: owners[o]!, subject: subjects[s]!, client_id: clients[c]! })
  )
})

const find = (grant: GrantIdentity, key: IdempotencyKey) =>
  Effect.map(
    OperationStore.use((store) => store.list(grant, { ...everything, key })),
    ({ next, operations }) => ({ operations, next })
  )

conformance("a list by idempotency key", (it) => {
  it.effect("is empty for a key under which nothing was recorded so far, also for a part of a used key", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      yield* accept(identity, { key: IdempotencyKey.make("rent-of-may") })
      for (
        const text of ["rent", "rent-of-may2", "Rent-of-may", "RENT-OF-MAY", "%", "rent-of-ma_", "\"rent-of-may\""]
      ) {
        const key = IdempotencyKey.make(text)
        assert.deepStrictEqual(yield* find(identity, key), { operations: [], next: null }, text)
      }
      const key = newKey()
      assert.isEmpty((yield* find(identity, key)).operations)
      const { operation } = yield* accept(identity, { key })
      assert.deepStrictEqual((yield* find(identity, key)).operations, [operation])
    }))

  it.effect("starts behind a cursor as any other list does", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const key = newKey()
      const { operation: older } = yield* accept(identity, { key })
      const { operation: newer } = yield* accept(identity)
      const behind = (after: Operation) =>
        Effect.map(store.list(identity, { ...everything, key, after }), ({ operations }) => operations)
      assert.deepStrictEqual(yield* behind(newer), [older])
      assert.deepStrictEqual(yield* behind(older), [])
    }))

  it.effect("has the operation only if it matches all other filters", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const key = newKey()
      const { operation: { created_at, type } } = yield* accept(identity, { key })
      const filters: ReadonlyArray<readonly [Partial<OperationQuery>, number]> = [
        [{ type, states: ["accepted", "failed"] }, 1],
        [{ type: OperationType.make("another") }, 0],
        [{ states: ["failed"] }, 0],
        [{ created_after: created_at }, 0],
        [{ created_before: created_at }, 0]
      ]
      for (const [filter, count] of filters) {
        assert.lengthOf((yield* store.list(identity, { ...everything, key, ...filter })).operations, count)
      }
    }))

  it.effect("finds for each pair of grants only requests of the same owner, subject and client", () =>
    Effect.gen(function*() {
      const grants = yield* issueAll
      const [ofFirst, ofSecond] = [grants.slice(0, 4), grants.slice(4)]
      // Another owner may not use the key of the same client and subject.
      for (const [requesters, others] of [[ofFirst, ofSecond], [ofSecond, ofFirst]] as const) {
        const key = newKey()
        const accepted = yield* Effect.forEach(requesters, ({ identity }) => accept(identity, { key }))
        for (const [at, { identity }] of requesters.entries()) {
          assert.deepStrictEqual((yield* find(identity, key)).operations, [accepted[at]!.operation])
        }
        for (const { identity } of others) assert.isEmpty((yield* find(identity, key)).operations)
      }
    }))
})
