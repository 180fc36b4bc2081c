/** Reads requests and sends answers, complete or spoilt by a fault. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { IncomingMessage, ServerResponse } from "node:http"
import { pipeline, type Readable } from "node:stream"
import { TLSSocket } from "node:tls"
import { type Answer, badGateway } from "./Dialect.ts"
import type { Spoiler } from "./Faults.ts"
import { decodeInstruction, type Instruction } from "./SandboxOutcome.ts"

const maxBody = 1_048_576

export type Body = Buffer | "incomplete" | "too_large"

/** Waits until the body is complete, is too large, or cannot become complete. */
export const readBody = (request: IncomingMessage): Effect.Effect<Body> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBody) chunks.push(chunk)
      else resume(Effect.succeed("too_large"))
    })
    request.once("end", () => resume(Effect.succeed(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))))
    // Is also emitted after `end`; then the effect has completed already.
    request.once("close", () => resume(Effect.succeed("incomplete")))
    request.on("error", () => {})
  })

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Formats a schema error in one line: each issue with the path to the invalid member. */
export const describeIssues = (error: Schema.SchemaError): string =>
  format(error.issue).issues.map(({ message, path = [] }) =>
    [...path.map((segment) => String(typeof segment === "object" ? segment.key : segment)), message].join(": ")
  ).join("; ").replaceAll(/\s+/gu, " ")

/** A part of a path. Empty: it is no percent-encoding. */
export const decodePercent = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return ""
  }
}

export const hangUp = (response: ServerResponse): void => {
  response.destroy()
}

/** Sends an answer. Completes when the operating system has it, or the connection has closed. */
export const send = (response: ServerResponse, answer: Answer): Effect.Effect<void> =>
  Effect.callback((resume) => {
    response.once("close", () => resume(Effect.void))
    response.writeHead(answer.status, {
      ...answer.headers,
      "content-type": answer.contentType,
      "content-length": Buffer.byteLength(answer.text)
    })
    response.end(answer.text, () => resume(Effect.void))
  })

/** Streams lines of JSON. A failure ends the response early. */
export const sendLines = (response: ServerResponse, lines: Readable): Effect.Effect<void> =>
  Effect.callback((resume) => {
    response.writeHead(200, { "content-type": "application/x-ndjson" })
    pipeline(lines, response, () => resume(Effect.void))
    return Effect.sync(() => void lines.destroy())
  })

const sendHalf = (response: ServerResponse, answer: Answer): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const body = Buffer.from(answer.text)
    response.once("close", () => resume(Effect.void))
    response.writeHead(answer.status, { "content-type": answer.contentType, "content-length": body.length })
    // A reset discards bytes that are not sent yet, so it follows the write.
    response.write(body.subarray(0, body.length >> 1), () => {
      const { socket } = response
      // Node cannot reset a connection with TLS.
      if (socket instanceof TLSSocket) socket.destroy()
      else socket?.resetAndDestroy()
    })
  })

const garbage = `{"reference": \0<<${"\u{fffd}".repeat(8)}`

export const sendSpoilt = (response: ServerResponse, answer: Answer, spoiler: Spoiler): Effect.Effect<void> => {
  switch (spoiler) {
    case "drop_response":
      return Effect.sync(() => hangUp(response))
    case "reset_mid_body":
      return sendHalf(response, answer)
    case "garbage_body":
      return send(response, { ...answer, text: garbage })
    case "wrong_content_type":
      return send(response, { ...answer, contentType: "text/html" })
    case "bad_gateway":
      return send(response, badGateway)
  }
}

const prefix = "sandbox "

const decodeJson = Schema.decodeResult(Schema.fromJsonString(Schema.Json))

/** Undefined: the text has none. Fails with the reason, in one line. */
export const instructionIn = (text: string): Result.Result<Instruction | undefined, string> =>
  text.startsWith(prefix)
    ? Result.mapError(
      Result.flatMap(decodeJson(text.slice(prefix.length)), decodeInstruction),
      (error) => `the instruction to the sandbox: ${describeIssues(error)}`
    )
    : Result.succeed(undefined)
