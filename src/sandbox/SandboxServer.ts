/**
 * The two ports of the sandbox. The service port takes submissions and status reads. The control port stays open while
 * the service port refuses connections. The service port answers the control plane, too: the record, the
 * true state of each key, and the fault switches, for the loopback interface alone.
 *
 *     GET /record            every receipt, in order, as lines of JSON (`Receipt`)
 *     GET /arrivals          when the last 100,000 submissions and status reads arrived, as lines of JSON (`Arrival`)
 *     GET /truth             the true state of every key, as lines of JSON (`Truth`)
 *     GET /truth/{key}       the true state of one key
 *     GET /faults            the switches (`FaultSettings`)
 *     PUT /faults            replaces all switches; a switch that is left out is off
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { createPrivateKey, X509Certificate } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import * as https from "node:https"
import type { AddressInfo } from "node:net"
import { Readable } from "node:stream"
import type { TLSSocket } from "node:tls"
import { answerDemand, type Arrivals, headOf } from "./BankRequests.ts"
import { type Dialect, jsonAnswer } from "./Dialect.ts"
import { FaultSettings, refuses } from "./Faults.ts"
import type { RecordFailed, SubmissionRecord } from "./Record.ts"
import { keyIn, problemAnswer, wrongMethod } from "./SandboxDialect.ts"
import type { Submissions } from "./Submissions.ts"
import { describeIssues, hangUp, readBody, send, sendLines } from "./Wire.ts"

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
  const controlled = { ...options, setFaults }
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

interface ControlledSandbox extends Pick<SandboxServerOptions, "submissions" | "arrivals" | "record" | "switches"> {
  readonly setFaults: (settings: FaultSettings) => Effect.Effect<void, CannotListen>
}

const decodeJson = Schema.decodeResult(Schema.fromJsonString(Schema.Json))
const decodeSettings = Schema.decodeUnknownResult(FaultSettings, { onExcessProperty: "error", errors: "all" })

const replaceFaults = Effect.fnUntraced(function*(controlled: ControlledSandbox, request: IncomingMessage) {
  const body = yield* readBody(request)
  if (body === "too_large") return problemAnswer(413, "body_too_large", "The body is too large")
  if (body === "incomplete") return null
  const json = decodeJson(body.toString("utf8"))
  if (Result.isFailure(json)) return problemAnswer(400, "invalid_json", describeIssues(json.failure))
  const settings = decodeSettings(json.success)
  if (Result.isFailure(settings)) return problemAnswer(422, "invalid_faults", describeIssues(settings.failure))
  return yield* controlled.setFaults(settings.success).pipe(
    Effect.as(jsonAnswer(200, settings.success)),
    Effect.catchTag("CannotListen", ({ message }) => Effect.succeed(problemAnswer(500, "cannot_listen", message)))
  )
})

const truthOf = (controlled: ControlledSandbox, path: string) =>
  Result.match(keyIn(path, "/truth/"), {
    onSuccess: (key) => Effect.map(controlled.submissions.truth(key), (truth) => jsonAnswer(200, truth)),
    onFailure: Effect.succeed
  })

const control = Effect.fnUntraced(function*(
  controlled: ControlledSandbox,
  request: IncomingMessage,
  response: ServerResponse,
  path: string
) {
  const { method } = request
  if (path === "/faults" && method === "PUT") {
    const answer = yield* replaceFaults(controlled, request)
    return answer === null ? undefined : yield* send(response, answer)
  }
  const isKnown = ["/faults", "/record", "/arrivals", "/truth"].includes(path) || path.startsWith("/truth/")
  if (!isKnown) return yield* send(response, problemAnswer(404, "unknown_endpoint", `Unknown path: ${path}`))
  if (method !== "GET") return yield* send(response, wrongMethod(path === "/faults" ? "GET and PUT" : "GET"))
  if (path === "/faults") return yield* send(response, jsonAnswer(200, controlled.switches.settings))
  if (path === "/record") return yield* sendLines(response, controlled.record.lines())
  if (path === "/arrivals") {
    const lines = controlled.arrivals.all().values().map((arrival) => `${JSON.stringify(arrival)}\n`)
    return yield* sendLines(response, Readable.from(lines))
  }
  if (path !== "/truth") return yield* send(response, yield* truthOf(controlled, path))
  const truths = yield* Effect.forEach(controlled.submissions.keys(), controlled.submissions.truth)
  return yield* sendLines(response, Readable.from(truths.values().map((truth) => `${JSON.stringify(truth)}\n`)))
})
