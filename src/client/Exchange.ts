/**
 * One request to the gateway, and its answer or the reason why there is none.
 */
import { unlessAborted } from "./Abort.ts"
import { type Check, isProblem } from "./Answers.ts"
import { ConnectionError, ContractError, ProblemError } from "./ClientErrors.ts"
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

export interface ReadRequest {
  readonly path: string
  readonly query?: Query
  readonly headers?: Readonly<Record<string, string>>
  readonly check: Check
}

/** `body` is undefined after a 304. */
interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

const targetOf = ({ path, query = {} }: ReadRequest): string => {
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

const refusal = (path: string, { body, headers, status }: Answer): Error => {
  const retryAfter = retryAfterSeconds(headers.get("retry-after"))
  if (isProblem(body)) return new ProblemError(body, retryAfter)
  return isProxyFailure(status)
    ? new ConnectionError(`GET ${path}: status ${status} of a proxy before the gateway`, retryAfter)
    : new ContractError(`GET ${path}: status ${status} without a problem of the gateway. Check the base URL`, status)
}

/** Sends a request once. It throws `ProblemError`, `ConnectionError`, `ContractError`, or the reason of the signal. */
export const exchange = async (gateway: Gateway, request: ReadRequest, signal: AbortSignal): Promise<Answer> => {
  const { path } = request
  const token = checkAccessToken(await unlessAborted(signal, async () => await gateway.accessToken()))
  const receive = async (): Promise<Omit<Answer, "body"> & { readonly text: string }> => {
    const response = await gateway.fetch(`${gateway.baseUrl}${targetOf(request)}`, {
      headers: { ...request.headers, accept: "application/json", authorization: `Bearer ${token}` },
      credentials: "omit",
      signal
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const { headers, status, text } = await unlessAborted(signal, receive).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new ConnectionError(`GET ${path}: no complete answer: ${textOf(error, token)}`)
  })
  if (status === 304) return { status, headers, body: undefined }
  const body = jsonOf(text)
  if (status !== 200) throw refusal(path, { status, headers, body })
  const wrong = request.check(body)
  if (wrong === null) return { status, headers, body }
  throw new ContractError(
    body === undefined
      ? `GET ${path}: the answer is not JSON. Check the base URL`
      : `GET ${path}: the answer breaks the contract at ${wrong}`,
    status
  )
}
