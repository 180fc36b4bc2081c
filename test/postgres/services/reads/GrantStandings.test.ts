/** Every read refuses the same grants. The tests run against PostgreSQL and the memory store. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import {
  type GrantIdentity,
  type GrantRefusal,
  type GrantStanding,
  operationsRead,
  refusal,
  Scope,
  standingFor
} from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import {
  accept,
  conformance,
  everything,
  expiredIn,
  fieldsOf,
  issue,
  issueAgain,
  newKey
} from "../../../fixtures/ledger/Ledger.ts"

const other = Scope.make("other")

/** Every combination of the five facts. */
const standings = Array.from({ length: 32 }, (_, n): GrantStanding => ({
  revoked: (n & 1) > 0,
  expired: (n & 2) > 0,
  client_active: (n & 4) > 0,
  scope_granted: (n & 8) > 0,
  provider_connected: (n & 16) > 0
}))

/** A new grant of this standing, and an operation of its owner. */
const inStanding = Effect.fnUntraced(function*(standing: GrantStanding) {
  const grants = yield* Grants
  const first = yield* issue()
  const { operation } = yield* accept(first.identity)
  const { grant, identity } = yield* issueAgain(first.grant, {
    scopes: standing.scope_granted ? [other, operationsRead] : [other],
    ...standing.expired ? { expires_in: expiredIn } : {}
  })
  if (standing.revoked) yield* grants.revoke(grant.grant_id)
  yield* grants.setClientActive(grant.client_id, standing.client_active)
  yield* grants.setProviderConnected(grant.provider_connection_id, standing.provider_connected)
  return { identity, operation }
})

/** The refusals of all reads, null for a success. */
const refusals = Effect.fnUntraced(function*(grant: GrantIdentity, id: OperationId) {
  const store = yield* OperationStore
  const reads: ReadonlyArray<Effect.Effect<unknown, object, OperationFeed>> = [
    store.find(grant, id),
    store.list(grant, everything),
    store.list(grant, { ...everything, key: newKey() }),
    store.limits(grant),
    OperationFeed.use((feed) => feed.since(grant, { states: [], type: null, page_size: 1, after: null }))
  ]
  return yield* Effect.forEach(reads, (read) => Effect.match(read, { onFailure: fieldsOf, onSuccess: () => null }))
})

conformance("a read", (it) => {
  it.effect("refuses each combination of the five facts of a standing as the domain does, with any limit of the token", () =>
    Effect.gen(function*() {
      for (const standing of standings) {
        const { identity, operation } = yield* inStanding(standing)
        const limits: ReadonlyArray<ReadonlyArray<Scope> | undefined> = [undefined, [operationsRead], [other], []]
        for (const limited_to of limits) {
          const grant: GrantIdentity = limited_to === undefined ? identity : { ...identity, limited_to }
          const expected: GrantRefusal | null = refusal(standingFor(grant, standing, operationsRead), operationsRead)
          const fields = expected === null ? null : fieldsOf(expected)
          assert.deepStrictEqual(
            yield* refusals(grant, operation.id),
            Array.from({ length: 5 }, () => fields),
            JSON.stringify({ standing, limited_to })
          )
        }
      }
    }))

  it.effect("is refused for a grant of another client or subject, which is unknown", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { client_id, grant_id, subject } = (yield* issue()).identity
      const { operation } = yield* accept(identity)
      const unknown = { _tag: "GrantUnknown" }
      for (const other of [{ client_id }, { subject }, { grant_id }]) {
        const refused = yield* refusals({ ...identity, ...other }, operation.id)
        assert.deepStrictEqual(refused, Array.from({ length: 5 }, () => unknown))
      }
    }))
})
