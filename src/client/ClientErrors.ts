/** Why a call of the client on `fetch` failed. No error holds the access token or the body of an answer. */
import type { ProblemCode } from "../api/ProblemKinds.ts"
import type { ProblemDetails as ProblemSchema } from "../api/Problems.ts"
import { ProblemDetails } from "./answerMembers.ts"
import { problemText } from "./problemText.ts"

/** The members of a problem (RFC 9457). A later gateway may answer with codes that this client does not know. */
export type ProblemMembers = Omit<typeof ProblemSchema.Encoded, "code"> & {
  readonly code: ProblemCode | (string & {})
}

const problemNames = Object.keys(ProblemDetails) as ReadonlyArray<keyof ProblemMembers>

/** An error with the members of the contract, which its subclass assigns. The compiler does not see that. */
const ErrorWithMembers = Error as unknown as new(message: string) => Error & ProblemMembers

/**
 * An answer of the gateway that refuses the request. `code` tells problems apart, and `detail` says what to do. `retryable`: the identical
 * request may succeed later.
 */
export class ProblemError extends ErrorWithMembers {
  override readonly name = "ProblemError"
  /** Seconds of `Retry-After`; null without it. */
  readonly retryAfter: number | null

  constructor(members: ProblemMembers, retryAfter: number | null) {
    super(problemText(members))
    Object.assign(this, Object.fromEntries(problemNames.map((name) => [name, members[name]])))
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

/** An answer breaks the contract of the gateway: check the base URL. Whether a `POST` was recorded is unknown then. */
export class ContractError extends Error {
  override readonly name = "ContractError"
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}
