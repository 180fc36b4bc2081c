/**
 * The room `server/agents`: `/mcp`, the reads of its tools, and the tools of applications. Read this file first.
 *
 * The endpoint for language-model agents, `POST /mcp`: MCP over Streamable HTTP, without sessions. Each request passes the gate as
 * any other does. Its message is handled in a fiber of its own, which outlives the handler if the response is a stream.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { McpApi } from "../../api/McpApi.ts"
import { CurrentGrant } from "../../api/Middleware.ts"
import { isProblem } from "../../api/Problems.ts"
import { adviceOnRefusedMutation } from "../../mcp/Advice.ts"
import { AgentReads, ReadRefused } from "../../mcp/AgentReads.ts"
import {
  errorCodes,
  errorResponse,
  internalError,
  isNotification,
  isRequest,
  type JsonRpcError,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type JsonRpcResponse,
  modern,
  readMessage
} from "../../mcp/JsonRpc.ts"
import { McpConnections } from "../../mcp/McpConnections.ts"
import { errorOfRefusal } from "../../mcp/OperationAnswer.ts"
import { isOperationTool } from "../../mcp/OperationTools.ts"
import { noteWait } from "../../metrics/HttpMetrics.ts"
import { CurrentSlot } from "../gate/Admission.ts"
import { BaseUrl } from "../gate/BaseUrl.ts"
import { isOverdue, Lifecycle } from "../gate/Lifecycle.ts"
import { problemResponse, Problems } from "../gate/ProblemResponses.ts"
import { CurrentRequest, noteInterrupted } from "../gate/RequestContext.ts"
import { AllowedOrigins } from "./AllowedOrigins.ts"
import { type ClientCall, type ClientRequests, makeClientRequests } from "./ClientRequests.ts"
import { eventStream } from "./EventStream.ts"
import { CurrentDenial, makeGrantReads, type RequestReads } from "./GrantReads.ts"
import { acceptsEvents, findHeaderError } from "./McpHeaders.ts"

/** Messages of a stream that may wait for a slow client. */
const maxUnsent = 16

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A refusal has a line in the log with its request id, as a problem has. */
const json = (response: JsonRpcResponse, status: number): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.as(
    status < 400 || !("error" in response) ?
      Effect.void :
      Effect.flatMap(CurrentRequest, (request) =>
        Effect.annotateLogs(Effect.logInfo("Request refused"), {
          code: response.error.code,
          status,
          path: request?.path,
          request_id: request?.id
        })),
    HttpServerResponse.jsonUnsafe(response, { status })
  )

/** Version 2026-07-28 has statuses for the errors of a message as a whole. Errors of a call are 200. */
const statusOf = (response: JsonRpcResponse, isModern: boolean): number => {
  if (!("error" in response)) return 200
  switch (response.error.code) {
    case errorCodes.methodNotFound:
      return isModern ? 404 : 200
    case errorCodes.invalidRequest:
    case errorCodes.headerMismatch:
    case errorCodes.missingClientCapability:
    case errorCodes.unsupportedProtocolVersion:
      return 400
    default:
      return 200
  }
}

const isResponse = (message: JsonRpcMessage): message is JsonRpcResponse => !("method" in message)

/**
 * Reads the message of a request. A body that is no JSON is refused with a problem, as at every endpoint; JSON that is no message
 * with an error of JSON-RPC.
 */
const readBody = Effect.fnUntraced(function*(problems: Problems["Service"], request: HttpServerRequest) {
  const value = parse(yield* Effect.orDie(request.text))
  if (value === undefined) {
    return yield* problems.fail("invalid_request", { fields: [{ path: "body", message: "Expected JSON" }] })
  }
  const read = readMessage(value)
  if (read.refusal !== undefined) return read
  const error = findHeaderError(request.headers, read.message)
  return error === null ? read : { refusal: errorResponse(isRequest(read.message) ? read.message.id : null, error) }
})

/** Also the answer to a response for a call of another grant, or in another process. */
const noCallWaits: JsonRpcError = {
  code: errorCodes.invalidRequest,
  message: "Invalid request: no call waits for this response"
}

/** What the model reads if a call of a tool of the application, which may record work, has no answer. */
const unknownRecord = adviceOnRefusedMutation("service_unavailable")

const mayRecord = ({ method, params }: JsonRpcRequest): boolean =>
  method === "tools/call" && !isOperationTool(params?.["name"])

/** The error of a request whose work ended without an answer. Its cause is not for clients. */
const errorOfFailure = (request: JsonRpcRequest, cause: Cause.Cause<never>): JsonRpcError => {
  if (!Cause.hasInterruptsOnly(cause)) return internalError
  const error = errorOfRefusal(
    new ReadRefused({
      code: "service_unavailable",
      detail: isOverdue(cause) ? "The store did not answer in time." : "The gateway is shutting down."
    })
  )
  return mayRecord(request) ? { ...error, message: unknownRecord } : error
}

