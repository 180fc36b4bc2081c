/**
 * The two ports of the sandbox. The service port takes submissions and status reads. The control port stays open while
 * the service port refuses connections. The service port answers the control plane, too.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { createPrivateKey, X509Certificate } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import * as https from "node:https"
import type { AddressInfo } from "node:net"
import type { TLSSocket } from "node:tls"
import { answerDemand, type Arrivals, headOf } from "./BankRequests.ts"
import { CannotListen, control, type ControlledSandbox } from "./Control.ts"
import type { Dialect } from "./Dialect.ts"
import { type FaultSettings, refuses } from "./Faults.ts"
import type { RecordFailed, SubmissionRecord } from "./Record.ts"
import { problemAnswer } from "./SandboxDialect.ts"
import type { Submissions } from "./Submissions.ts"
import { hangUp, send } from "./Wire.ts"

export interface Switches {
  settings: FaultSettings
}

interface SandboxServerOptions {
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
  /** Of the service port. Absent: it has no TLS. */
  readonly tls?: MutualTls | undefined
}

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

/** Whether an address is a loopback address. */
export const isLoopback = (address: string | undefined): boolean =>
  address !== undefined && /^(?:::1$|(?:::ffff:)?127\.)/u.test(address)

/** Listens until the scope closes. Then it accepts no more connections, and answers the requests under way. */
export const makeSandboxServer = Effect.fnUntraced(function*(options: SandboxServerOptions) {
  const { arrivals, dialect, host, seed, submissions, switches, tls } = options
  const fibers = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(fibers)<never>()
  const closing = yield* Latch.make()
  const clock = yield* Clock.Clock

  const onControl: Handler = (request, response, path) =>
    Effect.raceFirst(control(controlled, request, response, path), closing.await)
  const onService: Handler = (request, response, path) => {
    const head = headOf(request, clock.currentTimeMillisUnsafe())
    const demand = dialect.demandOf(head)
    if (demand !== null) {
      return answerDemand({ dialect, submissions, arrivals, closing }, demand, head, request, response)
    }
    return isLoopback(request.socket.remoteAddress)
      ? onControl(request, response, path)
      : send(response, loopbackOnly)
  }
  const isOpen = () => !isRefusing(switches.settings)
  const listener =
    (handle: Handler, mayKeepAlive: () => boolean) => (request: IncomingMessage, response: ServerResponse) => {
      response.shouldKeepAlive &&= mayKeepAlive() && !closing.isOpen()
      response.on("error", () => {})
      const path = (request.url ?? "/").split("?", 1)[0]!
      const fiber = fork(Effect.catchCause(handle(request, response, path), (cause) => giveUp(response, cause)))
      response.once("close", () => {
        fiber.interruptUnsafe()
        // The answer announced a kept connection, and the switches may have changed since.
        if (!mayKeepAlive()) request.socket.end()
      })
    }

  const onRequest = listener(onService, isOpen)
  const service: Server = tls === undefined
    ? createServer(httpOptions, onRequest)
    : https.createServer({ ...httpOptions, ...secureOptions(tls) }, onRequest)
  service.on("tlsClientError", (_error: Error, { authorizationError }: TLSSocket) => {
    fork(Effect.annotateLogs(
      Effect.logWarning("Ended a connection whose client showed no certificate of the authority"),
      { reason: authorizationError ?? "the handshake failed" }
    ))
  })
  let connections = 0
  service.prependListener("connection", (socket) => {
    if (refuses(seed, switches.settings, ++connections)) socket.resetAndDestroy()
  })
  const controls = createServer(httpOptions, listener(onControl, () => true))
  const port = yield* listen(service, host, options.port)
  yield* Effect.addFinalizer(() => Effect.sync(() => void service.close()))
  const controlPort = yield* listen(controls, controlHost, options.controlPort)
  const closeAll = () => {
    for (const server of [service, controls]) server.closeAllConnections()
  }
  const drain = Effect.gen(function*() {
    closing.openUnsafe()
    // They stop listening at once, and end idle connections. Their callback would wait until all connections have ended.
    for (const server of [service, controls]) server.close()
    const stalled = setTimeout(closeAll, drainTimeout)
    yield* FiberSet.awaitEmpty(fibers)
    clearTimeout(stalled)
    closeAll()
    // The fibers of incomplete requests record them.
    yield* FiberSet.awaitEmpty(fibers)
  })

  const oneAtATime = yield* Semaphore.make(1)
  const setFaults = (settings: FaultSettings) =>
    Effect.suspend((): Effect.Effect<unknown, CannotListen> => {
      switches.settings = settings
      if (isOpen()) return service.listening ? Effect.void : listen(service, host, port)
      // While the port is closed, the operating system refuses connections. Idle ones are closed, because a request on a kept
      // connection would still be answered.
      return Effect.sync(() => service.close())
    }).pipe(Effect.asVoid, Semaphore.withPermits(oneAtATime, 1), Effect.uninterruptible)
  const controlled: ControlledSandbox = {
    submissions,
    arrivals,
    record: options.record,
    faults: Effect.sync(() => switches.settings),
    setFaults
  }
  yield* Effect.addFinalizer(() => drain)
  yield* setFaults(switches.settings)
  return { port, controlPort, setFaults }
})

