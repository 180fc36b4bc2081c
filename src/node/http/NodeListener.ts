/**
 * The `node:http` server with its limits, and its responses to bytes that are no valid request.
 *
 * The room `node/http`: the listeners, and the HTTP client for providers. Read this file first.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type IncomingMessage, Server, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { ProblemCode } from "../../api/ProblemKinds.ts"
import { makeProblem, type Problem, problemMediaType } from "../../api/Problems.ts"
import { exchangeOf, type HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { maxTarget } from "../../server/gate/Edge.ts"
import { problemJson } from "../../server/gate/ProblemResponses.ts"
import { headersOfEveryResponse, pathOf } from "../../server/gate/RequestContext.ts"
import type { RequestIds } from "../../services/RequestIds.ts"
import { closeOldest, Connection, reportDrops, watchConnections } from "./ConnectionLimits.ts"

/** Options of the listener. */
export interface ListenerOptions {
  readonly baseUrl: string
  /** Gives a request that could not be read its id. */
  readonly requestIds: RequestIds["Service"]
  /** Called with each problem that the listener answers before there is a request, for the log. */
  readonly onProblem?: (problem: Problem) => void
  /** Most open connections, 10,000 by default. The server closes further ones at once. */
  readonly maxConnections?: number
  /**
   * Whether the oldest connection without a running request is closed as soon as the last place is taken, so that a new one always
   * finds a place. Default: false; connections stay open, and further ones are closed.
   */
  readonly makesRoom?: boolean
  /** Called with the number of connections closed as too many: at once, and then at most every 10 seconds. */
  readonly onDropped?: (count: number) => void
  /** Counts requests and connections. Null, the default: they are not counted. */
  readonly metrics?: HttpMetrics | null
}

/** Milliseconds; `maxHeaderSize` is in bytes and includes the request line. */
const limits = {
  maxHeaderSize: 16_384, // 16 KiB
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  // Longer than the idle timeout of common load balancers (60 s): they close first, and never use a closed socket.
  keepAliveTimeout: 65_000,
  // Bytes of a body that wait for their reader. Each chunk of one byte takes 200 more.
  highWaterMark: 16_384,
  connectionsCheckingInterval: 1000,
  noDelay: true,
  // A request without the headers of a body has none: its stream has ended from the start, and no event of it costs time.
  optimizeEmptyRequests: true,
  // By default Node takes the first of two Authorization or Host headers; a proxy may have checked the other one.
  // Joined, they are neither a valid token nor a valid host.
  joinDuplicateHeaders: true,
  // The gateway never upgrades. A client that offers an upgrade accepts a plain response (RFC 9110 §7.8).
  shouldUpgradeCallback: () => false,
  // `edge` answers a missing Host with a complete problem; Node would send an empty 400.
  requireHostHeader: false
}

/**
 * The default of `maxConnections`. An idle connection takes 17 KiB. Common systems allow a process many times more open
 * files.
 *
 * @internal
 */
export const defaultMaxConnections = 10_000

/** Logs that the server closed connections without a response, because too many were open. @internal */
export const logDroppedConnections = (count: number, maxConnections: number): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning("Connections closed: too many are open. Raise MAX_CONNECTIONS, or limit them before the gateway"),
    { count, max_connections: maxConnections }
  )

/** An error of Node's parser. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/** `head` is that of the request, unless trailers are too large. Its target has a limit of its own, which comes first. */
const codeOf = (error: ParserError, head: string): ProblemCode => {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return (/^[^\s:]+ (\S+)/.exec(head)?.[1] ?? "").length > maxTarget ? "uri_too_long" : "headers_too_large"
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "request_timeout"
    default:
      return "malformed_request"
  }
}

/** What is known of a request that the parser did not read. */
interface UnreadRequest {
  /** As it arrived. */
  readonly requestId: string | undefined
  readonly target: string
}

/** The path of a target, which may be in absolute form (RFC 9112 §3.2.2). */
const pathOfTarget = (target: string): string => target.startsWith("/") ? target : URL.parse(target)?.pathname ?? "/"

/**
 * The head of a request that the parser refused, as far as it arrived. `unread` has the bytes of the packets that were kept, and may end
 * with the last one, in which the parser stopped. Empty lines may come before a request (RFC 9112 §2.2).
 */
const headIn = (unread: string, { bytesParsed = 0, rawPacket }: Partial<ParserError>): string => {
  const last = rawPacket?.toString("latin1") ?? ""
  const text = unread.endsWith(last) ? unread : unread + last
  // Requests before this one end with an empty line.
  const start = text.lastIndexOf("\r\n\r\n", text.length - last.length + bytesParsed - 4) + 4
  return text.slice(start < 4 ? 0 : start).trimStart().split("\r\n\r\n", 1)[0]!
}

