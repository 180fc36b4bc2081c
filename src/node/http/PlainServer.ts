/**
 * Serves requests without a body, which are most requests of an API that is read. It takes them before Effect's own adapter for Node,
 * and leaves every other request to that.
 *
 * A request costs a third of what it costs there: its headers are not copied, and head and body of its response leave in one write.
 * Everything else is that of Effect: the fiber, its scope, the span, and handlers before the response (`HttpEffect.toHandled`).
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Cookies from "effect/http/Cookies"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import { type HttpServer, make } from "effect/http/HttpServer"
import { ClientAbort } from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Scope from "effect/Scope"
import type { IncomingMessage, ServerResponse } from "node:http"
import { ServerContext } from "../../dispatch/CompiledEndpoint.ts"
import type { PlainHandler } from "./NodeListener.ts"
import { PlainRequest } from "./PlainRequest.ts"
import { setHead } from "./ResponseHead.ts"

/** Whether a request has a header with which it needs Effect's adapter. Each name stands alone: a loop over names reads members slowly. */
const isUnusual = (headers: IncomingMessage["headers"]): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined
  || headers.expect !== undefined || headers.upgrade !== undefined || headers["set-cookie"] !== undefined

const isPlain = ({ headers, httpVersion, method, url }: IncomingMessage): boolean =>
  (method === "GET" || method === "HEAD") && httpVersion === "1.1" && url![0] === "/"
  && !isUnusual(headers)

/** Larger bodies wait until the client has read them. */
const maxWritten = 1_048_576

/** Writes a response whose body is in memory. False for every other response, of which nothing is written. */
const write = (
  response: ServerResponse,
  { body, cookies, headers, status, statusText }: HttpServerResponse.HttpServerResponse,
  keepAlive: number
): boolean => {
  if (status < 200 || status > 599 || status === 204 || status === 205 || !Cookies.isEmpty(cookies)) return false
  if (body._tag !== "Empty" && (body._tag !== "Uint8Array" || body.contentLength > maxWritten)) return false
  // Effect's adapter refuses a wrong length by `strictContentLength`, with which Node gathers the parts of a response.
  if (body._tag === "Uint8Array" && headers["content-length"] !== String(body.contentLength)) return false
  // Node throws if a header is invalid. Then nothing has left, and Effect's adapter finds the same fault.
  try {
    const hasBody = body._tag === "Uint8Array" && status !== 304
    if (!hasBody || statusText !== undefined || !setHead(response, status, headers, keepAlive)) {
      response.writeHead(status, statusText, headers)
    }
  } catch {
    return false
  }
  // Node writes no body to HEAD.
  if (body._tag === "Empty" || status === 304) {
    response.end()
    return true
  }
  const { contentLength, text } = body
  // Text of ASCII alone is the same in both encodings, and Node writes this one faster.
  if (text === undefined) response.end(body.body)
  else response.end(text, text.length === contentLength ? "latin1" : "utf8")
  return true
}

/** The fibers of running requests: a linked list, because a long-lived `Set` with an entry for each request keeps garbage alive. */
class Running {
  fiber: Fiber.Fiber<unknown> | null = null
  previous: Running = this
  next: Running = this

  add(fiber: Fiber.Fiber<unknown>): void {
    const entry = new Running()
    entry.fiber = fiber
    entry.previous = this
    entry.next = this.next
    this.next.previous = entry
    this.next = entry
    fiber.addObserver(() => entry.#remove())
  }

  #remove(): void {
    this.previous.next = this.next
    this.next.previous = this.previous
    this.previous = this.next = this
    this.fiber = null
  }

  get fibers(): ReadonlyArray<Fiber.Fiber<unknown>> {
    const fibers: Array<Fiber.Fiber<unknown>> = []
    for (let entry = this.next; entry !== this; entry = entry.next) fibers.push(entry.fiber!)
    return fibers
  }
}

/** Additions to the context of a request that are kept as such, before it is copied as a whole. */
const maxDepth = 32

type App = Effect.Effect<HttpServerResponse.HttpServerResponse, unknown, HttpServerRequest | Scope.Scope>

/** The context from which those of requests are made. */
const forRequests = <R>(context: Context.Context<R>): Context.Context<R> =>
  Context.add(Context.makeUnsafe<R>(context.mapUnsafe, { maxDepth }), ServerContext, context)

/** The server that gets the handler of plain requests. */
interface Listener {
  plain: PlainHandler | null
  /** Milliseconds. */
  readonly keepAliveTimeout: number
}

const makePlainHandler = Effect.fnUntraced(function*(app: App, listener: Listener) {
  const scope = yield* Effect.scope
  const services = yield* Effect.context<never>()
  const running = new Running()

  yield* Effect.addFinalizer(() => Fiber.interruptAll(running.fibers))
  // It ends before the finalizer above, and after the grace of the server's own close.
  const writing = Scope.forkUnsafe(scope, "parallel")

  /** Has Effect's adapter write a response: a stream, one with cookies, or one that Node refuses. The request has its span already. */
  const handOver = ({ response, source }: PlainRequest, handedOver: HttpServerResponse.HttpServerResponse) =>
    NodeHttpServer.makeHandler(Effect.succeed(handedOver), { scope: writing }).pipe(
      Effect.provideService(HttpMiddleware.TracerDisabledWhen, () => true),
      Effect.flatMap((writeLater) =>
        Effect.callback<void>((resume) => {
          response.once("close", () => resume(Effect.void))
          writeLater(source, response)
        })
      )
    )

  const handled = HttpEffect.toHandled(app, (request, response) => {
    const plain = request as PlainRequest
    const { response: node } = plain
    return node.writableEnded || node.destroyed || write(node, response, listener.keepAliveTimeout)
      ? Effect.void :
      handOver(plain, response)
  })

  const handle: PlainHandler = (request, response) => {
    if (!isPlain(request)) return false
    const fiber = Effect.runForkWith(Context.add(services, HttpServerRequest, new PlainRequest(request, response)))(
      handled
    )
    if (fiber.pollUnsafe() !== undefined) return true
    running.add(fiber)
    response.on("close", () => {
      if (!response.writableEnded) fiber.interruptUnsafe(undefined, ClientAbort.annotation)
    })
    return true
  }
  return handle
})

/** The server on a listener, with its plain requests. The listener has their handler while there is an application. */
export const withPlainRequests = (
  { address, serve }: HttpServer["Service"],
  listener: Listener
): HttpServer["Service"] =>
  make({
    address,
    serve: Effect.fnUntraced(function*(app, middleware) {
      // A middleware of the server belongs to Effect's adapter, and sees every request.
      if (middleware !== undefined) return yield* serve(app, middleware)
      const handler = yield* Effect.updateContext(makePlainHandler(app, listener), forRequests)
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          listener.plain = null
        })
      )
      yield* Effect.updateContext(serve(app), forRequests)
      listener.plain = handler
    })
  })
