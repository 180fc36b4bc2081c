/**
 * The provider that the conformance kit runs: an HTTP server on a loopback address. It records each request, and answers or fails as a
 * case requires, byte by byte. The sandbox is the bank that keeps a state.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as http from "node:http"
import * as net from "node:net"

/** A request as the provider received it. */
export interface ReceivedRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A request that the bank must get. */
export interface WireRequest {
  /** Default: `POST`. */
  readonly method?: string
  /** With the query. */
  readonly path: string
  /** The headers that matter, by name in lower case. The adapter may send others. */
  readonly headers?: Readonly<Record<string, string>>
  /** Every byte. */
  readonly body: string
}

/** The operation that an answer is about. An answer names it as the provider does: by the id, the reference, or both. */
export interface AnswerSubject {
  /** Id of the operation, which the adapter sent as idempotency key. */
  readonly id: string
  /** The provider's reference. */
  readonly reference: string
  /** The request that is answered. */
  readonly request: ReceivedRequest
}

/** An answer of the provider. With neither `body` nor `text` it is empty. */
export interface BankAnswer {
  readonly status: number
  /** Default: `Content-Type: application/json` for `body`, `text/html` for `text`. */
  readonly headers?: Readonly<Record<string, string>>
  /** The body as JSON. */
  readonly body?: Schema.Json
  /** A body that is no JSON, such as a page. */
  readonly text?: string
}

/** Makes the answer about an operation. */
export type Answering = (subject: AnswerSubject) => BankAnswer

export const textOf = ({ body, text }: BankAnswer): string => body === undefined ? text ?? "" : JSON.stringify(body)

/** The status line and the headers, with the empty line that ends them. `length` null leaves out `Content-Length`. */
export const headOf = (
  answer: BankAnswer,
  length: number | null = Buffer.byteLength(textOf(answer))
): string => {
  const type = answer.body === undefined ? "text/html" : "application/json"
  const headers = {
    "Content-Type": type,
    ...(length === null ? {} : { "Content-Length": String(length) }),
    Connection: "close",
    ...answer.headers
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${answer.status} Answer`, ...lines, "", ""].join("\r\n")
}

/** The whole answer. */
export const bytesOf = (answer: BankAnswer): string => headOf(answer) + textOf(answer)

/** What the bank does. Each function owns the socket: it writes bytes, ends it, or leaves it open. */
export interface Behaviour {
  /** At each connection, before a byte is read. */
  readonly onConnection?: (socket: net.Socket) => void
  /** At the head of a request. Returns true if the request needs no further treatment. */
  readonly onHead?: (socket: net.Socket) => boolean
  /** At a complete request: the bank has taken it. */
  readonly onRequest?: (socket: net.Socket, request: ReceivedRequest) => void
  /** The bank leaves the adapter waiting, so only a deadline of the adapter ends the call. */
  readonly isSilent?: boolean
}

export interface Seen {
  /** Requests of which at least the head arrived, in order, without those that `otherRequests` answered. */
  readonly requests: ReadonlyArray<ReceivedRequest>
  /** Received bytes, in all connections. */
  readonly bytes: number
  /** Sent bytes of answers, in all connections. */
  readonly sent: number
}

export interface ContractBank {
  readonly baseUrl: string
  readonly seen: () => Seen
}

/** Answers a request that is no submission and no status read, or returns undefined. */
export type OtherRequests = (request: ReceivedRequest) => BankAnswer | undefined

const headersOf = (message: http.IncomingMessage): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, String(value)]))

const received = (message: http.IncomingMessage, body: string): ReceivedRequest => ({
  method: message.method ?? "",
  path: message.url ?? "",
  headers: headersOf(message),
  body
})

const treat = (
  message: http.IncomingMessage,
  requests: Array<ReceivedRequest>,
  behaviour: Behaviour,
  otherRequests: OtherRequests
) => {
  const { socket } = message
  const chunks: Array<Buffer> = []
  const head = received(message, "")
  const other = otherRequests(head) !== undefined
  const at = other ? -1 : requests.push(head) - 1
  if (!other && behaviour.onHead?.(socket) === true) return
  message.on("data", (chunk: Buffer) => chunks.push(chunk))
  message.on("error", () => {})
  message.on("end", () => {
    const request = received(message, Buffer.concat(chunks).toString("utf8"))
    const answer = otherRequests(request)
    if (answer !== undefined) return void socket.end(bytesOf(answer))
    requests[at] = request
    behaviour.onRequest?.(socket, request)
  })
}

/** Runs the bank on a free port until the scope closes. */
export const contractBank = (
  behaviour: Behaviour,
  otherRequests: OtherRequests
): Effect.Effect<ContractBank, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly server: http.Server; readonly bank: ContractBank }>((resume) => {
        const requests: Array<ReceivedRequest> = []
        const sockets: Array<net.Socket> = []
        const server = http.createServer({ keepAlive: false }, (message) =>
          treat(message, requests, behaviour, otherRequests))
        server.on("connection", (socket) => {
          sockets.push(socket)
          socket.on("error", () => {})
          behaviour.onConnection?.(socket)
        })
        server.on("clientError", () => {})
        const sum = (count: (socket: net.Socket) => number) =>
          sockets.reduce((all, one) => all + count(one), 0)
        server.listen(0, "127.0.0.1", () => {
          const { port } = server.address() as net.AddressInfo
          resume(Effect.succeed({
            server,
            bank: {
              baseUrl: `http://127.0.0.1:${port}`,
              seen: () => ({
                requests: [...requests],
                bytes: sum(({ bytesRead }) => bytesRead),
                sent: sum(({ bytesWritten }) => bytesWritten)
              })
            }
          }))
        })
      }),
      ({ server }) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    ),
    ({ bank }) => bank
  )

/**
 * A bank that answers nothing: no program listens at its address, until the scope closes. The port belongs to a connection meanwhile, so
 * that no bank of another case gets it.
 */
export const closedBank = (otherRequests: OtherRequests): Effect.Effect<ContractBank, never, Scope.Scope> =>
  Effect.gen(function*() {
    const bank = yield* contractBank({}, otherRequests)
    const port = Number(new URL(bank.baseUrl).port)
    const socket = yield* Effect.acquireRelease(
      Effect.callback<net.Socket>((resume) => {
        const socket = net.connect(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
      }),
      (socket) => Effect.sync(() => socket.destroy())
    )
    return { ...bank, baseUrl: `http://127.0.0.1:${socket.localPort}` }
  })

/** A bank whose name does not resolve, on any network: a label of a name has 63 characters at most. */
export const unknownBank: Effect.Effect<ContractBank> = Effect.succeed({
  baseUrl: `https://${"bank".repeat(16)}.invalid`,
  seen: () => ({ requests: [], bytes: 0, sent: 0 })
})
