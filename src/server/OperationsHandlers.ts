/**
 * Handlers of the operations endpoints: list, and read by id.
 */
import * as Clock from "effect/Clock"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Api } from "../api/Api.ts"
import { CurrentGrant } from "../api/Middleware.ts"
import { type ListQuery, maxPageSize } from "../api/OperationsApi.ts"
import type {
  Forbidden,
  InternalError,
  NotFound,
  ServiceUnavailable,
  Unauthorized,
  UnprocessableContent
} from "../api/Problems.ts"
import type { MalformedOperation } from "../domain/EncodedOperation.ts"
import type { GrantRefusal } from "../domain/Grant.ts"
import type { OperationNotFound } from "../domain/Operation.ts"
import { isFiltered, maxLookedAt, type OperationQuery, type QueryTooBroad } from "../domain/OperationQuery.ts"
import { OperationStore } from "../services/OperationStore.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { listResponse, type OperationResponse, readResponse } from "./OperationResponses.ts"
import { decodePageToken, encodePageToken } from "./PageToken.ts"
import { Problems } from "./ProblemResponses.ts"
import { refuseForNow, refuseGrant, withhold } from "./Refusals.ts"

/** The headers come last, so that those of the body keep their place in front. */
const send = ({ body, headers, status }: OperationResponse): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setHeaders(
    status === 304 ? HttpServerResponse.empty({ status }) : HttpServerResponse.text(body),
    headers
  )

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
      error: GrantRefusal | MalformedOperation | StoreUnavailable
    ): Effect.Effect<never, Unauthorized | Forbidden | InternalError | ServiceUnavailable> => {
      switch (error._tag) {
        case "StoreUnavailable":
          return refuseForNow(problems, error)
        case "MalformedOperation":
          return withhold(problems, error)
        default:
          return refuseGrant(problems, error)
      }
    }

    const refuseList = (
      error: GrantRefusal | QueryTooBroad | MalformedOperation | StoreUnavailable
    ): Effect.Effect<never, Unauthorized | Forbidden | UnprocessableContent | InternalError | ServiceUnavailable> =>
      error._tag === "QueryTooBroad"
        ? problems.fail("invalid_request", {
          fields: [{
            path: "query.updated_after",
            message: `Expected a later instant: more than ${maxLookedAt} operations were updated after this one`
          }]
        })
        : refuse(error)

    const refuseRead = (
      error: GrantRefusal | OperationNotFound | MalformedOperation | StoreUnavailable
    ): Effect.Effect<never, NotFound | Unauthorized | Forbidden | InternalError | ServiceUnavailable> =>
      error._tag === "OperationNotFound" ? problems.fail("operation_not_found") : refuse(error)

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
        const list = Effect.catch(store.listEncoded(grant, { ...filters, after }), refuseList)
        const page = yield* isFiltered(filters) ? lifecycle.admitList(grant.client_id, list) : list
        const token = page.next === null ? null : yield* withDigest(encodePageToken(page.next, filters))
        return send(listResponse(page, token))
      }),

      get: Effect.fnUntraced(function*({ headers, params }) {
        const grant = yield* CurrentGrant
        const operation = yield* Effect.catch(store.findEncoded(grant, params.id), refuseRead)
        return send(readResponse(operation, headers["if-none-match"], yield* Clock.currentTimeMillis))
      })
    })
  })
)
