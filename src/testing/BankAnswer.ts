/**
 * The answers of a provider in the conformance kit, and their bytes.
 */
import type * as Schema from "effect/Schema"

/** A request as the provider received it. */
export interface ReceivedRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The operation that an answer is about. An answer names it as the provider does: by the id, the reference, or both. */
export interface AnswerSubject {
  /** Id of the operation, which the adapter sent as idempotency key. */
  readonly id: string
  /** The provider's reference. */
  readonly reference: string
  /** The request that is answered. */
  readonly request: ReceivedRequest
}

/** An answer of the provider. With neither `body` nor `text` it is empty. */
export interface BankAnswer {
  readonly status: number
  /** Default: `Content-Type: application/json` for `body`, `text/html` for `text`. */
  readonly headers?: Readonly<Record<string, string>>
  /** The body as JSON. */
  readonly body?: Schema.Json
  /** A body that is no JSON, such as a page. */
  readonly text?: string
}

/** Makes the answer about an operation. */
export type Answering = (subject: AnswerSubject) => BankAnswer

export const textOf = ({ body, text }: BankAnswer): string => body === undefined ? text ?? "" : JSON.stringify(body)

/** The status line and the headers, with the empty line that ends them. `length` null leaves out `Content-Length`. */
export const headOf = (
  answer: BankAnswer,
  length: number | null = Buffer.byteLength(textOf(answer))
): string => {
  const type = answer.body === undefined ? "text/html" : "application/json"
  const headers = {
    "Content-Type": type,
    ...(length === null ? {} : { "Content-Length": String(length) }),
    Connection: "close",
    ...answer.headers
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${answer.status} Answer`, ...lines, "", ""].join("\r\n")
}

/** The whole answer. */
export const bytesOf = (answer: BankAnswer): string => headOf(answer) + textOf(answer)
