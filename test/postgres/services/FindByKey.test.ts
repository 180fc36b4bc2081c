/**
 * A list by idempotency key finds the one operation that the grant's client and subject requested under it, if the grant has
 * its owner. The tests compare PostgreSQL and the memory store with a plain record of the requests.
 */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import type { Operation } from "../../../src/domain/Operation.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import {
  accept,
  conformance,
  everything,
  issue,
  newClient,
  newKey,
  newOwner,
  newSubject
} from "../../fixtures/Ledger.ts"

const choices = [0, 1]

/** A grant of each combination of two owners, two subjects and two clients. */
const issueAll = Effect.suspend(() => {
  const [owners, subjects, clients] = [[newOwner(), newOwner()], [newSubject(), newSubject()], [
    newClient(),
    newClient()
  ]]
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

/** A request of one of the eight grants, under one of four keys. */
const Request = Schema.Struct({
  grant: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 7 })),
  key: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))
})

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

  it.effect.prop(
    "finds for each pair of grants only requests of the same owner, subject and client",
    [Schema.Array(Request).check(Schema.isMinLength(1), Schema.isMaxLength(12))],
    ([requests]) =>
      Effect.gen(function*() {
        const grants = yield* issueAll
        const keys = Array.from({ length: 4 }, newKey)
        const recorded = new Map<string, { readonly operation: Operation; readonly owner: string }>()
        const bindingOf = (grant: number, key: number) =>
          JSON.stringify([grants[grant]!.grant.client_id, grants[grant]!.grant.subject, key])
        for (const { grant, key } of requests) {
          const owner = grants[grant]!.grant.resource_owner
          const known = recorded.get(bindingOf(grant, key))
          const result = yield* Effect.result(accept(grants[grant]!.identity, { key: keys[key]! }))
          // Another owner may not use the key of the same client and subject.
          assert.strictEqual(result._tag === "Success", known === undefined || known.owner === owner)
          if (result._tag === "Success" && known === undefined) {
            recorded.set(bindingOf(grant, key), { operation: result.success.operation, owner })
          }
        }
        for (const [at, { grant, identity }] of grants.entries()) {
          for (const [n, key] of keys.entries()) {
            const known = recorded.get(bindingOf(at, n))
            const expected = known?.owner === grant.resource_owner ? [known.operation] : []
            assert.deepStrictEqual((yield* find(identity, key)).operations, expected)
          }
        }
      }),
    { arbitrary: { runs: 40 } }
  )
})
