/**
 * Reads of operations in memory.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { type Operation, type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import { type OperationCursor, type OperationQuery } from "../../domain/OperationQuery.ts"
import { remainingLimits } from "../rules/limits.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import { makeGrantOf, reservationsOf } from "./recordRules.ts"

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const grantOf = yield* makeGrantOf

  const find = (identity: GrantIdentity, id: OperationId) =>
    Effect.flatMap(
      grantOf(identity),
      (grant) => {
        const record = memory.ownedBy(grant).find((record) => record.operation.id === id)
        return record === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(record.operation)
      }
    )

  const list = (identity: GrantIdentity, query: OperationQuery) =>
    Effect.map(grantOf(identity), (grant) => {
      const owned = memory.ownedBy(grant)
        .filter((record) => query.key === null || record.key === query.key)
        .map((record) => record.operation)
      const found = owned.toSorted(newestFirst).filter(matches(query)).slice(0, query.page_size + 1)
      const page = found.slice(0, query.page_size)
      const next = found.length > page.length ? page.at(-1)! : null
      return { operations: page, next: next === null ? null : { created_at: next.created_at, id: next.id } }
    })

  const limits = (identity: GrantIdentity) =>
    Effect.flatMap(grantOf(identity), (grant) =>
      Effect.map(DateTime.now, (now) =>
        remainingLimits(
          [grant.authorization_details, identity.authorization_details],
          reservationsOf(memory, grant.grant_id),
          now
        )))

  /** The identities of refused grants. A token's own limit is no part of the standing. */
  const refused = (grants: ReadonlyArray<GrantIdentity>) =>
    Effect.map(
      Effect.forEach(grants, ({ client_id, grant_id, subject }) =>
        Effect.match(grantOf({ client_id, grant_id, subject }), { onFailure: () => [grant_id], onSuccess: () => [] })),
      (found) =>
        found.flat()
    )

  return { find, list, limits, refused }
})

const newestFirst = (a: OperationCursor, b: OperationCursor): number =>
  b.created_at.epochMilliseconds - a.created_at.epochMilliseconds || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

const matches = (query: OperationQuery) => (operation: Operation): boolean =>
  (query.type === null || query.type === operation.type)
  && (query.states.length === 0 || query.states.includes(operation.state))
  && isInRange(query)(operation)

const isInRange = (query: OperationQuery) => (operation: Operation): boolean =>
  (query.created_after === null || DateTime.isGreaterThan(operation.created_at, query.created_after))
  && (query.created_before === null || DateTime.isLessThan(operation.created_at, query.created_before))
  && (query.after === null || newestFirst(query.after, operation) < 0)
