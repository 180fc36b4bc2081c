/**
 * The reads of the change feed, from a grant and checked parameters to a page.
 */
import * as Effect from "effect/Effect"
import { type ChangesQuery, maxPageSize, type OperationChanges } from "../../api/OperationsApi.ts"
import type {
  Forbidden,
  Gone,
  InternalError,
  ServiceUnavailable,
  Unauthorized,
  UnprocessableContent
} from "../../api/Problems.ts"
import type { ChangeQuery, RunSlowRead } from "../../domain/ChangeFeed.ts"
import type { GrantIdentity, GrantRefusal } from "../../domain/Grant.ts"
import type { MalformedOperation } from "../../domain/Operation.ts"
import { type ChangeTokenError, OperationFeed } from "../../services/OperationFeed.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { Lifecycle } from "../gate/Lifecycle.ts"
import { Problems } from "../gate/ProblemResponses.ts"
import { refuseRead } from "../gate/Refusals.ts"

const toChangeQuery = (query: ChangesQuery): ChangeQuery => ({
  states: [...new Set(query.state ?? [])],
  type: query.type ?? null,
  page_size: query.page_size ?? maxPageSize,
  after: query.after ?? null
})

/** Makes the read of a page. It fails with problems of the current request. */
export const makeChangeReads = Effect.gen(function*() {
  const feed = yield* OperationFeed
  const lifecycle = yield* Lifecycle
  const problems = yield* Problems

  const refuse = (
    error: GrantRefusal | ChangeTokenError | MalformedOperation | StoreUnavailable
  ): Effect.Effect<
    never,
    Gone | Unauthorized | Forbidden | UnprocessableContent | InternalError | ServiceUnavailable
  > => {
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

  return {
    /** Slow pages wait for a permit of their client, unless `runSlow` says otherwise. */
    read: (
      grant: GrantIdentity,
      query: ChangesQuery,
      runSlow: RunSlowRead = (read) => lifecycle.admitList(grant.client_id, read)
    ) =>
      Effect.map(
        Effect.catch(feed.since(grant, toChangeQuery(query), runSlow), refuse),
        ({ has_more, next, operations }) =>
          ({ operations, next_change_token: next, has_more }) satisfies OperationChanges
      )
  }
})
