/**
 * Why a call of the client on `fetch` failed. No error holds the access token or the body of an answer.
 */
import type { ProblemCode } from "../api/ProblemKinds.ts"

/** The members of a problem (RFC 9457). A later gateway may answer with codes that this client does not know. */
export interface ProblemMembers {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly code: ProblemCode | (string & {})
  readonly fields: ReadonlyArray<{ readonly path: string; readonly message: string }> | null
  readonly request_id: string
  readonly retryable: boolean
  readonly submission_uncertain: boolean
}

/** A problem in one line, for logs and terminals: what happened, the fields that it is about, the code and the request id. */
export const problemText = (
  { code, detail, fields, request_id, title }: Pick<
    ProblemMembers,
    "code" | "detail" | "fields" | "request_id" | "title"
  >
): string => {
  const named = (fields ?? []).map(({ message, path }) => `${path}: ${message}`).join("; ")
  return `${title}: ${detail}${named === "" ? "" : ` ${named}`} (${code}, request ${request_id})`
}

/** An answer of the gateway that refuses the request. `code` tells problems apart, and `detail` says what to do. */
export class ProblemError extends Error implements ProblemMembers {
  override readonly name = "ProblemError"
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly code: ProblemMembers["code"]
  readonly fields: ProblemMembers["fields"]
  readonly request_id: string
  /** Whether the identical request may succeed later. */
  readonly retryable: boolean
  readonly submission_uncertain: boolean
  /** Seconds of `Retry-After`; null without it. */
  readonly retryAfter: number | null

  constructor(members: ProblemMembers, retryAfter: number | null) {
    super(problemText(members))
    this.type = members.type
    this.title = members.title
    this.status = members.status
    this.detail = members.detail
    this.instance = members.instance
    this.code = members.code
    this.fields = members.fields
    this.request_id = members.request_id
    this.retryable = members.retryable
    this.submission_uncertain = members.submission_uncertain
    this.retryAfter = retryAfter
  }
}

/** There was no complete answer: the connection failed or ended, or a proxy answered in place of the gateway. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError"
  /** The identical request may succeed later. */
  readonly retryable = true
  /** Seconds of `Retry-After` in the answer of a proxy; null without it. */
  readonly retryAfter: number | null

  constructor(message: string, retryAfter: number | null = null) {
    super(message)
    this.retryAfter = retryAfter
  }
}

/** An answer breaks the contract of the gateway: check the base URL. */
export class ContractError extends Error {
  override readonly name = "ContractError"
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}
