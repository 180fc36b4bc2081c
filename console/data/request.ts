/** Requests to the console's API. */
import type { Refusal } from "../../src/operator/console/ConsoleApi.ts"
import { answered, sessionEnded, unanswered } from "./connection.ts"

const base = "/console/api"

/** Milliseconds after which a request counts as lost. */
const timeout = 20_000

/** The server answered that it does not do this. The message is for the operator. */
export class Refused extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** No answer arrived. It is unknown whether the server saw the request. */
export class Unreachable extends Error {
  override readonly message = "The console's server did not answer."
}

const refusalOf = async (response: Response): Promise<Refused> => {
  const body = await response.json().catch(() => null) as Partial<Refusal> | null
  const detail = body?.detail ?? `The server answered with status ${response.status}.`
  // The log of the server has the reason, under this id.
  const id = response.status < 500 || body?.request_id === undefined ? "" : ` Request ${body.request_id}.`
  return new Refused(response.status, body?.code ?? "unknown", detail + id)
}

/** Sends a request below the API's path, and returns the JSON of the answer. Fails with `Refused` or `Unreachable`. */
export const request = async <A>(path: string, init: RequestInit = {}): Promise<A> => {
  let response: Response
  try {
    response = await fetch(base + path, { ...init, signal: AbortSignal.timeout(timeout) })
  } catch {
    unanswered()
    throw new Unreachable()
  }
  answered()
  if (response.status === 401) sessionEnded()
  if (!response.ok) throw await refusalOf(response)
  try {
    return (response.status === 204 ? undefined : await response.json()) as A
  } catch {
    unanswered()
    throw new Unreachable()
  }
}

/** A header of reads that no operator asked for. They do not prolong the session. */
export const unattended = { "x-console-refresh": "1" } as const
