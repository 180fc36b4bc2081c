/**
 * Limits that `node:http` lacks: on unfinished bytes between two requests, and on requests without an answer; room for new
 * connections in place of idle ones; and reports of connections above the maximum.
 */
import type { Server, ServerResponse } from "node:http"
import type { Duplex } from "node:stream"

/** A server should ignore one empty line before a request (RFC 9112 §2.2): some clients send one after a body. */
const emptyLine = "\r\n".length

/** Bytes of a header section that are kept: at least those that the parser takes. */
const maxUnread = 16_384

/** Requests of a connection that may lack their responses. Each of them costs 13 KiB, and its client as little as 30 bytes. */
const maxUnanswered = 64

/** An open connection, from one request to the next. */
export class Connection {
  /** The response to the latest request. Undefined before the first one, and from the end of an exchange to the next. */
  response: ServerResponse | undefined
  #requests = 0
  #unanswered = 0
  #idleAfter = 0
  #readBefore = 0
  /** When bytes first arrived that completed no request; in milliseconds of `performance.now()`. */
  #waitingSince: number | null = null
  #requestsReceived = 0
  #isPastBody = false
  /** Whether the parser has refused bytes. It reads no further request. */
  isRefused = false
  /** What has arrived of a header section that has not ended, as latin1. */
  unread = ""

  /** A client may send the next requests before the response. False if too many lack theirs: close the connection (RFC 9112 §9.3.2). */
  start(response: ServerResponse): boolean {
    if (this.#unanswered >= maxUnanswered) return false
    this.response = response
    this.#requests++
    this.#unanswered++
    response.on("finish", this.#end)
    return true
  }

  /**
   * Runs after each packet that the parser has read, and before each write. A packet of an idle connection that completed no request is the
   * beginning of one. If the parser refuses a later packet, the answer is made from all of them.
   */
  receive(packet: () => Buffer | undefined): void {
    if (this.#requestsReceived !== this.#requests) {
      this.#requestsReceived = this.#requests
      this.#isPastBody = false
      this.unread = ""
    } else if (this.response !== undefined && !this.#isPastBody) {
      // The end of a body may come after the response.
      this.#isPastBody = this.#isIdle()
    } else if (this.unread.length < maxUnread) {
      this.unread += packet()?.toString("latin1") ?? ""
    }
  }

  /** An idle connection must not keep its last response: that refers to the fiber of its request, and to the body. */
  readonly #end = (): void => {
    this.#unanswered--
    if (this.#isIdle()) this.response = undefined
  }

  /** Whether the latest request was received and answered. Responses finish in the order of their requests. */
  #isIdle(): boolean {
    const { response } = this
    return response === undefined || (response.writableFinished && response.req.complete)
  }

  /**
   * Whether bytes since the latest response have formed no complete header section for `timeout` milliseconds. Node
   * times a request from its first byte. Empty lines belong to no request, but each one restarts `keepAliveTimeout`.
   */
  isOverdue(bytesRead: number, now: number, timeout: number): boolean {
    // Before the first request, Node's own `headersTimeout` counts from the start of the connection.
    if (this.#requests === 0 || !this.#isIdle()) return false
    if (this.#idleAfter !== this.#requests) {
      this.#idleAfter = this.#requests
      this.#readBefore = bytesRead
      this.#waitingSince = null
    }
    if (this.#waitingSince !== null) return now - this.#waitingSince >= timeout
    if (bytesRead - this.#readBefore > emptyLine) this.#waitingSince = now
    return false
  }
}

/** Connections to close for a new one, the best first: those without a running request, then those that only read a response. */
const dispensable: ReadonlyArray<(connection: Connection) => boolean> = [
  ({ response }) => response === undefined || response.writableFinished,
  ({ response }) => response?.writableEnded === true
]

/** Closes the oldest dispensable connection, if there is one. */
export const closeOldest = (connections: Map<Duplex, Connection>): void => {
  for (const isDispensable of dispensable) {
    for (const [socket, connection] of connections) {
      if (!isDispensable(connection)) continue
      connections.delete(socket)
      socket.destroy()
      return
    }
  }
}

/** Runs `close` on each connection that is overdue by the server's `headersTimeout`, while the server listens. */
export const watchConnections = (
  server: Server & { readonly connectionsCheckingInterval?: number },
  connections: ReadonlyMap<Duplex & { readonly bytesRead?: number }, Connection>,
  close: (socket: Duplex) => void
): void => {
  const check = () => {
    const { headersTimeout } = server
    if (headersTimeout === 0) return
    const now = performance.now()
    for (const [socket, connection] of connections) {
      if (connection.isOverdue(socket.bytesRead ?? 0, now, headersTimeout)) close(socket)
    }
  }
  server.on("listening", () => {
    const timer = setInterval(check, server.connectionsCheckingInterval ?? 1000).unref()
    server.once("close", () => clearInterval(timer))
  })
}

/** Milliseconds between two reports of connections that were dropped. */
const reportInterval = 10_000

/** Reports connections closed because of `maxConnections`: the first at once, further ones together. */
export const reportDrops = (server: Server, report: (count: number) => void): void => {
  let dropped = 0
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    timer = undefined
    if (dropped === 0) return
    report(dropped)
    dropped = 0
    timer = setTimeout(flush, reportInterval).unref()
  }
  server.on("drop", () => {
    dropped++
    if (timer === undefined) flush()
  })
}
