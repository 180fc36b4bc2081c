/** Requests to the console's API. */
import type { Refusal } from "../../src/operator/console/ConsoleApi.ts"
import { answered, sessionEnded, unanswered } from "./connection.ts"

const base = "/console/api"

/** Milliseconds after which a request counts as lost. */
const timeout = 20_000

/** The server answered with a problem. The message is for the operator. */
export class Refused extends Error {
  readonly status: number
  readonly code: string

  constructor({ code, detail, request_id, status }: Refusal) {
    // The log of the server has the reason, under this id.
    super(status < 500 ? detail : `${detail} Request ${request_id}.`)
    this.status = status
    this.code = code
  }
}

/** The server did not answer, or a proxy did in its place. It is unknown whether the server saw the request. */
export class Unreachable extends Error {
  override readonly message = "The console's server did not answer."
}

/** Sends a request below the API's path, and returns the JSON of the answer. Fails with `Refused` or `Unreachable`. */
export const request = async <A>(path: string, init: RequestInit = {}): Promise<A> => {
  let problem: Refusal
  try {
    const response = await fetch(base + path, { ...init, signal: AbortSignal.timeout(timeout) })
    if (response.status === 401) sessionEnded()
    const body = response.status === 204 ? undefined : await response.json()
    if (!response.ok && body.detail === undefined) throw body
    answered()
    if (response.ok) return body as A
    problem = body
  } catch {
    unanswered()
    throw new Unreachable()
  }
  throw new Refused(problem)
}

/** A header of reads that no operator asked for. They do not prolong the session. */
export const unattended = { "x-console-refresh": "1" } as const
