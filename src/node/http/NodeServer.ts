/** The HTTP server of the gateway on Node: `NodeListener` as a layer. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { Lifecycle } from "../../server/gate/Lifecycle.ts"
import { logProblem } from "../../server/gate/ProblemResponses.ts"
import { RequestIds } from "../../services/RequestIds.ts"
import { growYoung } from "../youngGeneration.ts"
import { type AdminAddress, adminUrl, explainListenFailure } from "./ListenAddress.ts"
import { createListener, logDroppedConnections, NodeListener } from "./NodeListener.ts"
import { withPlainRequests } from "./PlainServer.ts"

export interface NodeServerOptions {
  readonly host: string
  readonly port: number
  /** URL at which clients reach the gateway. Problem types are URLs below it. */
  readonly baseUrl: string
  /** Connections that may be open at once. */
  readonly maxConnections: number
  /** Whether other processes of this user may listen on the port, too. Linux gives each of them its share of the connections. */
  readonly reusePort: boolean
}

/** Seconds for which the end of the server waits for open connections, after the drain. */
const closeTimeout = 10

/** The server on a listener, whose plain requests take the shorter way. */
export const layerOn = (
  listener: NodeListener["Service"],
  options: NodeHttpServer.Options
): Layer.Layer<HttpServer, ServeError> =>
  Layer.effect(
    HttpServer,
    Effect.map(NodeHttpServer.make(() => listener, options), (server) => withPlainRequests(server, listener))
  )

/**
 * Listens until the scope closes, then waits up to 10 seconds for open connections. Logs problems that it answers
 * before there is a request, and dropped connections.
 */
export const layer = (
  { baseUrl, host, maxConnections, port, reusePort }: NodeServerOptions
): Layer.Layer<HttpServer | NodeListener, ServeError, RequestIds> =>
  Layer.unwrap(Effect.contextWith((context: Context.Context<RequestIds>) => {
    const run = Effect.runForkWith(context)
    const metrics = Context.get(context, HttpMetrics)
    const listener = createListener({
      baseUrl,
      requestIds: Context.get(context, RequestIds),
      onProblem: (problem) => run(logProblem(problem)),
      maxConnections,
      metrics,
      onDropped: (count) => run(logDroppedConnections(count, maxConnections))
    })
    const Listening = layerOn(
      listener,
      { host, port, reusePort, gracefulShutdownTimeout: `${closeTimeout} seconds` }
    ).pipe(
      Layer.catch((error) =>
        Layer.effect(HttpServer, Effect.fail(explainListenFailure(error, { host, port, reusePort })))
      )
    )
    return Effect.succeed(Layer.merge(Listening, Layer.succeed(NodeListener, listener)))
  }))

/** Ends listening, and returns when the last connection has ended. */
const stopListening = (listener: NodeListener["Service"]) =>
  Effect.callback<void>((resume) => void listener.close(() => resume(Effect.void)))

/**
 * Logs that the server listens. Build it last: it is then the first to stop.
 *
 * A process that shares its port ends listening before it refuses requests, so that the system gives new connections to
 * the other processes. A process with a port of its own tells new connections that it drains.
 */
export const layerListening = (
  { baseUrl, host, port, reusePort }: NodeServerOptions,
  admin: AdminAddress | null
): Layer.Layer<never, never, Lifecycle> =>
  Layer.effectDiscard(Effect.gen(function*() {
    growYoung()
    yield* Effect.annotateLogs(Effect.logInfo("Listening"), { host, port, base_url: baseUrl, ...adminUrl(admin) })
    const listener = Option.getOrNull(yield* Effect.serviceOption(NodeListener))
    if (!reusePort || listener === null) return
    const { drain, options } = yield* Lifecycle
    const closed = Effect.timeoutOption(stopListening(listener), options.drainTimeout + closeTimeout * 1000)
    yield* Effect.addFinalizer(() => Effect.all([closed, drain], { concurrency: "unbounded" }))
  }))
