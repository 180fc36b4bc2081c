/**
 * A client of the gateway on `fetch`, for programs without Effect, in browsers and in Node: promises and async iterables.
 *
 * `get`, `limits`, `list` and `listAll` send each request once. The other calls repeat their reads, and `submit` its request under the same
 * key, after a retryable problem or a lost connection. `docs/operations.md` tells when they wait, poll and end.
 *
 * A waiting read holds a connection, and browsers open six to a host over HTTP/1.1. Follow many operations by `changes`.
 */
import type { ChangesQuery as ChangesSchema, ListQuery as ListSchema } from "../api/OperationsApi.ts"
import { abortable } from "./Abort.ts"
import { ContractError, uncertainty } from "./ClientErrors.ts"
import { follow, followChanges, type Known, type OperationAnswer, type Prefer, repeat, type Retry } from "./Engine.ts"
import {
  checkChanges,
  checkLimits,
  checkList,
  checkOperation,
  type ClientRequest,
  exchange,
  type Gateway,
  type GrantLimits,
  type Operation,
  type OperationChanges,
  type OperationList,
  type Query
} from "./Exchange.ts"
import { checkBaseUrl, checkWait, defaultWait, retryAfterSeconds, submitWithin, warnAfter } from "./ReadRules.ts"

export { ConnectionError, ContractError, ProblemError } from "./ClientErrors.ts"
export type { GrantLimits, Operation, OperationChanges, OperationList, Retry }

/** The address of the gateway, and the access token. */
export interface ClientOptions {
  /** Base URL of the service, such as `https://gateway.example`. */
  readonly baseUrl: string
  /** The access token. A function runs for each request, so that it can renew an expired token. Its errors end the call. */
  readonly accessToken: string | (() => string | Promise<string>)
  /** Sends the requests instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
  /**
   * Seconds that a read may wait for a change, 0 to 60; 50 by default. Choose less than the time after which proxies between
   * the client and the gateway cut an idle connection. With 0 the client polls.
   */
  readonly wait?: number
  /**
   * Seconds after which a request that keeps failing is not repeated any more: the call ends with its last error. Choose some to notice a
   * wrong address. Default: 60 for the request of `submit`, and no limit for reads.
   */
  readonly within?: number
  /**
   * Called before a failed request is repeated. An error of it ends the call. Default: `console.warn`, once for each request that has
   * failed for 5 seconds, as with a wrong address.
   */
  readonly onRetry?: (retry: Retry) => void
}

/** Work of a mutation endpoint. */
export interface Submission {
  /**
   * The idempotency key: it names this work for ever. Store it before the call, and repeat the same work with the same key alone, also in a
   * later process.
   */
  readonly key: string
  /** The body of the request, as JSON. */
  readonly payload: unknown
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call with the reason of the signal. */
  readonly signal?: AbortSignal
}

type Filters<Encoded> =
  & { readonly [Name in Exclude<keyof Encoded, "page_size">]?: Encoded[Name] | undefined }
  & { readonly page_size?: number | undefined }

/** The filters of a list. Bounds are exclusive, as RFC 3339 texts. */
export type ListQuery = Filters<typeof ListSchema.Encoded>

/** The filters of the change feed. */
export type ChangesFilters = Filters<Omit<typeof ChangesSchema.Encoded, "after">>

