/**
 * One request to the gateway, and its answer or the reason why there is none. An answer has the members of the contract.
 * Members that a later gateway adds are ignored.
 */
import type {
  GrantLimits as LimitsSchema,
  OperationChanges as ChangesSchema,
  OperationList as ListSchema
} from "../api/OperationsApi.ts"
import type { Operation as OperationSchema } from "../domain/Operation.ts"
import { unlessAborted } from "./Abort.ts"
import * as members from "./answerMembers.ts"
import { ConnectionError, ContractError, ProblemError, type ProblemMembers } from "./ClientErrors.ts"
import { checkAccessToken, isProxyFailure, retryAfterSeconds } from "./ReadRules.ts"

/** The gateway, and how to reach it. */
export interface Gateway {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly accessToken: () => string | Promise<string>
  readonly fetch: typeof globalThis.fetch
}

/** Values that are undefined or null are left out; each value of an array is sent. */
export type Query = Readonly<Record<string, string | number | ReadonlyArray<string> | null | undefined>>

export interface ClientRequest {
  readonly path: string
  readonly query?: Query
  readonly headers?: Readonly<Record<string, string>>
  /** JSON of a `POST`, whose answer is 202. Undefined: a `GET`. */
  readonly body?: string
  readonly check: Check
}

/** `body` is undefined after a 304, which only a request with `if-none-match` gets. */
interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

const nameOf = ({ body, path }: ClientRequest): string => `${body === undefined ? "GET" : "POST"} ${path}`

const targetOf = ({ path, query = {} }: ClientRequest): string => {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value ?? []].flat()) parameters.append(name, String(one))
  }
  const text = parameters.toString()
  return text === "" ? path : `${path}?${text}`
}

/** What the platform says of a failed connection. A `fetch` of the caller may quote the headers of the request. */
const textOf = (error: unknown, token: string): string => {
  if (!(error instanceof Error)) return "unknown error"
  const { cause } = error
  const texts = [error.message, ...cause instanceof Error ? [cause.message] : []].filter((text) => text !== "")
  return texts.join(": ").replaceAll(token, "<token>")
}

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

const breach = (request: ClientRequest, text: string, status: number): ContractError =>
  new ContractError(`${nameOf(request)}: ${text}`, status)

/** Browsers show a redirect that they do not follow as status 0. */
const isRedirect = (status: number): boolean => [0, 301, 302, 303, 307, 308].includes(status)

const refusal = (request: ClientRequest, { body, headers, status }: Answer): Error => {
  const retryAfter = retryAfterSeconds(headers.get("retry-after"))
  if (isProblem(body)) return new ProblemError(body, retryAfter)
  if (isRedirect(status)) return breach(request, "a redirect, which is not followed. Check the base URL", status)
  return isProxyFailure(status)
    ? new ConnectionError(`${nameOf(request)}: status ${status} of a proxy before the gateway`, retryAfter)
    : breach(request, `status ${status} without a problem of the gateway. Check the base URL`, status)
}

/** Sends a request once. It throws `ProblemError`, `ConnectionError`, `ContractError`, or the reason of the signal. */
export const exchange = async (gateway: Gateway, request: ClientRequest, signal: AbortSignal): Promise<Answer> => {
  const { body: sent, headers: own } = request
  const content = sent === undefined ? {} : { "content-type": "application/json" }
  const token = checkAccessToken(await unlessAborted(signal, async () => await gateway.accessToken()))
  const receive = async (): Promise<Omit<Answer, "body"> & { readonly text: string }> => {
    const response = await gateway.fetch(`${gateway.baseUrl}${targetOf(request)}`, {
      ...sent === undefined ? {} : { method: "POST", body: sent },
      // A redirect that is followed sends the work, or the read, to another server.
      redirect: "manual",
      headers: { ...own, ...content, accept: "application/json", authorization: `Bearer ${token}` },
      credentials: "omit",
      signal
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const { headers, status, text } = await unlessAborted(signal, receive).catch((error: unknown) => {
    signal.throwIfAborted()
    const { origin } = new URL(gateway.baseUrl)
    throw new ConnectionError(`${nameOf(request)}: no complete answer from ${origin}: ${textOf(error, token)}`)
  })
  if (status === 304 && own?.["if-none-match"] !== undefined) return { status, headers, body: undefined }
  const body = jsonOf(text)
  if (status !== (sent === undefined ? 200 : 202)) throw refusal(request, { status, headers, body })
  const wrong = request.check(body)
  if (wrong === null) return { status, headers, body }
  throw breach(
    request,
    body === undefined ? "the answer is not JSON. Check the base URL" : `the answer breaks the contract at ${wrong}`,
    status
  )
}

/** An operation as JSON: times are ISO strings in UTC. */
export type Operation = typeof OperationSchema.Encoded

/** One page of operations, newest first. `next_page_token` is null on the last one. */
export type OperationList = typeof ListSchema.Encoded

/** One page of the change feed, with the token of the place after it. */
export type OperationChanges = typeof ChangesSchema.Encoded

/** What remains of each limit of the grant and of its access token. */
export type GrantLimits = typeof LimitsSchema.Encoded

/** Names the first member that is missing or of another type; null if there is none. */
export type Check = (value: unknown) => string | null

/** The kinds of a value: those of `members.ts`. */
const kindsOf = (value: unknown): ReadonlyArray<string> => {
  if (value === null) return ["nullable string", "nullable object", "nullable array"]
  const kind = Array.isArray(value) ? "array" : typeof value
  const operations = Array.isArray(value) && value.every((one) => checkOperation(one) === null) ? ["operations"] : []
  return [kind, `nullable ${kind}`, ...operations]
}

const optional = "optional "

/** Whether a member is of its kind. One that the value lacks is undefined. */
const isOfKind = (member: unknown, kind: string): boolean =>
  kind.startsWith(optional)
    ? member === undefined || isOfKind(member, kind.slice(optional.length))
    : kindsOf(member).includes(kind)

/** Checks the members by their kinds. @internal */
export const hasMembers = (members: Readonly<Record<string, string>>): Check => (value) => {
  if (typeof value !== "object" || value === null) return "object"
  const found = value as Readonly<Record<string, unknown>>
  return Object.entries(members).find(([name, kind]) => !isOfKind(found[name], kind))?.[0] ?? null
}

export const checkOperation: Check = hasMembers(members.Operation)

export const checkList = hasMembers(members.OperationList)

export const checkChanges = hasMembers(members.OperationChanges)

export const checkLimits = hasMembers(members.GrantLimits)

const checkProblem = hasMembers(members.ProblemDetails)

export const isProblem = (value: unknown): value is ProblemMembers => checkProblem(value) === null
