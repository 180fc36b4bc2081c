/**
 * The room `server/reads`: reads that answer at once, and their responses. Read this file first.
 *
 * The reads of operations and of their changes, from a grant and checked parameters to values of the contract.
 */
import * as Effect from "effect/Effect"
import {
  type ChangesQuery,
  type GrantLimits,
  type ListQuery,
  maxPageSize,
  type OperationChanges,
  type OperationList
} from "../../api/OperationsApi.ts"
import type { ProblemOf } from "../../api/Problems.ts"
import { makeJsonEncoder } from "../../dispatch/JsonEncoder.ts"
import type { ChangeQuery, RunSlowRead } from "../../domain/ChangeFeed.ts"
import type { GrantIdentity, GrantRefusal } from "../../domain/Grant.ts"
import { MalformedOperation, Operation, type OperationId, type OperationNotFound } from "../../domain/Operation.ts"
import { isFiltered, type OperationQuery } from "../../domain/OperationQuery.ts"
import { type ChangeTokenError, OperationFeed } from "../../services/OperationFeed.ts"
import { OperationStore } from "../../services/OperationStore.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { TokenCipher } from "../../services/TokenCipher.ts"
import { Lifecycle } from "../gate/Lifecycle.ts"
import { Problems } from "../gate/ProblemResponses.ts"
import { type ReadProblem, refuseForNow, refuseRead, withhold } from "../gate/Refusals.ts"
import { openPageToken, sealPageToken } from "./PageToken.ts"

const toQuery = (query: ListQuery): OperationQuery => ({
  states: [...new Set(query.state ?? [])],
  type: query.type ?? null,
  created_after: query.created_after ?? null,
  created_before: query.created_before ?? null,
  key: query.idempotency_key ?? null,
  page_size: query.page_size ?? maxPageSize,
  after: null
})

const toChangeQuery = (query: ChangesQuery): ChangeQuery => ({
  states: [...new Set(query.state ?? [])],
  type: query.type ?? null,
  page_size: query.page_size ?? maxPageSize,
  after: query.after ?? null
})

const { encode } = makeJsonEncoder(Operation)

/** Makes the reads. They fail with problems of the current request. */
export const makeOperationReads = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const store = yield* OperationStore
  const feed = yield* OperationFeed
  const problems = yield* Problems
  const cipher = yield* TokenCipher

  const refuseFind = (
    error: GrantRefusal | OperationNotFound | MalformedOperation | StoreUnavailable
  ): Effect.Effect<never, ProblemOf<"operation_not_found"> | ReadProblem> =>
    error._tag === "OperationNotFound" ? problems.fail("operation_not_found") : refuseRead(problems, error)

  const refuseChanges = (
    error: GrantRefusal | ChangeTokenError | MalformedOperation | StoreUnavailable
  ): Effect.Effect<never, ProblemOf<"change_token_expired" | "invalid_request"> | ReadProblem> => {
    switch (error._tag) {
      case "ChangeTokenExpired":
        return problems.fail("change_token_expired")
      case "InvalidChangeToken":
        return problems.fail("invalid_request", {
          fields: [{
            path: "query.after",
            message: "Expected a change token of this client, subject, owner and these filters"
          }]
        })
      default:
        return refuseRead(problems, error)
    }
  }

  const refuse = (error: StoreUnavailable) => refuseForNow(problems, error)

  const startOf = Effect.fnUntraced(
    function*(token: string | undefined, filters: OperationQuery) {
      if (token === undefined) return null
      const cursor = yield* Effect.catch(openPageToken(cipher, token, filters), refuse)
      if (cursor !== null) return cursor
      return yield* problems.fail("invalid_page_token", {
        fields: [{ path: "query.page_token", message: "Expected a token of this list and these filters" }]
      })
    }
  )

  const list = Effect.fnUntraced(function*(grant: GrantIdentity, query: ListQuery) {
    const filters = toQuery(query)
    const after = yield* startOf(query.page_token, filters)
    const read = Effect.catch(store.list(grant, { ...filters, after }), (error) => refuseRead(problems, error))
    const page = yield* isFiltered(filters) ? lifecycle.admitList(grant.client_id, read) : read
    const next = page.next === null ? null : sealPageToken(cipher, page.next, filters)
    return {
      operations: page.operations,
      next_page_token: next === null ? null : yield* Effect.catch(next, refuse)
    } satisfies OperationList
  })

  return {
    find: (grant: GrantIdentity, id: OperationId) => Effect.catch(store.find(grant, id), refuseFind),
    list,
    /** A budget per grant sums all operations of the grant, so it waits as a filtered list does. */
    limits: (grant: GrantIdentity): Effect.Effect<GrantLimits, ReadProblem> =>
      lifecycle.admitList(
        grant.client_id,
        Effect.catch(Effect.map(store.limits(grant), (limits) => ({ limits })), (error) => refuseRead(problems, error))
      ),
    /**
     * Withholds an operation that breaks the contract. The encoder of a body finds that while it encodes. Every other answer needs this
     * check, because it may leave out what is wrong: 304 has no body, and tools quote texts and select members.
     */
    check: (operation: Operation): Effect.Effect<Operation, ProblemOf<"response_contract_failed">> =>
      Effect.catch(
        Effect.as(encode(operation), operation),
        () => withhold(problems, MalformedOperation.of(operation.id))
      ),
    /** A page of the change feed. Slow pages wait for a permit of their client, unless `runSlow` says otherwise. */
    changes: (
      grant: GrantIdentity,
      query: ChangesQuery,
      runSlow: RunSlowRead = (read) => lifecycle.admitList(grant.client_id, read)
    ) =>
      Effect.map(
        Effect.catch(feed.since(grant, toChangeQuery(query), runSlow), refuseChanges),
        ({ has_more, next, operations }) =>
          ({ operations, next_change_token: next, has_more }) satisfies OperationChanges
      )
  }
})
