/**
 * The `node:http` server with its limits, and its answers to what never becomes a request.
 */
import * as Effect from "effect/Effect"
import { createServer, type Server } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { ProblemCode } from "../api/ProblemKinds.ts"
import { type Problem, problemMediaType } from "../api/Problems.ts"
import type { RequestId } from "../domain/RequestId.ts"
import { makeProblem, problemJson } from "../server/ProblemResponses.ts"
import { headersOfEveryResponse } from "../server/RequestContext.ts"
import { Connection, reportDrops, watchConnections } from "./ConnectionLimits.ts"

/** What the listener needs of the gateway. */
export interface ListenerOptions {
  readonly baseUrl: string
  /** Makes the id of a request that could not be read. */
  readonly newRequestId: () => RequestId
  /** Told of each problem that is answered before there is a request, for the log. */
  readonly onProblem?: (problem: Problem) => void
  /** Connections that may be open at once, 10,000 unless told. Further ones are closed as they come. */
  readonly maxConnections?: number
  /** Told how many connections were closed because there were too many: at once, and then every 10 seconds at most. */
  readonly onDropped?: (count: number) => void
}

/** Milliseconds; `maxHeaderSize` is in bytes and includes the request line. */
const limits = {
  maxHeaderSize: 16_384,
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  // Longer than the idle timeout of common load balancers (60 s), so that they close first and never hit a closed socket.
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1000,
  noDelay: true,
  // Node would take the first of two Authorization or Host headers, where a proxy may have judged the other one. Joined,
  // they are neither a token nor a host.
  joinDuplicateHeaders: true,
  // A client that offers to upgrade is content with a plain answer (RFC 9110 §7.8), and we never upgrade.
  shouldUpgradeCallback: () => false,
  // A missing Host is answered at the edge with a complete problem, where Node would send an empty 400.
  requireHostHeader: false
}

/** Idle connections cost 17 KiB each. Common systems let a process open many times more files. */
export const defaultMaxConnections = 10_000

/** Says that connections were closed unanswered, because too many were open. */
export const logDroppedConnections = (count: number, maxConnections: number): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning("Connections closed: too many are open. Raise MAX_CONNECTIONS, or limit them before the gateway"),
    { count, max_connections: maxConnections }
  )

const codeOf = (error: NodeJS.ErrnoException): ProblemCode => {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return "headers_too_large"
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "request_timeout"
    default:
      return "malformed_request"
  }
}

const reasons: Partial<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  431: "Request Header Fields Too Large"
}

/** Creates the server; it does not listen yet. Give it to a platform's `HttpServer` layer. */
export const createListener = (options: ListenerOptions): Server => {
  const { baseUrl, maxConnections = defaultMaxConnections, newRequestId, onDropped, onProblem } = options
  /** With responses that are under way: what a client sends after a good request must not be answered in its place. */
  const connections = new Map<Socket | Duplex, Connection>()

  const problemOf = (code: ProblemCode) =>
    makeProblem(baseUrl, { id: newRequestId(), path: "/", scheme: "Bearer" }, code)

  const headersOf = (problem: ReturnType<typeof problemOf>, body: string) => ({
    ...headersOfEveryResponse,
    "content-type": problemMediaType,
    "content-length": String(Buffer.byteLength(body)),
    "cache-control": "no-store",
    date: new Date().toUTCString(),
    "x-request-id": problem.request_id,
    connection: "close"
  })

  const answerSocket = (socket: Duplex, code: ProblemCode): void => {
    const response = connections.get(socket)?.response
    if (response !== undefined && !response.writableFinished && !response.destroyed) {
      response.once("finish", () => answerSocket(socket, code))
      return
    }
    connections.delete(socket)
    if (!socket.writable) return void socket.destroy()
    const problem = problemOf(code)
    onProblem?.(problem)
    const body = problemJson(problem)
    const head = Object.entries(headersOf(problem, body)).map(([name, value]) => `${name}: ${value}\r\n`).join("")
    // Whoever does not hang up after this is hung up on.
    socket.once("finish", () => setTimeout(() => socket.destroy(), 1000).unref())
    socket.end(`HTTP/1.1 ${problem.status} ${reasons[problem.status] ?? ""}\r\n${head}\r\n${body}`)
  }

  const server = createServer(limits)
  // A client that reads nothing of its response for so long is gone.
  server.timeout = 120_000
  server.maxConnections = maxConnections
  if (onDropped !== undefined) reportDrops(server, onDropped)
  server.on("connection", (socket) => {
    connections.set(socket, new Connection())
    socket.once("close", () => connections.delete(socket))
  })
  watchConnections(server, connections, (socket) => answerSocket(socket, "request_timeout"))
  server.on("clientError", (error, socket) => {
    if ((error as NodeJS.ErrnoException).code === "ECONNRESET") return void socket.destroy()
    answerSocket(socket, codeOf(error))
  })
  // Once an offer to upgrade was declined, Node's parser says nothing any more of what it cannot read, and the client
  // would wait for an answer in vain.
  server.on("request", (request, response) => {
    const connection = connections.get(request.socket)
    if (connection !== undefined) connection.response = response
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false
  })
  // There is nothing to tunnel to. Node has let go of the socket by now, so its errors are ours: an unheard one would
  // end the process.
  server.on("connect", (_request, socket) => {
    socket.on("error", () => socket.destroy())
    answerSocket(socket, "malformed_request")
  })
  // An expectation that we do not know may be ignored (RFC 9110 §10.1.1); Node would send an empty 417.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  return server
}
