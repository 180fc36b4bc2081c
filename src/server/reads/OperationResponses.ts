/**
 * The responses of the operations endpoints, as functions of what was read.
 */
import type { ChangePage } from "../../domain/ChangeFeed.ts"
import type { EncodedOperation } from "../../domain/EncodedOperation.ts"
import { pollAfterAge } from "../../domain/Operation.ts"
import type { OperationPage } from "../../domain/OperationQuery.ts"
import { matchesTag } from "../gate/RequestChecks.ts"

/** A response before it is sent. Its headers leave out those that every response has. */
export interface OperationResponse {
  readonly status: 200 | 304
  readonly headers: Readonly<Record<string, string>>
  /** Empty with status 304. */
  readonly body: string
}

/** A response is for one grant, and caches must revalidate it: a revocation applies to the very next read. */
const revalidated = { "cache-control": "private, no-cache", vary: "Accept, Authorization" }

/** A response that `Prefer: wait` may delay depends on that header, also if it has not come (RFC 7240 §2). */
const awaitable = { ...revalidated, vary: `${revalidated.vary}, Prefer` }

const contentType = "application/json"

/** Raise it when the public form changes, so that no client keeps a body of the old form. */
const formVersion = 1

/**
 * A strong entity tag (RFC 9110 §8.8.3): the body is a function of the revision and of `under_review`.
 */
const entityTag = ({ revision, under_review }: EncodedOperation): string =>
  `"${formVersion}-${revision}${under_review ? "-review" : ""}"`

/** Whether the client has this form of the operation already. */
export const isHeld = (operation: EncodedOperation, ifNoneMatch: string): boolean =>
  matchesTag(ifNoneMatch, entityTag(operation))

/**
 * The response of a read by id: the operation, or 304 if the client holds it. `now` is in milliseconds since the epoch. A
 * state that is not final has `Retry-After` (RFC 9110 §10.2.3).
 */
export const readResponse = (
  operation: EncodedOperation,
  ifNoneMatch: string | undefined,
  now: number
): OperationResponse => {
  const etag = entityTag(operation)
  const headers = operation.terminal
    ? { etag, ...awaitable }
    : { etag, "retry-after": String(pollAfterAge(now - operation.updated_at)), ...awaitable }
  return ifNoneMatch !== undefined && matchesTag(ifNoneMatch, etag)
    ? { status: 304, headers, body: "" }
    : { status: 200, headers: { "content-type": contentType, ...headers }, body: operation.json }
}

/** A page, and the token of the next one. The token, which needs no escape in JSON, is null on the last page. */
interface TokenPage {
  readonly page: OperationPage
  readonly nextPageToken: string | null
}

/** The response of a list. */
export const listResponse = ({ nextPageToken, page: { json } }: TokenPage): OperationResponse => ({
  status: 200,
  headers: { "content-type": contentType, ...revalidated },
  body: `{"operations":${json},"next_page_token":${nextPageToken === null ? "null" : `"${nextPageToken}"`}}`
})

/** The response of the change feed. A token needs no escape in JSON. */
export const changesResponse = ({ has_more, json, next }: ChangePage): OperationResponse => ({
  status: 200,
  headers: { "content-type": contentType, ...awaitable },
  body: `{"operations":${json},"next_change_token":"${next}","has_more":${has_more}}`
})
