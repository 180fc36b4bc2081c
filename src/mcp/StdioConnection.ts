/**
 * The stdio transport of MCP: one connection for the process, a message a line.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import type { PlatformError } from "effect/PlatformError"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { errorCodes, type JsonRpcError, type JsonRpcMessage, type RequestId } from "./JsonRpc.ts"
import { lineOf, makeLineReader, type MessageLine } from "./MessageLines.ts"

/** Most bytes of a line. */
export const maxLine = 1024 * 1024

/** Most requests that are handled at a time, among them subscriptions. */
export const maxRunning = 64

/** Messages that may wait for the client to read. Then requests wait, and no further line is read. */
const maxUnread = 16

/** How long requests may run on when standard input has ended. */
const lastAnswers = "1 second"

/** A code of the range that MCP leaves to implementations. */
const tooMany = -32_000

export type Send = (message: JsonRpcMessage) => Effect.Effect<void>

/** What handles the messages of a connection. */
export interface Receiver {
  /** Handles a message, and ends after the response. Interruption cancels a request. */
  readonly receive: (message: unknown) => Effect.Effect<void>
}

/** The id of a request; null for a message of another kind. */
const requestIdOf = (message: unknown): RequestId | null => {
  if (typeof message !== "object" || message === null || !("id" in message && "method" in message)) return null
  return typeof message.id === "string" || typeof message.id === "number" ? message.id : null
}

const refusal = (id: RequestId | null, error: JsonRpcError): JsonRpcMessage => ({ jsonrpc: "2.0", id, error })

/**
 * Handles the messages of standard input until it ends, or until the client closes standard output. Requests run at the same
 * time, and other messages run in order between them. It writes nothing but messages to standard output.
 */
export const serveStdio = Effect.fnUntraced(
  function*<R>(open: (send: Send) => Effect.Effect<Receiver, never, R | Scope.Scope>) {
    const stdio = yield* Stdio.Stdio
    const outgoing = yield* Queue.bounded<JsonRpcMessage, Cause.Done>(maxUnread)
    const send: Send = (message) => Effect.asVoid(Queue.offer(outgoing, message))
    const { receive } = yield* open(send)
    const running = yield* FiberSet.make()

    const handle = (message: unknown) => {
      const id = requestIdOf(message)
      // A defect must not end the connection: other requests may run.
      const handled = Effect.catchCauseIf(
        receive(message),
        (cause) => !Cause.hasInterruptsOnly(cause),
        (cause) =>
          Effect.andThen(
            Effect.logError("Message failed", cause),
            id === null ? Effect.void : send(refusal(id, { code: errorCodes.internalError, message: "Internal error" }))
          )
      )
      if (id === null) return handled
      return Effect.flatMap(FiberSet.size(running), (count) =>
        count >= maxRunning
          ? send(refusal(id, { code: tooMany, message: `Too many requests: at most ${maxRunning} run at a time` }))
          // At once, so that a cancellation in the next line finds the request.
          : Effect.asVoid(FiberSet.run(running, handled, { startImmediately: true })))
    }

    const take = (line: MessageLine) => line.error === null ? handle(line.message) : send(refusal(null, line.error))
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
  Effect.catchTag("PlatformError", (error: PlatformError) => Effect.logDebug("Connection ended", error))
)
