/**
 * Handlers of the operations endpoints: list, and read by id.
 */
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { withHeaders } from "effect/http-api/HttpApiSchema"
import { Api } from "../api/Api.ts"
import { CurrentGrant } from "../api/Middleware.ts"
import { type ListQuery, maxPageSize } from "../api/OperationsApi.ts"
import type { Forbidden, NotFound, ServiceUnavailable, Unauthorized, UnprocessableContent } from "../api/Problems.ts"
import type { GrantRefusal } from "../domain/Grant.ts"
import { type Operation, pollAfterSeconds } from "../domain/Operation.ts"
import { isFiltered, maxLookedAt, type OperationQuery, type QueryTooBroad } from "../domain/OperationQuery.ts"
import { OperationStore } from "../services/OperationStore.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { decodePageToken, encodePageToken } from "./PageToken.ts"
import { Problems } from "./ProblemResponses.ts"
import { refuseForNow, refuseGrant } from "./Refusals.ts"

/** A response is for one grant, and caches must revalidate it: a revocation applies to the very next read. */
const cacheControl = "private, no-cache"
const vary = "Accept, Authorization"

/** Raise it when the public form changes, so that no client keeps a body of the old form. */
const formVersion = 1

/**
 * A strong entity tag (RFC 9110 §8.8.3): the body is a function of the revision and of `under_review`.
 */
const entityTag = (operation: Operation): string =>
  `"${formVersion}-${operation.revision}${operation.under_review ? "-review" : ""}"`

/** Whether `If-None-Match` names the tag: alone, in a list, as a weak tag, or as `*` (RFC 9110 §13.1.2). */
const matchesTag = (ifNoneMatch: string, tag: string): boolean =>
  ifNoneMatch.trim() === "*" || ifNoneMatch.matchAll(/"[^"]*"/g).some(([candidate]) => candidate === tag)

const toQuery = (query: ListQuery): OperationQuery => ({
  states: [...new Set(query.state ?? [])],
  type: query.type ?? null,
  created_after: query.created_after ?? null,
  created_before: query.created_before ?? null,
  updated_after: query.updated_after ?? null,
  page_size: query.page_size ?? maxPageSize,
  after: null
})

/** Handlers of `OperationsApi`, on the provided `OperationStore`. */
export const OperationsLayer = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fn(function*(handlers) {
    const lifecycle = yield* Lifecycle
    const store = yield* OperationStore
    const problems = yield* Problems
    const digest = yield* Digest.Digest
    const withDigest = Effect.provideService(Digest.Digest, digest)

    const refuse = (
      error: GrantRefusal | StoreUnavailable
    ): Effect.Effect<never, Unauthorized | Forbidden | ServiceUnavailable> =>
      error._tag === "StoreUnavailable" ? refuseForNow(problems, error) : refuseGrant(problems, error)

    const refuseList = (
      error: GrantRefusal | QueryTooBroad | StoreUnavailable
    ): Effect.Effect<never, Unauthorized | Forbidden | UnprocessableContent | ServiceUnavailable> =>
      error._tag === "QueryTooBroad"
        ? problems.fail("invalid_request", {
          fields: [{
            path: "query.updated_after",
            message: `Expected a later instant: more than ${maxLookedAt} operations were updated after this one`
          }]
        })
        : refuse(error)

    return handlers.handleAll({
      list: Effect.fnUntraced(function*({ query }) {
        const grant = yield* CurrentGrant
        const filters = toQuery(query)
        const after = query.page_token === undefined
          ? null
          : (yield* withDigest(decodePageToken(query.page_token, filters))) ?? (yield* problems.fail(
            "invalid_page_token",
            { fields: [{ path: "query.page_token", message: "Expected a token of this list and these filters" }] }
          ))
        const list = Effect.catch(store.list(grant, { ...filters, after }), refuseList)
        const page = yield* isFiltered(filters) ? lifecycle.admitList(grant.client_id, list) : list
        return withHeaders({
          body: {
            operations: page.operations,
            next_page_token: page.next === null ? null : yield* withDigest(encodePageToken(page.next, filters))
          },
          headers: { "cache-control": cacheControl, vary }
        })
      }),

      get: Effect.fnUntraced(function*({ headers, params }) {
        const grant = yield* CurrentGrant
        const operation = yield* store.find(grant, params.id).pipe(
          Effect.catch((error): Effect.Effect<never, NotFound | Unauthorized | Forbidden | ServiceUnavailable> =>
            error._tag === "OperationNotFound" ? problems.fail("operation_not_found") : refuse(error)
          )
        )
        const etag = entityTag(operation)
        const retryAfter = pollAfterSeconds(operation, yield* DateTime.now)
        const read = { etag, "cache-control": cacheControl, vary }
        const metadata = retryAfter === null ? read : { ...read, "retry-after": retryAfter }
        const ifNoneMatch = headers["if-none-match"]
        const isKnown = ifNoneMatch !== undefined && matchesTag(ifNoneMatch, etag)
        return isKnown
          ? withHeaders({ body: undefined, headers: metadata })
          : withHeaders({ body: operation, headers: metadata })
      })
    })
  })
)
