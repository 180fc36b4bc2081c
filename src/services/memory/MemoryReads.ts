/** Reads of operations, and the change feed, in memory. No transaction is ever unfinished, and each change has a position of its own. */
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  type ChangePage,
  type ChangeQuery,
  type ChangeToken,
  ChangeTokenExpired,
  InvalidChangeToken
} from "../../domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { type Operation, type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import type { OperationCursor, OperationQuery } from "../../domain/OperationQuery.ts"
import {
  afterAllIds,
  type ChangePlace,
  grantReader,
  ledgerReader,
  openChangeToken,
  type OpenedToken,
  ownerDigest,
  sealChangeToken,
  startOfLedger
} from "../rules/changeToken.ts"
import { remainingLimits } from "../rules/limits.ts"
import type { TokenContext } from "../sealedTokens.ts"
import { TokenCipher } from "../TokenCipher.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import { makeGrantOf, reservationsOf } from "./recordRules.ts"

export const makeFeed = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const grantOf = yield* makeGrantOf
  const cipher = yield* TokenCipher
  const withDigest = Effect.provideService(Digest.Digest, yield* Digest.Digest)

  const history = () => `${memory.instance}/${memory.cluster.timeline}/${memory.cluster.holds}`

  const positionOf = ({ operation }: MemoryRecord) => memory.operations.positionOf(operation.id)

  const seal = (high: ChangePlace, owner: string, reader: TokenContext, from: OpenedToken | null = null) =>
    sealChangeToken(cipher, { history: history(), owner, position: { ...startOfLedger, high } }, reader, from)

  const open = (token: ChangeToken | null, reader: TokenContext) =>
    token === null ? Effect.succeed(null) : openChangeToken(cipher, token, reader)

  const placeOf = Effect.fnUntraced(function*(token: OpenedToken | null, owner: string) {
    if (token === null) return startOfLedger.high
    if (token.owner !== owner) return yield* new InvalidChangeToken()
    return token.history === history() ? token.position.high : yield* new ChangeTokenExpired()
  })

  const changedAfter = (records: ReadonlyArray<MemoryRecord>, { position }: ChangePlace, limit: number) => {
    const changed = records.filter((record) => positionOf(record) > position)
      .toSorted((a, b) => positionOf(a) - positionOf(b))
    return { page: changed.slice(0, limit), has_more: changed.length > limit }
  }

  /** The place behind a page: that of its last record, else the end of what it looked at. */
  const placeBehind = (page: ReadonlyArray<MemoryRecord>, from: ChangePlace): ChangePlace => {
    const last = page.at(-1)
    return last === undefined ? from : { position: positionOf(last), id: last.operation.id }
  }

  const since = Effect.fnUntraced(function*(grant: GrantIdentity, query: ChangeQuery) {
    const reader = grantReader(grant, query)
    const token = yield* open(query.after, reader)
    const known = yield* grantOf(grant)
    const owner = yield* withDigest(ownerDigest(known.resource_owner))
    const from = yield* placeOf(token, owner)
    const owned = memory.ownedBy(known)
    const { has_more, page } = changedAfter(
      owned.filter(({ operation }) => matches(query)(operation)),
      from,
      query.page_size
    )
    const next = yield* seal(placeBehind(page, from), owner, reader, token)
    return { operations: page.map(({ operation }) => operation), next, has_more } satisfies ChangePage
  })

  return {
    since,
    sinceInLedger: Effect.fnUntraced(function*(after: ChangeToken | null, limit: number) {
      const token = yield* open(after, ledgerReader)
      const from = yield* placeOf(token, "")
      const { has_more, page } = changedAfter([...memory.operations.values()], from, limit)
      const changes = page.map(({ operation, owner: { client_id, resource_owner, subject } }) => ({
        operation,
        client_id,
        resource_owner,
        subject
      }))
      return {
        changes,
        unfinished: null,
        next: yield* seal(placeBehind(page, from), "", ledgerReader, token),
        has_more
      }
    }),
    now: Effect.suspend(() => seal({ position: memory.operations.lastPosition, id: afterAllIds }, "", ledgerReader))
  }
})

export const makeStore = Effect.gen(function*() {
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
      const found = owned.toSorted(newestFirst).filter(matches(query)).filter(isInRange(query)).slice(
        0,
        query.page_size + 1
      )
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

const matches = ({ states, type }: Pick<OperationQuery, "states" | "type">) => (operation: Operation): boolean =>
  (type === null || type === operation.type) && (states.length === 0 || states.includes(operation.state))

const isInRange = (query: OperationQuery) => (operation: Operation): boolean =>
  (query.created_after === null || DateTime.isGreaterThan(operation.created_at, query.created_after))
  && (query.created_before === null || DateTime.isLessThan(operation.created_at, query.created_before))
  && (query.after === null || newestFirst(query.after, operation) < 0)
