/**
 * The HTTP server of the gateway on Node: `NodeListener` as a layer.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import { randomUUID } from "node:crypto"
import type { RequestId } from "../domain/RequestId.ts"
import { HttpMetrics } from "../metrics/HttpMetrics.ts"
import { logProblem } from "../server/ProblemResponses.ts"
import { explainListenFailure } from "./ListenAddress.ts"
import { createListener, logDroppedConnections, NodeListener } from "./NodeListener.ts"

export interface NodeServerOptions {
  readonly host: string
  readonly port: number
  /** URL at which clients reach the gateway. Problem types are URLs below it. */
  readonly baseUrl: string
  /** Connections that may be open at once. */
  readonly maxConnections: number
}

/**
 * Listens until the scope closes, then waits up to 10 seconds for open connections. Logs problems that it answers
 * before there is a request, and dropped connections.
 */
export const layer = (
  { baseUrl, host, maxConnections, port }: NodeServerOptions
): Layer.Layer<HttpServer | NodeListener, ServeError> =>
  Layer.unwrap(Effect.contextWith((context: Context.Context<never>) => {
    const run = Effect.runForkWith(context)
    const metrics = Context.get(context, HttpMetrics)
    const listener = createListener({
      baseUrl,
      newRequestId: () => randomUUID() as RequestId,
      onProblem: (problem) => run(logProblem(problem)),
      maxConnections,
      metrics,
      onDropped: (count) => run(logDroppedConnections(count, maxConnections))
    })
    const Listening = NodeHttpServer.layerServer(
      () => listener,
      { host, port, gracefulShutdownTimeout: "10 seconds" }
    ).pipe(
      Layer.catch((error) => Layer.effect(HttpServer, Effect.fail(explainListenFailure(error, { host, port }))))
    )
    return Effect.succeed(Layer.merge(Listening, Layer.succeed(NodeListener, listener)))
  }))
