/** Why a call of the client on `fetch` failed. No error holds the access token or the body of an answer. */
import type { ProblemCode } from "../api/ProblemKinds.ts"
import type { ProblemDetails as ProblemSchema } from "../api/Problems.ts"
import { ProblemDetails } from "./answerMembers.ts"
import { problemText } from "./problemText.ts"
import { uncertainRecord } from "./ReadRules.ts"

/** The members of a problem (RFC 9457). A later gateway may answer with codes that this client does not know. */
export type ProblemMembers = Omit<typeof ProblemSchema.Encoded, "code"> & {
  readonly code: ProblemCode | (string & {})
}

const problemNames = Object.keys(ProblemDetails) as ReadonlyArray<keyof ProblemMembers>

/** An error with the members of the contract, which its subclass assigns. The compiler does not see that. */
const ErrorWithMembers = Error as unknown as new(message: string) => Error & ProblemMembers

/**
 * An answer of the gateway that refuses the request. `code` tells problems apart, and `detail` says what to do. `retryable`: the identical
 * request may succeed later. `submission_uncertain`: an attempt of this call of `submit` may be recorded, and the message says so.
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
  /** The identical request may succeed later. False with \`submission_uncertain\`. */
  readonly retryable: boolean = true
  /** Whether an attempt of `submit` may be recorded. */
  readonly submission_uncertain: boolean = false
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
  /** Whether an attempt of `submit` may be recorded. */
  readonly submission_uncertain: boolean = false
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

/** What the failures of a request for work tell about its record. */
export interface Uncertainty {
  /** Whether the attempt that failed so recorded nothing. */
  readonly isRefusal: (error: unknown) => boolean
  /** The last failure, after this or an earlier attempt may have recorded the work. */
  readonly mark: (error: unknown) => unknown
}

/** Marks errors of this module. The reason of a signal, and errors of functions of the caller, stay as they are. @internal */
export const uncertainty: Uncertainty = {
  isRefusal: (error) => error instanceof ProblemError && error.status < 500,
  mark: (error) =>
    error instanceof ProblemError || error instanceof ConnectionError || error instanceof ContractError
      ? Object.assign(error, {
        message: `${error.message}. ${uncertainRecord}`,
        retryable: false,
        submission_uncertain: true
      })
      : error
}