/** Handles messages of the current request, each in a fiber of the request's scope. */
const makeExchange = Effect.gen(function*() {
  const connections = yield* McpConnections
  const lifecycle = yield* Lifecycle

  return Effect.fnUntraced(function*(
    requests: ClientRequests,
    message: JsonRpcMessage,
    { note, reads }: RequestReads,
    takesEvents: boolean
  ) {
    const scope = yield* Effect.scope
    const slot = yield* CurrentSlot
    const grant = yield* CurrentGrant
    const outbox = yield* Queue.make<JsonRpcMessage, Cause.Done>({ capacity: maxUnsent })
    let isAnswered = false
    let call: ClientCall | null = null
    const offer = (sent: JsonRpcMessage) => Effect.asVoid(Queue.offer(outbox, sent))
    // A client without event streams gets the response alone.
    const send = (sent: JsonRpcMessage) => {
      if (isResponse(sent)) isAnswered = true
      if (isRequest(sent) && call !== null) return requests.ask(call, sent, takesEvents, scope)
      return takesEvents || isResponse(sent) ? offer(sent) : Effect.void
    }
    let isEnded = false
    const end = (exit: Exit.Exit<void>) => {
      isEnded = true
      if (call !== null) requests.end(call)
      if (slot?.isHandedOver === true) lifecycle.leave(slot)
      // A call that ends without a failure and without an answer was cancelled.
      if (!isAnswered && isRequest(message) && Exit.isFailure(exit)) {
        Queue.offerUnsafe(outbox, errorResponse(message.id, errorOfFailure(message, exit.cause)))
      }
      Queue.endUnsafe(outbox)
      return Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)
        ? Effect.logError("Request failed with a defect", exit.cause)
        : Effect.void
    }
    const handled = Effect.scoped(
      Effect.flatMap(connections.open("http", send), ({ receive }) => {
        if (isRequest(message)) {
          call = {
            grant,
            slot,
            id: message.id,
            send: offer,
            receive: (received) => Effect.provideService(receive(received), AgentReads, reads)
          }
        }
        return receive(message)
      })
    ).pipe(
      Effect.provideService(AgentReads, reads),
      Effect.provideService(CurrentDenial, note),
      Effect.onExit((exit) => Effect.suspend(() => end(exit)))
    )
    const fiber = yield* Effect.forkIn(Effect.interruptible(handled), scope)

    /** The slot of the request ends with the fiber, because the handler returns before. */
    const handOver = Effect.sync(() => {
      // A fiber may have ended its work and still run: it would not free the slot again.
      if (slot === null || slot.fiber === null || isEnded) return
      slot.isHandedOver = true
      slot.fiber = fiber as Fiber.Fiber<unknown, unknown>
    })
    return { handOver, outbox }
  })
})

/** The handler of the endpoint. */
export const McpLayer = HttpApiBuilder.group(
  McpApi,
  "mcp",
  Effect.fn(function*(handlers) {
    const problems = yield* Problems
    const { origin: ownOrigin } = new URL(yield* BaseUrl)
    const origins = new Set([ownOrigin, ...yield* AllowedOrigins])
    const exchange = yield* makeExchange
    const { answerAlone } = yield* McpConnections
    const grantReads = yield* makeGrantReads
    const requests = yield* makeClientRequests

    const handle = Effect.fnUntraced(function*(request: HttpServerRequest) {
      const { headers } = request
      // A page of another origin could reach a gateway of the local network through a rebound name.
      if (headers["origin"] !== undefined && !origins.has(headers["origin"])) {
        return yield* problems.fail("origin_not_allowed")
      }
      const { message, refusal } = yield* readBody(problems, request)
      const isModern = headers["mcp-protocol-version"] === modern
      if (refusal !== undefined) return yield* json(refusal, 400)
      const grant = yield* CurrentGrant
      if (isResponse(message)) {
        return (yield* requests.answer(grant, message))
          ? HttpServerResponse.empty({ status: 202 })
          : yield* json(errorResponse(null, noCallWaits), 400)
      }
      if (isNotification(message) && message.method === "notifications/cancelled") {
        yield* requests.cancel(grant, message)
      }
      const granted = yield* grantReads
      const answered = (response: JsonRpcResponse) => {
        const problem = granted.denial()
        return problem === null ? json(response, statusOf(response, isModern)) : problemResponse(problem)
      }
      const alone = answerAlone(message)
      if (alone !== null) return yield* answered(yield* Effect.provideService(alone, AgentReads, granted.reads))
      if (isRequest(message) && mayRecord(message)) yield* noteInterrupted(unknownRecord)
      const { handOver, outbox } = yield* exchange(requests, message, granted, acceptsEvents(headers))
      const first = yield* Effect.catch(Queue.take(outbox), () => Effect.succeed(null))
      // Notifications of the client get no response of their own.
      if (first === null) return HttpServerResponse.empty({ status: 202 })
      if (isResponse(first)) return yield* answered(first)
      noteWait(request.source)
      yield* handOver
      return eventStream(Stream.concat(Stream.succeed(first), Stream.fromQueue(outbox)))
    })

    return handlers.handleRaw("message", ({ request }) => Effect.catchIf(handle(request), isProblem, problemResponse), {
      uninterruptible: true
    })
  })
)
