/**
 * How a bank reads requests and writes answers: its paths, members, headers, and how idempotency keys and look-ups work. The engine
 * (`Submissions`) holds all else: record, outcomes, faults, arrivals and webhooks. `SandboxDialect` is the dialect of the sandbox.
 */
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { SandboxFailure, SubmissionKey } from "./Protocol.ts"
import type { Instruction, KnownSubmission } from "./SandboxOutcome.ts"

/** A request without its body. */
export interface RequestHead {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | Array<string> | undefined>>
  /** When it arrived. Milliseconds since 1970. */
  readonly now: number
}

/** An answer of the bank. */
export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly text: string
  readonly headers?: Readonly<Record<string, string>>
}

/** What a request asks for. `Answered`: it is refused, or needs nothing of the engine. A function makes the answer of the body. */
export type Demand =
  /** Null: the body has the key. */
  | { readonly _tag: "Submit"; readonly key: SubmissionKey | null }
  | { readonly _tag: "ReadByKey"; readonly key: SubmissionKey }
  | { readonly _tag: "ReadByReference"; readonly reference: string }
  /**
   * A page of the submissions that the bank carries out, the newest first: those that `matches` accepts (default: all), from the one after
   * the reference `after` on. The function makes the answer. `hasMore`: others follow the page.
   */
  | {
    readonly _tag: "List"
    readonly limit: number
    readonly after?: string | null
    readonly matches?: (known: KnownSubmission) => boolean
    readonly answer: (page: ReadonlyArray<KnownSubmission>, hasMore: boolean) => Answer
  }
  /** A client cancels an order that may still be cancelled, or a person at the bank approves it. */
  | { readonly _tag: "Cancel"; readonly reference: string }
  | { readonly _tag: "Approve"; readonly reference: string }
  | { readonly _tag: "Answered"; readonly answer: Answer | ((body: string) => Answer) }

/** The submission of a valid request. */
export interface Submission {
  /** Of a request whose head has none. */
  readonly key?: SubmissionKey
  readonly type: string
  /** The outcome. What it leaves out, the seed of the sandbox decides. */
  readonly instruction: Instruction | undefined
  /** Milliseconds since 1970, after which the bank does not carry it out. Infinite: it may at any time. */
  readonly sendBefore: number
  /** It cannot pay: it only occupies the key. A request that the bank refused or lost does not have the key. */
  readonly isFence?: boolean
  /** What later answers repeat of the request. The record keeps it. */
  readonly echo?: Schema.Json
}

/** What the bank says. */
export type Saying =
  /** It has the submission. `isFirst`: it had no earlier one with this key. `isSame`: nor one with another body. */
  | { readonly _tag: "Taken"; readonly known: KnownSubmission; readonly isFirst: boolean; readonly isSame: boolean }
  | { readonly _tag: "Refused"; readonly key: SubmissionKey; readonly failure: SandboxFailure }
  | { readonly _tag: "TooLate" | "DuplicateKey"; readonly key: SubmissionKey }
  /** The reason in one line. */
  | { readonly _tag: "Invalid"; readonly key: SubmissionKey | null; readonly reason: string }
  /** The answer to a status read. */
  | { readonly _tag: "Status"; readonly known: KnownSubmission }
  | { readonly _tag: "NotFound"; readonly demand: Demand }
  | { readonly _tag: "Unauthorized" | "BodyTooLarge" }
  | { readonly _tag: "TooManyRequests"; readonly retryAfterSeconds: number }

/** What a webhook is about. */
export interface BankEvent {
  readonly id: string
  readonly kind: "accepted" | "settled" | "returned"
  /** Milliseconds since 1970. */
  readonly at: number
  readonly known: KnownSubmission
}

/** How a bank reads requests and writes answers. */
export interface Dialect {
  /** Reads the head of a request. Null: the path is none of the bank's. */
  readonly demandOf: (head: RequestHead) => Demand | null
  /** Reads the body of a `Submit`. Fails with the reason, in one line, why it is invalid. */
  readonly submissionOf: (head: RequestHead, body: string) => Result.Result<Submission, string>
  /** `head` is that of the request which is answered. */
  readonly write: (saying: Saying, head: RequestHead) => Answer
  /** Whether the bank cancels or approves the submission if it is asked now. Default: never. */
  readonly isOpen?: (known: KnownSubmission) => boolean
  /** The body of a webhook. Default: that of the sandbox. */
  readonly webhook?: (event: BankEvent) => Schema.Json
}

/** The dialect answers the request itself. */
export const answered = (answer: Answer | ((body: string) => Answer)): Demand => ({ _tag: "Answered", answer })

export const jsonAnswer = <Body>(
  status: number,
  body: Body,
  headers: Readonly<Record<string, string>> = {}
): Answer => ({ status, contentType: "application/json", text: JSON.stringify(body), headers })

/** The answer of a proxy that cannot reach its server. */
export const badGateway: Answer = {
  status: 502,
  contentType: "text/html",
  text: "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
}