/** Reads what the head tells of its request. */
const readHead = (head: string): UnreadRequest => {
  const [, sent = "/"] = /^[^\s:]+ ((?:https?:\/)?\/[!-~]{0,8191}) HTTP\/\d/i.exec(head) ?? []
  const ids = [...head.matchAll(/\r\nx-request-id:([^\r\n]*)/gi)]
  return { requestId: ids.length === 1 ? ids[0]![1]!.trim() : undefined, target: pathOfTarget(sent) }
}

/** Members of a socket that Node does not document. */
interface ParsedSocket {
  _unrefTimer: () => void
  readonly parser?: { readonly getCurrentBuffer?: () => Buffer | undefined } | null
}

/**
 * Keeps the packets of a request that has not arrived as a whole.
 *
 * Workaround for Node 24, `_http_server.js`: an error of the parser has the last packet alone. A listener of `data` would get them all, and
 * takes 2 µs of each request, because the parser then no longer reads from the system itself. Node calls `_unrefTimer` after each
 * packet, while the parser has it. Without these members, answers are made from the last packet.
 */
const keepUnread = (socket: Socket, connection: Connection): void => {
  const parsed = socket as unknown as ParsedSocket
  const refresh = parsed._unrefTimer
  const packet = () => parsed.parser?.getCurrentBuffer?.()
  parsed._unrefTimer = function(this: ParsedSocket) {
    connection.receive(packet)
    refresh.call(this)
  }
}

const reasons: Partial<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  414: "URI Too Long",
  431: "Request Header Fields Too Large"
}

/** Answers a request and returns true, or leaves it untouched and returns false. */
export type PlainHandler = (request: IncomingMessage, response: ServerResponse) => boolean

/** Milliseconds after the end of listening for which a connection may stay without a byte. */
const unusedConnectionTime = 1000

/** The HTTP server, with a handler for plain requests. */
class Listener extends Server {
  /** Sees each request before the listeners of the event `request`. Null: they get every request. */
  plain: PlainHandler | null = null
  /** Sees each request before all others. False: its connection ends without an answer. */
  onRequest: (request: IncomingMessage, response: ServerResponse) => boolean = () => true
  /** Runs when the server has stopped to listen. */
  onClose: () => void = () => {}

  /** Requests from before there were routes. */
  readonly early: Array<() => void> = []

  constructor() {
    super(limits)
    this.on("newListener", (event) => {
      // This event precedes the registration.
      if (event === "request") setImmediate(() => this.early.splice(0).forEach((start) => start()))
    })
  }

