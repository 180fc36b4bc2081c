/**
 * A listener that can be closed and opened again on the same port, and the open connections of the sandbox's servers.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Server } from "node:http"
import * as net from "node:net"

/** The address is in use, or does not belong to this machine. */
export class CannotListen extends Schema.TaggedError<CannotListen>()("CannotListen", {
  host: Schema.String,
  port: Schema.Int,
  cause: Schema.Defect()
}) {
  override get message() {
    return `cannot listen on ${this.host}, port ${this.port}: ${
      this.cause instanceof Error ? this.cause.message : String(this.cause)
    }`
  }
}

/** While the port is closed, the operating system refuses connections. Existing connections stay open. */
export interface Listener {
  readonly number: number
  readonly open: Effect.Effect<void, CannotListen>
  readonly close: Effect.Effect<void>
}

/** Opens a listener, and closes it with the scope. 0 takes a free port, which stays the same when it is opened again. */
export const openListener = Effect.fnUntraced(function*(
  options: { readonly host: string; readonly port: number; readonly onConnection: (socket: net.Socket) => void }
): Effect.fn.Return<Listener, CannotListen, Scope.Scope> {
  const { host, onConnection } = options
  let server = yield* listen(host, options.port, onConnection)
  const { port: number } = server.address() as net.AddressInfo
  // Stops listening at once. Its callback would wait until all connections have ended, so it is not used.
  const close = Effect.sync(() => void server.close())
  yield* Effect.addFinalizer(() => close)
  return {
    number,
    open: Effect.suspend(() =>
      server.listening ? Effect.void : Effect.map(listen(host, number, onConnection), (opened) => {
        server = opened
      })
    ),
    close
  }
})

const listen = (
  host: string,
  port: number,
  onConnection: (socket: net.Socket) => void
): Effect.Effect<net.Server, CannotListen> =>
  Effect.callback((resume) => {
    // Half-open, like the servers of node:http.
    const server = net.createServer({ allowHalfOpen: true, noDelay: true }, onConnection)
    server.on("error", (cause) => resume(Effect.fail(new CannotListen({ host, port, cause }))))
    server.listen({ host, port, backlog: 4096 }, () => resume(Effect.succeed(server)))
  })

/** Whether an address is a loopback address. */
export const isLoopback = (address: string | undefined): boolean =>
  address !== undefined && /^(?:::1$|(?:::ffff:)?127\.)/u.test(address)

/** A connection, and the number of its requests under way. */
interface Connection {
  readonly server: Server
  requests: number
}

/** The open connections of the sandbox's servers. */
export class Connections {
  private readonly open = new Map<net.Socket, Connection>()

  /** Hands a connection to a server. */
  connect(server: Server, socket: net.Socket): void {
    this.open.set(socket, { server, requests: 0 })
    socket.once("close", () => this.open.delete(socket))
    server.emit("connection", socket)
  }

  /** Counts requests that begin (1) or end (-1) on a connection. */
  count(socket: net.Socket, by: 1 | -1): void {
    const connection = this.open.get(socket)
    if (connection !== undefined) connection.requests += by
  }

  /**
   * Closes the connections without a request under way: those of one server, or all. Replaces Node's
   * `closeIdleConnections`, which misses connections that the server did not accept itself.
   */
  closeIdle(server?: Server): void {
    this.close((connection) => connection.requests === 0 && (server === undefined || connection.server === server))
  }

  closeAll(): void {
    this.close(() => true)
  }

  private close(isMeant: (connection: Connection) => boolean): void {
    for (const [socket, connection] of this.open) {
      if (isMeant(connection)) socket.destroy()
    }
  }
}
