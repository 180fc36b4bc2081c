/** The stdio transport of MCP: one connection for the process, a message a line. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Queue from "effect/Queue"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { bodyLimits, findExcess } from "../domain/JsonLimits.ts"
import {
  errorCodes,
  errorResponse,
  internalError,
  isRequest,
  type JsonRpcError,
  type JsonRpcMessage,
  readMessage
} from "./JsonRpc.ts"

/** What a line holds: the JSON of a message, which is not checked further, or the error to answer with. */
export type MessageLine =
  | { readonly value: unknown; readonly error: null }
  | { readonly error: JsonRpcError }

const newline = 0x0a

const failed = (code: number, message: string): MessageLine => ({ error: { code, message } })

/** Fails if the bytes are not UTF-8. A part may end within a character. */
const textOf = (parts: ReadonlyArray<Uint8Array>): string => {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  return parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode()
}

/** The message of a complete line; null for a blank line. */
const messageIn = (parts: ReadonlyArray<Uint8Array>): MessageLine | null => {
  try {
    const text = textOf(parts)
    if (text.trim() === "") return null
    // As at `/mcp`. The path is the client's text, so the message leaves it out.
    const excess = findExcess(text, bodyLimits)
    return excess === null
      ? { value: JSON.parse(text) as unknown, error: null }
      : failed(errorCodes.invalidRequest, `Invalid Request: ${excess.message}`)
  } catch {
    // The text of the failure would quote the line.
    return failed(errorCodes.parseError, "Parse error: the line is not JSON in UTF-8")
  }
}

/**
 * Reads lines of at most `limit` bytes from chunks. A longer line becomes an error when it exceeds the limit, and its rest is
 * skipped without being kept.
 */
export const makeLineReader = (limit: number) => {
  let parts: Array<Uint8Array> = []
  let size = 0
  let isSkipping = false

  const add = (part: Uint8Array, found: Array<MessageLine>): void => {
    if (isSkipping) return
    size += part.length
    if (size <= limit) {
      // A copy: the platform may use the buffer of a chunk again.
      if (part.length > 0) parts.push(part.slice())
      return
    }
    isSkipping = true
    parts = []
    found.push(failed(errorCodes.invalidRequest, `Invalid Request: a message has at most ${limit} bytes`))
  }

  const finish = (found: Array<MessageLine>): void => {
    const line = isSkipping ? null : messageIn(parts)
    if (line !== null) found.push(line)
    parts = []
    size = 0
    isSkipping = false
  }

  return {
    /** What the lines hold that end in this chunk. */
    push: (chunk: Uint8Array): ReadonlyArray<MessageLine> => {
      const found: Array<MessageLine> = []
      let from = 0
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
        add(chunk.subarray(from, end), found)
        finish(found)
        from = end + 1
      }
      add(chunk.subarray(from), found)
      return found
    },

    /** What the last line holds if no newline follows it. */
    end: (): ReadonlyArray<MessageLine> => {
      const found: Array<MessageLine> = []
      finish(found)
      return found
    }
  }
}

/** A message as a line. JSON escapes newlines in texts. */
export const lineOf = (message: JsonRpcMessage): string => `${JSON.stringify(message)}\n`

/** Most bytes of a line. */
const maxLine = 1024 * 1024

/** Most requests that run at a time. */
export const maxRunning = 64

/** Messages that wait until the client reads. When there are more, requests wait, and no further line is read. */
const maxUnread = 16

/** How long requests may run on when standard input has ended. */
const lastAnswers = "1 second"

/** A code of the range that MCP leaves to implementations. */
const tooMany = -32_000

export type Send = (message: JsonRpcMessage) => Effect.Effect<void>

/** What handles the messages of a connection. */
export interface Receiver<R> {
  /** Handles a message, and ends when it is answered. */
  readonly receive: (message: JsonRpcMessage) => Effect.Effect<void, never, R>
}

/** Answers a request whose handler ends with a defect. Other requests may run, so that the connection goes on. */
const withDefects = <R>(message: JsonRpcMessage, handled: Effect.Effect<void, never, R>, send: Send) =>
  Effect.catchCause(handled, (cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
    return Effect.andThen(
      Effect.logError("Message failed", cause),
      isRequest(message) ? send(errorResponse(message.id, internalError)) : Effect.void
    )
  })

/**
 * Handles the messages of standard input until it ends, or until the client closes standard output. Requests run at the same
 * time; `initialize` and other messages run in order. Nothing but messages is written to standard output.
 */
export const serveStdio = Effect.fnUntraced(
  function*<R1, R2>(open: (send: Send) => Effect.Effect<Receiver<R1>, never, R2>) {
    const stdio = yield* Stdio.Stdio
    const outgoing = yield* Queue.bounded<JsonRpcMessage, Cause.Done>(maxUnread)
    const send: Send = (message) => Effect.asVoid(Queue.offer(outgoing, message))
    const { receive } = yield* open(send)
    const running = yield* FiberSet.make()

    const handle = Effect.fnUntraced(function*(message: JsonRpcMessage) {
      const handled = withDefects(message, receive(message), send)
      // What follows `initialize` needs its result, also if the client did not wait for it.
      if (!isRequest(message) || message.method === "initialize") return yield* handled
      if ((yield* FiberSet.size(running)) >= maxRunning) {
        const error = { code: tooMany, message: `Too many requests: up to ${maxRunning} may run at a time` }
        return yield* send(errorResponse(message.id, error))
      }
      // It starts at once, so that a cancellation in the next line finds the request.
      yield* FiberSet.run(running, handled)
    })

    const take = (line: MessageLine) => {
      if (line.error !== null) return send(errorResponse(null, line.error))
      const { message, refusal } = readMessage(line.value)
      return message === undefined ? send(refusal) : handle(message)
    }

    const lines = makeLineReader(maxLine)
    const reading = stdio.stdin.pipe(
      Stream.runForEach((chunk) => Effect.forEach(lines.push(chunk), take, { discard: true })),
      Effect.andThen(Effect.suspend(() => Effect.forEach(lines.end(), take, { discard: true }))),
      Effect.andThen(Effect.timeoutOption(FiberSet.awaitEmpty(running), lastAnswers)),
      Effect.andThen(FiberSet.clear(running)),
      Effect.andThen(Queue.end(outgoing))
    )
    const writing = Stream.fromQueue(outgoing).pipe(
      Stream.map(lineOf),
      Stream.run(stdio.stdout({ endOnDone: false }))
    )
    yield* Effect.all([reading, writing], { concurrency: "unbounded", discard: true })
  },
  Effect.scoped,
  // The client is gone.
  Effect.catchTag("PlatformError", (error) => Effect.logDebug("Connection ended", error))
)
