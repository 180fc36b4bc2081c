/** The contract of the operations endpoints: a client lists and reads the operations of its grant's resource owner. */
import * as DateTime from "effect/DateTime"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { RemainingLimit } from "../domain/AuthorizationDetails.ts"
import { ChangeToken } from "../domain/ChangeFeed.ts"
import { IdempotencyKey } from "../domain/Idempotency.ts"
import { strict } from "../domain/InvalidMember.ts"
import { acceptedOperation, Operation, OperationId, OperationState, OperationType } from "../domain/Operation.ts"
import { instantPattern, isInstant } from "../domain/Timestamp.ts"
import { Gate } from "./Middleware.ts"
import { problems, refusedGrants } from "./Problems.ts"

/** The largest page (specification, "Limits"), and the default. */
export const maxPageSize = 100

/**
 * An instant that bounds a list: RFC 3339 with any offset. Operations are dated in milliseconds, so a finer bound is
 * rounded to the side on which it selects the same operations.
 */
const Bound = (round: "down" | "up", description: string) =>
  Schema.String.annotate({ format: "date-time", description }).check(
    Schema.makeFilter(isInstant, {
      expected: "an RFC 3339 date-time such as 2026-01-31T12:00:00Z",
      // The format alone also allows `t` and `z`.
      toJsonSchema: () => ({ pattern: instantPattern.source })
    })
  ).pipe(
    Schema.decodeTo(
      Schema.DateTimeUtc,
      SchemaTransformation.transform({
        decode: (text) => {
          const millis = Date.parse(text)
          return DateTime.makeUnsafe(round === "up" && /\.\d{3}\d*[1-9]/.test(text) ? millis + 1 : millis)
        },
        encode: (instant) => DateTime.formatIso(instant)
      })
    )
  )

/** 1 to 100, in decimal digits without leading zeros. */
const PageSize = Schema.String.check(
  Schema.isPattern(/^(?:[1-9][0-9]?|100)$/u, { expected: "an integer from 1 to 100" })
).pipe(
  Schema.decodeTo(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxPageSize })).annotate({
      description: "Operations a page.",
      default: maxPageSize
    }),
    SchemaTransformation.numberFromString
  )
)

const UniqueStates = Schema.Array(OperationState).check(Schema.isMaxLength(7))

/** The query parameters of `GET /v1/operations`. Bounds are exclusive. */
export const ListQuery = Schema.Struct({
  state: Schema.optionalKey(UniqueStates.annotate({
    description: "Only operations in this state; repeat the parameter for several."
  })),
  type: Schema.optionalKey(OperationType),
  created_after: Schema.optionalKey(
    Bound("down", "Only operations created after this instant, exclusive. RFC 3339 with any offset.")
  ),
  created_before: Schema.optionalKey(
    Bound("up", "Only operations created before this instant, exclusive. RFC 3339 with any offset.")
  ),
  idempotency_key: Schema.optionalKey(IdempotencyKey.annotate({
    description:
      "Only the operation of the request with this `Idempotency-Key`: one at most. None means that the ledger has recorded no "
      + "request under this key so far, for this client and subject. A request that is still on its way may be recorded "
      + "later. So do not choose another key: repeat the same request with the same key."
  })),
  page_size: Schema.optionalKey(PageSize),
  page_token: Schema.optionalKey(
    Schema.String.annotate({
      description:
        "`next_page_token` of the page before. The filters must be those of that page; the page size may change."
    })
  )
})
export type ListQuery = typeof ListQuery.Type

const exampleTime = DateTime.makeUnsafe("2026-01-31T12:00:00.000Z")

/** The operation in the examples of the OpenAPI document when it was accepted, and later. */
export const acceptedExample = acceptedOperation(
  OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"),
  "payment",
  exampleTime
)
export const exampleOperation: Operation = {
  ...acceptedExample,
  state: "indeterminate",
  submission_uncertain: true,
  revision: 3,
  updated_at: DateTime.add(exampleTime, { milliseconds: 2417 })
}

/** One page of operations, newest first. */
export const OperationList = Schema.Struct({
  operations: Schema.Array(Operation).check(Schema.isMaxLength(maxPageSize)),
  next_page_token: Schema.NullOr(Schema.String).annotate({
    description: "Opaque token of the next page; null on the last one."
  })
}).annotate({
  identifier: "OperationList",
  description: "One page of operations, newest first.",
  examples: [{ operations: [exampleOperation], next_page_token: null }]
})
export type OperationList = typeof OperationList.Type

/** The query parameters of `GET /v1/operations/changes`. */
export const ChangesQuery = Schema.Struct({
  after: Schema.optionalKey(
    ChangeToken.annotate({
      description:
        "`next_change_token` of the page before, with the same filters. Without it the feed starts at the first "
        + "operation of the ledger that the grant may see."
    })
  ),
  state: Schema.optionalKey(UniqueStates.annotate({
    description: "Only operations that are in this state now; repeat the parameter for several."
  })),
  type: Schema.optionalKey(OperationType),
  page_size: Schema.optionalKey(PageSize)
})
export type ChangesQuery = typeof ChangesQuery.Type