/** Typed calls of the gateway. */
export interface Client {
  readonly get: (id: string, options?: CallOptions) => Promise<Operation>
  /** What remains of the limits of the grant and of its access token. */
  readonly limits: (options?: CallOptions) => Promise<GrantLimits>
  /** One page, newest first. */
  readonly list: (query?: ListQuery, options?: CallOptions) => Promise<OperationList>
  /** All matching operations, newest first. It reads each page when the iteration needs it. */
  readonly listAll: (
    query?: Omit<ListQuery, "page_token">,
    options?: CallOptions
  ) => AsyncIterableIterator<Operation, void, undefined>
  /**
   * The operation that this client and subject requested under an idempotency key. Null if the gateway has recorded no such
   * request so far: one that is still on its way may be recorded later. So repeat that request with the same key, and never
   * with another one.
   */
  readonly findByKey: (key: string, options?: CallOptions) => Promise<Operation | null>
  /**
   * Requests work at a mutation endpoint, such as `/v1/transfers`. The operation as it was accepted, and then each change of it, until it
   * is final.
   *
   * A `ProblemError` at the first step with `submission_uncertain: false` says that no attempt of this call was recorded. After any
   * other failure of that step that is unknown: repeat the request with the same key. Errors of this client have
   * `submission_uncertain: true` then, and are not `retryable`. An abort, and an error of `accessToken` or `onRetry`, are thrown as they are.
   */
  readonly submit: (
    path: string,
    submission: Submission,
    options?: CallOptions
  ) => AsyncIterableIterator<Operation, void, undefined>
  /** The operation as it is, and then each change of it, until it is final. */
  readonly follow: (id: string, options?: CallOptions) => AsyncIterableIterator<Operation, void, undefined>
  /** The operation when it is final. An indeterminate operation may stay so for long: set a limit of your own. */
  readonly settled: (id: string, options?: CallOptions) => Promise<Operation>
  /**
   * The pages of the change feed, without end. Each change is in a page at least once, and an operation is in its current state.
   * Without a token it starts at the first operation that the grant may see. Store `next_change_token` after you handled the page,
   * and pass it to resume with the same filters. A page may be empty: its token is later all the same. `has_more` is false when the
   * reader has caught up.
   */
  readonly changes: (
    token?: string | null,
    filters?: ChangesFilters,
    options?: CallOptions
  ) => AsyncIterableIterator<OperationChanges, void, undefined>
}

const gatewayOf = ({ accessToken, baseUrl, fetch }: ClientOptions): Gateway => {
  return {
    baseUrl: checkBaseUrl(baseUrl).replace(/(?<!\/)\/+$/, ""),
    accessToken: typeof accessToken === "function" ? accessToken : () => accessToken,
    // Browsers refuse `fetch` as a method of another object.
    fetch: fetch ?? ((...request) => globalThis.fetch(...request))
  }
}

const pathOf = (id: string): string => {
  // Another text would name another resource, such as the list.
  if (!/^[0-9a-f-]{36}$/.test(id)) throw new TypeError("id must be the id of an operation")
  return `/v1/operations/${id}`
}

const submitRequest = (path: string, { key, payload, ...others }: Submission): ClientRequest => {
  // Another path would send the access token and the work elsewhere.
  if (!/^\/(?!\/)[^?#\s\\]*$/.test(path)) throw new TypeError("path must be that of an endpoint, such as /v1/transfers")
  if (key === undefined) throw new TypeError("submit takes a path and { key, payload }: the key is missing")
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) {
    throw new TypeError(
      `submit takes a path and { key, payload }: ${unknown} is none of them. createClient takes within`
    )
  }
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new TypeError("key must have 1 to 255 visible ASCII characters")
  }
  // With other clients and by curl, quotes stand around the key and are no part of it.
  if (/^".*"$/.test(key)) throw new TypeError("key must not begin and end with a quote: submit adds the quotes")
  const body = JSON.stringify(payload) as string | undefined
  if (body === undefined) throw new TypeError("payload must be JSON")
  return {
    path,
    headers: { "idempotency-key": `"${key.replace(/["\\]/g, "\\$&")}"` },
    body,
    check: checkOperation
  }
}

const listRequest = (query: Query): ClientRequest => ({ path: "/v1/operations", query, check: checkList })

const readOperation = async (
  gateway: Gateway,
  id: string,
  known: Known<Operation> | null,
  prefer: Prefer,
  signal: AbortSignal
): Promise<OperationAnswer<Operation>> => {
  const headers = known === null ? {} : { ...prefer, "if-none-match": known.etag }
  const answer = await exchange(gateway, { path: pathOf(id), headers, check: checkOperation }, signal)
  const etag = answer.headers.get("etag")
  if (etag === null) {
    throw new ContractError("the answer has no ETag. For pages of another origin, expose ETag by CORS", answer.status)
  }
  return {
    // `exchange` has checked the body.
    operation: answer.body as Operation | undefined,
    etag,
    applied: answer.headers.get("preference-applied"),
    retryAfter: retryAfterSeconds(answer.headers.get("retry-after"))
  }
}

