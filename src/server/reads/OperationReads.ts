/**
 * The room `reads`: reads that answer at once, and their responses. Read this file first.
 *
 * The reads of operations, from a grant and checked parameters to values of the contract.
 */
import * as Effect from "effect/Effect"
import { type ListQuery, maxPageSize, type OperationList } from "../../api/OperationsApi.ts"
import type { Forbidden, InternalError, NotFound, ServiceUnavailable, Unauthorized } from "../../api/Problems.ts"
import { makeJsonEncoder } from "../../dispatch/JsonEncoder.ts"
import type { GrantIdentity, GrantRefusal } from "../../domain/Grant.ts"
import { MalformedOperation, Operation, type OperationId, type OperationNotFound } from "../../domain/Operation.ts"
import { isFiltered, type OperationQuery } from "../../domain/OperationQuery.ts"
import { OperationStore } from "../../services/OperationStore.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { TokenCipher } from "../../services/TokenCipher.ts"
import { Lifecycle } from "../gate/Lifecycle.ts"
import { Problems } from "../gate/ProblemResponses.ts"
import { refuseForNow, refuseRead } from "../gate/Refusals.ts"
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

const { encode } = makeJsonEncoder(Operation)

/**
 * Fails for an operation that breaks the contract. A list over HTTP is checked where its body is encoded. Every other read is checked
 * here, because its answer may leave out what is wrong: 304 has no body, and tools quote texts and select members.
 */
export const checkContract = (operation: Operation): Effect.Effect<Operation, MalformedOperation> =>
  Effect.mapBoth(encode(operation), {
    onFailure: () => MalformedOperation.of(operation.id),
    onSuccess: () => operation
  })

/** Makes the reads. They fail with problems of the current request. */
export const makeOperationReads = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const store = yield* OperationStore
  const problems = yield* Problems
  const cipher = yield* TokenCipher

  const refuseFind = (
    error: GrantRefusal | OperationNotFound | MalformedOperation | StoreUnavailable
  ): Effect.Effect<never, NotFound | Unauthorized | Forbidden | InternalError | ServiceUnavailable> =>
    error._tag === "OperationNotFound" ? problems.fail("operation_not_found") : refuseRead(problems, error)

  const refuse = (error: StoreUnavailable) => refuseForNow(problems, error)

  /** The start of the page that the query asks for. */
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
    find: (grant: GrantIdentity, id: OperationId) =>
      Effect.catch(Effect.flatMap(store.find(grant, id), checkContract), refuseFind),
    list
  }
})