  override close(callback?: (error?: Error) => void): this {
    super.close(callback)
    this.onClose()
    return this
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- Node declares the arguments of `emit` so
  override emit(event: string, ...args: Array<any>): boolean {
    // Node announces a request that expects `100 Continue` by an event of its own.
    if (event !== "request" && event !== "checkContinue") return super.emit(event, ...args)
    // The cast: Node emits both with these two.
    const [request, response] = args as [IncomingMessage, ServerResponse]
    if (!this.onRequest(request, response)) return true
    if (this.listenerCount("request") > 0) return this.route(event, request, response)
    // The server listens before the routes are complete, and of a shared port the system hands over connections at once.
    return this.early.push(() => request.socket.destroyed || this.route(event, request, response)) > 0
  }

  /** Not private: the declaration of `createListener` names its members. */
  route(event: string, request: IncomingMessage, response: ServerResponse): boolean {
    return event === "request" && this.plain?.(request, response) === true || super.emit(event, request, response)
  }
}

/** The server that `createListener` made. */
export class NodeListener extends Context.Service<NodeListener, Listener>()(
  "financial-agents-gateway/node/http/NodeListener"
) {}

/** Counts each request from its arrival to the end of its response. */
const countRequests = (metrics: HttpMetrics) => {
  // One function for all responses: a closure for each would cost more than the counting.
  function end(this: ServerResponse) {
    const exchange = exchangeOf(this.req)
    if (exchange !== undefined) metrics.end(exchange, this.writableFinished ? this.statusCode : null)
  }
  return (request: IncomingMessage, response: ServerResponse) => {
    metrics.start(request, request.method ?? "", request.url ?? "")
    response.on("close", end)
  }
}

/** Creates the server; it does not listen yet. Give it to a platform's `HttpServer` layer. */
export const createListener = (options: ListenerOptions): Listener => {
  const { baseUrl, makesRoom = false, maxConnections = defaultMaxConnections, metrics = null } = options
  const { onDropped, onProblem, requestIds } = options
  /** Open connections with their responses: an error after a valid request must not be answered before that request. */
  const connections = new Map<Socket | Duplex, Connection>()

  const problemOf = (code: ProblemCode, { requestId, target }: UnreadRequest) =>
    makeProblem(baseUrl, { id: requestIds.of(requestId), path: pathOf(target) }, code)

  const headersOf = (problem: ReturnType<typeof problemOf>, body: string) => ({
    ...headersOfEveryResponse,
    "content-type": problemMediaType,
    "content-length": String(Buffer.byteLength(body)),
    "cache-control": "no-store",
    date: new Date().toUTCString(),
    "x-request-id": problem.request_id,
    connection: "close"
  })

  /** The server closes the connection if the client does not. */
  const endSocket = (socket: Duplex, bytes = ""): void => {
    connections.delete(socket)
    if (!socket.writable) return void socket.destroy()
    socket.once("finish", () => setTimeout(() => socket.destroy(), 1000).unref())
    socket.end(bytes)
  }

  const answerNow = (socket: Duplex, code: ProblemCode, unread: UnreadRequest): void => {
    if (!socket.writable) return endSocket(socket)
    const problem = problemOf(code, unread)
    onProblem?.(problem)
    metrics?.unreadable(problem.status, code)
    const body = problemJson(problem)
    const head = Object.entries(headersOf(problem, body)).map(([name, value]) => `${name}: ${value}\r\n`).join("")
    endSocket(socket, `HTTP/1.1 ${problem.status} ${reasons[problem.status] ?? ""}\r\n${head}\r\n${body}`)
  }

  /** Answers bytes that no request can be read from, and ends the connection. A response that is due before is sent first. */
  const answerSocket = (socket: Duplex, code: ProblemCode, unread: UnreadRequest): void => {
    const response = connections.get(socket)?.response
    const again = () => answerSocket(socket, code, unread)
    if (response === undefined) return answerNow(socket, code, unread)
    const { headersSent, req } = response
    const isOver = response.writableFinished || response.destroyed
    // The fault comes after the latest request.
    if (req.complete) return isOver ? answerNow(socket, code, unread) : void response.once("finish", again)
    // The fault is in its body, which never becomes complete. So no handler gets it, and the end of the connection interrupts its reader.
    if (headersSent) return isOver ? endSocket(socket) : void response.once("finish", again)
    if (response.socket === null) return void response.once("socket", again)
    answerNow(socket, code, { requestId: req.headers["x-request-id"] as string, target: pathOfTarget(req.url ?? "/") })
  }

  const server = new Listener()
  // A client that reads nothing of its response for two minutes counts as gone.
  server.timeout = 120_000
  server.maxConnections = maxConnections
  if (onDropped !== undefined) reportDrops(server, onDropped)
  if (metrics !== null) {
    metrics.openConnections = () => connections.size
    server.on("drop", () => metrics.dropped.value++)
  }
  server.on("connection", (socket) => {
    if (makesRoom && connections.size + 1 >= maxConnections) closeOldest(connections)
    const connection = new Connection()
    connections.set(socket, connection)
    keepUnread(socket, connection)
    socket.once("close", () => connections.delete(socket))
  })
  // Clients open connections ahead. Node closes the idle ones, but waits for those on which nothing has arrived. A request may be on
  // its way on a new one, so that it has time to arrive.
  server.onClose = () => {
    const endUnused = () => {
      for (const socket of connections.keys()) if ("bytesRead" in socket && socket.bytesRead === 0) socket.destroy()
    }
    // A late timer runs before the bytes that arrived meanwhile are read. Two turns of the event loop read them first.
    const endAfterReading = () => setImmediate(() => setImmediate(endUnused))
    setTimeout(endAfterReading, unusedConnectionTime).unref()
  }
  const headOn = (socket: Duplex, error: Partial<ParserError> = {}) =>
    headIn(connections.get(socket)?.unread ?? "", error)

  watchConnections(server, connections, (socket) => answerSocket(socket, "request_timeout", readHead(headOn(socket))))
  server.on("clientError", (error, socket) => {
    if ((error as NodeJS.ErrnoException).code === "ECONNRESET") return void socket.destroy()
    // The parser refuses each further packet.
    const connection = connections.get(socket)
    if (connection === undefined || connection.isRefused) return
    connection.isRefused = true
    const head = headOn(socket, error)
    answerSocket(socket, codeOf(error, head), readHead(head))
  })
  // After a declined upgrade, Node's parser reports no more errors on the connection, and the client would wait for a
  // response for ever.
  const count = metrics === null ? null : countRequests(metrics)
  server.onRequest = (request, response) => {
    // Node has read up to 64 KiB of requests, and emits them all, also after an answer that ends the connection.
    if (connections.get(request.socket)?.start(response) !== true) {
      request.socket.destroy()
      return false
    }
    count?.(request, response)
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false
    return true
  }
  // CONNECT is not supported. Node has released the socket, so this code handles its errors: an unhandled one would end
  // the process.
  server.on("connect", ({ headers }, socket) => {
    socket.on("error", () => socket.destroy())
    answerSocket(socket, "malformed_request", { requestId: headers["x-request-id"] as string, target: "/" })
  })
  // A server may ignore an unknown expectation (RFC 9110 §10.1.1). Node would send an empty 417.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  return server
}
