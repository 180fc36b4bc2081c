import type { Server } from "node:http"
import type { Socket } from "node:net"

/** A connection, and the number of its requests under way. */
interface Connection {
  readonly server: Server
  requests: number
}

/** The open connections of the sandbox's servers. */
export class Connections {
  private readonly open = new Map<Socket, Connection>()

  /** Hands a connection to a server. */
  connect(server: Server, socket: Socket): void {
    this.open.set(socket, { server, requests: 0 })
    socket.once("close", () => this.open.delete(socket))
    server.emit("connection", socket)
  }

  /** Counts requests that begin (1) or end (-1) on a connection. */
  count(socket: Socket, by: 1 | -1): void {
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