const readChanges = async (gateway: Gateway, query: Query, prefer: Prefer, signal: AbortSignal) => {
  const { body, headers } = await exchange(
    gateway,
    { path: "/v1/operations/changes", query, headers: { ...prefer }, check: checkChanges },
    signal
  )
  return { page: body as OperationChanges, applied: headers.get("preference-applied") }
}

const makeWarning = (): (retry: Retry) => void => {
  let hasWarned = false
  return ({ elapsed, error, failures, pause }) => {
    if (failures === 1) hasWarned = false
    if (hasWarned || elapsed + pause < warnAfter) return
    hasWarned = true
    const why = error instanceof Error ? error.message : String(error)
    // oxlint-disable-next-line no-console -- a wrong address would be silent for a minute; `onRetry` replaces it
    console.warn(`The gateway gives no result, and the request is repeated: ${why}`)
  }
}

/** Makes a client. It throws `TypeError` or `RangeError` if an option is malformed. */
export const createClient = (options: ClientOptions): Client => {
  const gateway = gatewayOf(options)
  const wait = checkWait(options.wait ?? defaultWait)
  const { within } = options
  const retrying = () => ({
    ...within === undefined ? {} : { within },
    onRetry: options.onRetry ?? makeWarning()
  })
  const once = async (request: ClientRequest, { signal = new AbortController().signal }: CallOptions = {}) =>
    (await exchange(gateway, request, signal)).body
  const client: Client = {
    // `exchange` checks the body, here and in the other calls.
    get: async (id, call) => await once({ path: pathOf(id), check: checkOperation }, call) as Operation,
    limits: async (call) => await once({ path: "/v1/limits", check: checkLimits }, call) as GrantLimits,
    list: async (query = {}, call) => await once(listRequest(query), call) as OperationList,
    listAll: (query = {}, { signal: outer } = {}) =>
      abortable(outer, async function*(signal) {
        for (let page_token: string | null | undefined; page_token !== null;) {
          const page: OperationList = await client.list({ ...query, page_token }, { signal })
          yield* page.operations
          page_token = page.next_page_token
        }
      }),
    findByKey: async (key, { signal = new AbortController().signal } = {}) => {
      // Without a key the gateway would list all operations.
      if (typeof key !== "string" || key === "") throw new TypeError("key must be an idempotency key")
      const request = listRequest({ idempotency_key: key })
      const { body } = await repeat((_, inner) => exchange(gateway, request, inner), retrying(), signal)
      return (body as OperationList).operations[0] ?? null
    },
    submit: (path, submission, { signal: outer } = {}) => {
      const request = submitRequest(path, submission)
      return abortable(outer, async function*(signal) {
        const limits = { within: submitWithin, ...retrying(), uncertainty }
        const send = (_: Prefer, inner: AbortSignal) => exchange(gateway, request, inner)
        const accepted = (await repeat(send, limits, signal)).body as Operation
        yield accepted
        if (accepted.terminal) return
        let { revision, under_review } = accepted
        for await (const operation of client.follow(accepted.id, { signal })) {
          if (operation.revision !== revision || operation.under_review !== under_review) yield operation
          ;({ revision, under_review } = operation)
        }
      })
    },
    follow: (id, { signal } = {}) =>
      follow(
        { wait, signal, ...retrying() },
        (known, prefer, inner) => readOperation(gateway, id, known, prefer, inner)
      ),
    settled: async (id, call) => {
      let last: Operation | null = null
      for await (const operation of client.follow(id, call)) last = operation
      // The iteration ends with a final operation, or throws.
      return last!
    },
    changes: (token = null, filters = {}, { signal } = {}) =>
      followChanges(
        { wait, signal, ...retrying() },
        token,
        (after, prefer, inner) => readChanges(gateway, { ...filters, after }, prefer, inner)
      )
  }
  return client
}