/** One page of the change feed. */
export const OperationChanges = Schema.Struct({
  operations: Schema.Array(Operation).check(Schema.isMaxLength(maxPageSize)).annotate({
    description: "The current state of the operations that changed, in the order of the feed."
  }),
  next_change_token: Schema.String.annotate({ description: "Opaque token of the place after this page." }),
  has_more: Schema.Boolean.annotate({ description: "Whether more changes are there already." })
}).annotate({
  identifier: "OperationChanges",
  description: "One page of the change feed.",
  examples: [{ operations: [exampleOperation], next_change_token: "q6ct1c1Wk0WvPUWvm8WxVQ", has_more: false }]
})
export type OperationChanges = typeof OperationChanges.Type

/** The limits of the grant and of its access token. */
export const GrantLimits = Schema.Struct({
  limits: Schema.Array(RemainingLimit).annotate({ description: "Empty: there are none." })
}).annotate({
  identifier: "GrantLimits",
  description: "What remains of each limit now. Every limit that concerns an operation must have room for its amount.",
  examples: [{
    limits: [{
      operation_types: ["payment"],
      limit: { currency: "EUR", amount: "500.00", per: "day", time_zone: "Europe/Berlin" },
      remaining: "12.50",
      resets_at: DateTime.makeUnsafe("2026-01-31T23:00:00.000Z")
    }]
  }]
})
export type GrantLimits = typeof GrantLimits.Type

/**
 * A header that the gateway always sends and that no client needs: the OpenAPI document requires it. A browser withholds it from pages of
 * other origins, and a CDN may remove it, so clients read the response without it, too.
 *
 * @internal
 */
export const sentHeader = (description: string) =>
  Schema.optionalKey(Schema.String.annotate({ description, isAlwaysSent: true }))

const commonHeaders = {
  "cache-control": sentHeader("The response is for one grant and must be asked about anew."),
  vary: sentHeader("Which request headers the response depends on.")
}

const waitHeaders = {
  "preference-applied": Schema.optionalKey(Schema.String.annotate({
    description: "`wait=N` if the gateway honoured the wait (RFC 7240 §3)."
  }))
}

const preferHeader = {
  prefer: Schema.optionalKey(Schema.String.annotate({
    examples: ["wait=30"],
    description: "`wait=N`: the answer may wait for a change, for at most N seconds, up to 60 (RFC 7240 §4.3)."
  }))
}

const changesHeaders = { ...commonHeaders, ...waitHeaders }

const readHeaders = {
  etag: Schema.String.annotate({ title: "ETag", description: "Strong entity tag of this revision." }),
  "retry-after": Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
      description: "Seconds to wait before the next read. Absent once the state is final."
    })
  ),
  ...commonHeaders,
  ...waitHeaders
}

/** Accepts `undefined` alone. `Empty(304)` accepts any value, so an invalid operation would be sent as a 304. */
const NotModified = Schema.Undefined.pipe(
  HttpApiSchema.asNoContent({ decode: () => undefined }),
  HttpApiSchema.status(304)
).annotate({ description: "The operation is as the client knows it." })

/**
 * `GET /v1/operations` and `GET /v1/operations/{id}` (specification, "Endpoints"), for grants with `operations:read`.
 */
export class OperationsApi extends HttpApiGroup.make("operations").add(
  HttpApiEndpoint.get("list", "/v1/operations", {
    query: ListQuery,
    success: HttpApiSchema.WithHeaders(OperationList, commonHeaders),
    error: problems(...refusedGrants, "invalid_page_token")
  }).annotateMerge(OpenApi.annotations({
    identifier: "listOperations",
    summary: "List operations",
    description:
      "Returns up to 100 recent matching operations of the current grant's resource owner, subject and client, "
      + "newest first. Requires the scope `operations:read`."
  })),
  HttpApiEndpoint.get("changes", "/v1/operations/changes", {
    query: ChangesQuery,
    headers: preferHeader,
    success: HttpApiSchema.WithHeaders(OperationChanges, changesHeaders),
    error: problems(...refusedGrants, "change_token_expired")
  }).annotateMerge(OpenApi.annotations({
    identifier: "listChanges",
    summary: "Follow all operations",
    description:
      "Returns the current state of each operation that changed since the token, each change at least once, in an "
      + "order that never skips. Requires the scope `operations:read`."
  })),
  HttpApiEndpoint.get("get", "/v1/operations/:id", {
    params: { id: OperationId },
    headers: {
      "if-none-match": Schema.optionalKey(Schema.String.annotate({
        description: "Entity tags that the client holds (RFC 9110 §13.1.2)."
      })),
      ...preferHeader
    },
    success: [
      HttpApiSchema.WithHeaders(Operation.annotateKey({ examples: [exampleOperation] }), readHeaders),
      HttpApiSchema.WithHeaders(NotModified, readHeaders)
    ],
    error: problems(...refusedGrants, "operation_not_found")
  }).annotateMerge(OpenApi.annotations({
    identifier: "getOperation",
    summary: "Read an operation",
    description: "Returns the public form of an operation. Reading never submits anything. Requires the scope "
      + "`operations:read`."
  })),
  HttpApiEndpoint.get("limits", "/v1/limits", {
    success: HttpApiSchema.WithHeaders(GrantLimits, commonHeaders),
    error: problems(...refusedGrants)
  }).annotateMerge(OpenApi.annotations({
    identifier: "getLimits",
    summary: "Read what remains of the limits",
    description:
      "Returns the limits of the current grant and access token, with what remains of each. Requires the scope "
      + "`operations:read`."
  }))
)
  .middleware(Gate)
  .annotate(HttpApi.QueryParseOptions, strict)
  .annotateMerge(OpenApi.annotations({
    description: "Durable financial operation status owned by the current subject and client."
  }))
{}
