/**
 * The two ports of the sandbox. The service port takes submissions and status reads. The control port stays open while
 * the service port refuses connections. The service port answers the control plane, too.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Semaphore from "effect/Semaphore"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { answerDemand, type Arrivals, headOf } from "./BankRequests.ts"
import { control, type ControlledSandbox } from "./Control.ts"
import type { Dialect } from "./Dialect.ts"
import { type FaultSettings, refuses } from "./Faults.ts"
import { Connections, isLoopback, openListener } from "./Listener.ts"
import type { RecordFailed, SubmissionRecord } from "./Record.ts"
import { problemAnswer } from "./SandboxDialect.ts"
import type { Submissions } from "./Submissions.ts"
import { hangUp, send } from "./Wire.ts"

/** The current switches. */
export interface Switches {
  settings: FaultSettings
}

export interface SandboxServerOptions {
  readonly dialect: Dialect
  readonly host: string
  /** 0 takes a free port. */
  readonly port: number
  /** 0 takes a free port. */
  readonly controlPort: number
  readonly seed: string
  readonly switches: Switches
  readonly submissions: Submissions
  readonly arrivals: Arrivals
  readonly record: SubmissionRecord
}

/** Answers one request. */
type Handler = (request: IncomingMessage, response: ServerResponse, path: string) => Effect.Effect<void, RecordFailed>

/**
 * Milliseconds for requests under way when the sandbox stops. In real time, because it protects against stalled
 * clients.
 */
const drainTimeout = 5000

/** Milliseconds. The idle time is longer than that of common clients, so that the client closes first. */
const httpOptions = { keepAliveTimeout: 65_000 }

const controlHost = "127.0.0.1"

const loopbackOnly = problemAnswer(
  403,
  "loopback_only",
  "The control plane is available from the loopback interface only"
)

/** Listens until the scope closes. Then it accepts no more connections, and answers the requests under way. */
export const makeSandboxServer = Effect.fnUntraced(function*(options: SandboxServerOptions) {
  const { arrivals, dialect, submissions, record, seed, switches } = options
  const http = yield* makeHttp()
  const { closing } = http

  const onControl: Handler = (request, response, path) =>
    Effect.raceFirst(control(controlled, request, response, path), closing.await)
  const onService: Handler = (request, response, path) => {
    const head = headOf(request)
    const demand = dialect.demandOf(head)
    if (demand !== null) {
      return answerDemand({ dialect, submissions, arrivals, closing }, demand, head, request, response)
    }
    return isLoopback(request.socket.remoteAddress)
      ? onControl(request, response, path)
      : send(response, loopbackOnly)
  }

  const service = http.server(onService, () => !isRefusing(switches.settings))
  let connections = 0
  const port = yield* openListener({
    host: options.host,
    port: options.port,
    onConnection: (socket) => {
      if (refuses(seed, switches.settings, ++connections)) socket.resetAndDestroy()
      else http.connections.connect(service, socket)
    }
  })
  const controls = http.server(onControl, () => true)
  const controlPort = yield* openListener({
    host: controlHost,
    port: options.controlPort,
    onConnection: (socket) => http.connections.connect(controls, socket)
  })

  const oneAtATime = yield* Semaphore.make(1)
  const setFaults = (settings: FaultSettings) =>
    Effect.gen(function*() {
      switches.settings = settings
      if (!isRefusing(settings)) return yield* port.open
      yield* port.close
      // Requests on a kept connection would still be answered.
      http.connections.closeIdle(service)
    }).pipe(Semaphore.withPermits(oneAtATime, 1), Effect.uninterruptible)
  const controlled: ControlledSandbox = {
    submissions,
    arrivals,
    record,
    faults: Effect.sync(() => switches.settings),
    setFaults
  }

  yield* Effect.addFinalizer(() => Effect.andThen(Effect.all([port.close, controlPort.close]), http.drain))
  yield* setFaults(switches.settings)
  return { port: port.number, controlPort: controlPort.number, setFaults }
})

const isRefusing = (settings: FaultSettings): boolean => settings.refuse_connection?.rate === 1

/** The parts that both ports share: fibers that answer requests, and the open connections. */
const makeHttp = Effect.fnUntraced(function*() {
  const fibers = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(fibers)<never>()
  const closing = yield* Latch.make()
  const connections = new Connections()

  const server = (handle: Handler, mayKeepAlive: () => boolean): Server =>
    createServer(httpOptions, (request, response) => {
      const { socket } = request
      connections.count(socket, 1)
      response.shouldKeepAlive &&= mayKeepAlive() && !closing.isOpen()
      response.on("error", () => {})
      const path = (request.url ?? "/").split("?", 1)[0]!
      const fiber = fork(Effect.catchCause(handle(request, response, path), (cause) => giveUp(response, cause)))
      response.once("close", () => {
        connections.count(socket, -1)
        fiber.interruptUnsafe()
        // The answer announced a kept connection, and the switches may have changed since.
        if (!mayKeepAlive()) socket.end()
      })
    })

  const drain = Effect.gen(function*() {
    closing.openUnsafe()
    connections.closeIdle()
    const stalled = setTimeout(() => connections.closeAll(), drainTimeout)
    yield* FiberSet.awaitEmpty(fibers)
    clearTimeout(stalled)
    connections.closeAll()
    // The fibers of incomplete requests record them.
    yield* FiberSet.awaitEmpty(fibers)
  })

  return { server, connections, closing, drain }
})

/** Answers 500. A submission that could not be recorded has no effect. */
const giveUp = (response: ServerResponse, cause: Cause.Cause<RecordFailed>): Effect.Effect<void> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.sync(() => hangUp(response))
  const answer = problemAnswer(500, "sandbox_failed", "The sandbox failed; this is not an injected fault")
  return Effect.logError("Request failed", cause).pipe(
    Effect.andThen(response.headersSent ? Effect.sync(() => hangUp(response)) : send(response, answer))
  )
}
