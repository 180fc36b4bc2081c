/**
 * The HTTP server of the gateway on Node: `NodeListener` as a layer.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http/HttpServer"
import { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import { randomUUID } from "node:crypto"
import type { RequestId } from "../domain/RequestId.ts"
import { logProblem } from "../server/ProblemResponses.ts"
import { createListener, logDroppedConnections, NodeListener } from "./NodeListener.ts"

export interface NodeServerOptions {
  readonly host: string
  readonly port: number
  /** URL at which clients reach the gateway. Problem types are URLs below it. */
  readonly baseUrl: string
  /** Connections that may be open at once. */
  readonly maxConnections: number
}

const reasonOf = (error: unknown, host: string): string => {
  const { code, message } = error instanceof Error
    ? error as NodeJS.ErrnoException
    : new Error(String(error)) as NodeJS.ErrnoException
  switch (code) {
    case "EADDRINUSE":
      return "another process uses the port. Set PORT to a free port"
    case "EACCES":
      return "the system does not allow it. Set PORT to a port from 1024"
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `${host} is no address of this machine. Set HOST to one of its addresses`
    default:
      return message
  }
}

/** The failure to listen as one sentence with the address and the setting. */
const namingAddress = (host: string, port: number) => ({ cause }: ServeError): ServeError =>
  new ServeError({
    cause: new Error(`cannot listen on ${host.includes(":") ? `[${host}]` : host}:${port}: ${reasonOf(cause, host)}`, {
      cause
    })
  })

/**
 * Listens until the scope closes, then waits up to 10 seconds for open connections. Logs problems that it answers
 * before there is a request, and dropped connections.
 */
export const layer = (
  { baseUrl, host, maxConnections, port }: NodeServerOptions
): Layer.Layer<HttpServer | NodeListener, ServeError> =>
  Layer.unwrap(Effect.contextWith((context: Context.Context<never>) => {
    const run = Effect.runForkWith(context)
    const listener = createListener({
      baseUrl,
      newRequestId: () => randomUUID() as RequestId,
      onProblem: (problem) => run(logProblem(problem)),
      maxConnections,
      onDropped: (count) => run(logDroppedConnections(count, maxConnections))
    })
    const Listening = NodeHttpServer.layerServer(
      () => listener,
      { host, port, gracefulShutdownTimeout: "10 seconds" }
    ).pipe(Layer.catch((error) => Layer.effect(HttpServer, Effect.fail(namingAddress(host, port)(error)))))
    return Effect.succeed(Layer.merge(Listening, Layer.succeed(NodeListener, listener)))
  }))
