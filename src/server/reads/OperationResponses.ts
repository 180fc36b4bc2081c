/** The responses of the operations endpoints, as functions of what was read. Their schemas encode them. */
import * as DateTime from "effect/DateTime"
import { withHeaders } from "effect/http-api/HttpApiSchema"
import type { GrantLimits, OperationChanges, OperationList } from "../../api/OperationsApi.ts"
import { type Operation, pollAfterSeconds } from "../../domain/Operation.ts"
import { matchesTag } from "../gate/RequestChecks.ts"

/** A response is for one grant, and caches must revalidate it: a revocation applies to the very next read. */
const revalidated = { "cache-control": "private, no-cache", vary: "Accept, Authorization" }

/** A response that `Prefer: wait` may delay depends on that header, also if it has not come (RFC 7240 §2). */
const awaitable = { ...revalidated, vary: `${revalidated.vary}, Prefer` }

/** Says that a wait was honoured (RFC 7240 §3). `waited` has its seconds; null: none was. */
const applied = (waited: number | null) => waited === null ? {} : { "preference-applied": `wait=${waited}` }

/** Raise it when the public form changes, so that no client keeps a body of the old form. */
const formVersion = 1

/**
 * A strong entity tag (RFC 9110 §8.8.3): the body is a function of the revision, its time and `under_review`. After a restore of the
 * ledger a revision may be another change, at another time.
 */
export const entityTag = ({ revision, under_review, updated_at }: Operation): string =>
  // A store may break the contract. The encoder withholds the body of such an operation.
  `"${formVersion}-${revision}-${DateTime.isDateTime(updated_at) ? updated_at.epochMilliseconds.toString(36) : ""}${
    under_review ? "-review" : ""
  }"`

/** Whether the client has this form of the operation already. */
export const isHeld = (operation: Operation, ifNoneMatch: string | undefined): boolean =>
  ifNoneMatch !== undefined && matchesTag(ifNoneMatch, entityTag(operation))

/**
 * The response of a read by id: the operation, or 304 without a body if the client has it (`held`). A state that is not final has
 * `Retry-After` (RFC 9110 §10.2.3).
 */
export const readResponse = (
  operation: Operation,
  { held, now, waited }: {
    readonly held: boolean
    readonly now: DateTime.Utc
    readonly waited: number | null
  }
) => {
  const seconds = DateTime.isDateTime(operation.updated_at) ? pollAfterSeconds(operation, now) : null
  const headers = {
    etag: entityTag(operation),
    ...seconds === null ? {} : { "retry-after": seconds },
    ...awaitable,
    ...applied(waited)
  }
  return held
    ? withHeaders({ body: undefined, headers })
    : withHeaders({ body: operation, headers })
}

/** The response of a list. */
export const listResponse = (body: OperationList) => withHeaders({ body, headers: revalidated })

/** The response of the limits. */
export const limitsResponse = (body: GrantLimits) => withHeaders({ body, headers: revalidated })

/** The response of the change feed. */
export const changesResponse = (body: OperationChanges, waited: number | null) =>
  withHeaders({ body, headers: { ...awaitable, ...applied(waited) } })