const isRefusing = (settings: FaultSettings): boolean => settings.refuse_connection?.rate === 1

/** Opens a port, 0 for a free one, and yields its number. A server that was closed can listen again. */
const listen = (server: Server, host: string, port: number): Effect.Effect<number, CannotListen> =>
  Effect.callback((resume) => {
    const fail = (cause: Error) => resume(Effect.fail(new CannotListen({ host, port, cause })))
    server.once("error", fail)
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off("error", fail)
      resume(Effect.succeed((server.address() as AddressInfo).port))
    })
  })

/** Answers 500. A submission that could not be recorded has no effect. */
const giveUp = (response: ServerResponse, cause: Cause.Cause<RecordFailed>): Effect.Effect<void> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.sync(() => hangUp(response))
  const answer = problemAnswer(500, "sandbox_failed", "The sandbox failed; this is not an injected fault")
  return Effect.logError("Request failed", cause).pipe(
    Effect.andThen(response.headersSent ? Effect.sync(() => hangUp(response)) : send(response, answer))
  )
}

/** A problem of the files. Undefined: there is none. No value is repeated. */
const problemOf = (
  { cert, clientCa, key }: { readonly cert: string; readonly key: Redacted.Redacted<string>; readonly clientCa: string }
): string | undefined => {
  const parse = <A>(parsed: () => A): A | null => {
    try {
      return parsed()
    } catch {
      return null
    }
  }
  const certificate = parse(() => new X509Certificate(cert))
  const privateKey = parse(() => createPrivateKey(Redacted.value(key)))
  if (certificate === null) return "cert must be a certificate in PEM"
  if (privateKey === null) return "key must be a private key in PEM, without a passphrase"
  if (!certificate.checkPrivateKey(privateKey)) return "key is not the key of the certificate in cert"
  return parse(() => new X509Certificate(clientCa)) === null ? "clientCa must be a certificate in PEM" : undefined
}

/**
 * Mutual TLS of the service port: it asks each client for a certificate, as a bank of the Open Banking standard does, and connections without
 * a certificate of the authority end before a request. The certificate of the service with its key, and the authority of its clients' certificates. PEM.
 */
export const MutualTls = Schema.Struct({
  cert: Schema.String,
  key: Schema.Redacted(Schema.String),
  clientCa: Schema.String
}).check(Schema.makeFilter(problemOf))
export type MutualTls = typeof MutualTls.Type

const secureOptions = ({ cert, clientCa, key }: MutualTls): https.ServerOptions => ({
  cert,
  key: Redacted.value(key),
  ca: clientCa,
  requestCert: true
})
