/**
 * Providers made of bare sockets, which misbehave as they are told, and remember every byte that they received.
 */
import { NodeHttpClient } from "@effect/platform-node"
import { DateTime, Effect, type Layer, Schema } from "effect"
import type { HttpClient } from "effect/http"
import * as net from "node:net"
import type { ProviderOperation } from "../../src/domain/Submission.ts"
import { ProviderReference } from "../../src/domain/Submission.ts"
import * as ProviderHttpClient from "../../src/node/ProviderHttpClient.ts"
import { byStatus, evidenceOf, onBody } from "../../src/submission/http/HttpDecoding.ts"
import * as HttpProvider from "../../src/submission/http/HttpProvider.ts"
import { namesNothing, StatusAnswer, SubmissionAnswer } from "../../src/submission/Provider.ts"

/** The clients that an adapter may be given. */
export const clients: ReadonlyArray<readonly [name: string, layer: () => Layer.Layer<HttpClient.HttpClient>]> = [
  ["the provider's client", () => ProviderHttpClient.layer({ connectTimeout: 300 })],
  ["undici", () => NodeHttpClient.layerUndiciOptions({ connect: { timeout: 300 } })],
  ["fetch", () => NodeHttpClient.layerFetch],
  ["node:http", () => NodeHttpClient.layerNodeHttp]
]

/** A complete request, as it came. */
export interface ReceivedRequest {
  readonly head: string
  readonly body: string
  readonly key: string | undefined
}

export interface RawServer {
  readonly port: number
  readonly url: string
  readonly requests: ReadonlyArray<ReceivedRequest>
  /** Bytes that came in, of requests or not. */
  readonly bytes: () => number
  readonly connections: () => number
  /** Connections that are open now. */
  readonly open: () => number
  readonly received: () => string
  /** Hangs up on everybody and takes no more connections. */
  readonly close: () => void
}

export interface Behaviour {
  readonly onConnect?: (socket: net.Socket) => void
  readonly onBytes?: (socket: net.Socket) => void
  readonly onRequest?: (socket: net.Socket, request: ReceivedRequest, index: number) => void
}

/** Takes complete requests off the front. */
const takeRequest = (buffer: Buffer): readonly [ReceivedRequest, Buffer] | null => {
  const end = buffer.indexOf("\r\n\r\n")
  if (end === -1) return null
  const head = buffer.toString("latin1", 0, end)
  const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? "0")
  if (buffer.length < end + 4 + length) return null
  const key = /^idempotency-key: (.*)$/im.exec(head)?.[1]
  return [{ head, body: buffer.toString("utf8", end + 4, end + 4 + length), key }, buffer.subarray(end + 4 + length)]
}

/** A server on a port of its own, unless told on which, closed with the scope. */
export const rawServer = (behaviour: Behaviour, listenOn = 0) =>
  Effect.acquireRelease(
    Effect.callback<RawServer>((resume) => {
      const requests: Array<ReceivedRequest> = []
      const sockets = new Set<net.Socket>()
      const chunks: Array<Buffer> = []
      let connections = 0
      const server = net.createServer({ noDelay: true }, (socket) => {
        connections++
        sockets.add(socket)
        let buffer: Buffer = Buffer.alloc(0)
        socket.on("error", () => {})
        socket.on("close", () => sockets.delete(socket))
        socket.on("data", (chunk) => {
          chunks.push(chunk)
          buffer = Buffer.concat([buffer, chunk])
          behaviour.onBytes?.(socket)
          for (let taken = takeRequest(buffer); taken !== null; taken = takeRequest(buffer)) {
            buffer = taken[1]
            requests.push(taken[0])
            behaviour.onRequest?.(socket, taken[0], requests.length)
          }
        })
        behaviour.onConnect?.(socket)
      })
      server.listen(listenOn, "127.0.0.1", () => {
        const { port } = server.address() as net.AddressInfo
        resume(Effect.succeed({
          port,
          url: `http://127.0.0.1:${port}`,
          requests,
          bytes: () => chunks.reduce((sum, { length }) => sum + length, 0),
          connections: () => connections,
          open: () => sockets.size,
          received: () => Buffer.concat(chunks).toString("latin1"),
          close: () => {
            for (const socket of sockets) socket.destroy()
            server.close()
          }
        }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** A port where nobody listens. */
export const closedPort = Effect.map(Effect.scoped(rawServer({})), ({ port }) => port)

/** Waits until something is so; the test's own time limit ends a wait in vain. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const timer = setInterval(() => {
      if (condition()) {
        clearInterval(timer)
        resume(Effect.void)
      }
    }, 2)
    return Effect.sync(() => clearInterval(timer))
  })

/** A response in full. */
export const response = (
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {}
): string =>
  [
    `HTTP/1.1 ${status} Whatever`,
    ...Object.entries({
      "Content-Type": "application/json",
      "Content-Length": String(Buffer.byteLength(body)),
      ...headers
    }).map(([name, value]) => `${name}: ${value}`),
    "",
    body
  ].join("\r\n")

export const succeeded = JSON.stringify({ reference: "ref-1", status: "succeeded" })

/** Answers every request with these bytes. */
export const answering = (bytes: string | Buffer): Behaviour => ({ onRequest: (socket) => socket.write(bytes) })

let counter = 0

export const operationOf = (overrides: Partial<ProviderOperation> = {}): ProviderOperation => ({
  id: `019aa4f0-5c00-7b1e-8d2f-${(++counter).toString(16).padStart(12, "0")}`,
  type: "payment",
  resource_owner: "owner-1",
  provider_connection_id: "0b0e6ab4-43f6-4a3d-9f43-6a1b8a3f5d3e",
  send_before: null,
  ...overrides
} as ProviderOperation)

/** An instant so many milliseconds from now. */
export const inMillis = (millis: number) => Effect.map(DateTime.now, DateTime.add({ milliseconds: millis }))

const Body = Schema.Struct({ reference: ProviderReference, status: Schema.Literal("succeeded") })

const namesOf = <R extends ProviderReference>(reference: R) => ({ reference, operation_id: null })

/** An adapter that declares 200 and 422 for submissions, and 200 and 404 for status reads. */
export const optionsFor = (
  baseUrl: string,
  overrides: Partial<HttpProvider.HttpProviderOptions> = {}
): HttpProvider.HttpProviderOptions => ({
  baseUrl,
  submit: {
    request: ({ type }, payload) => ({ path: "/mutations", body: { type, payload } }),
    decode: byStatus({
      200: onBody(
        Body,
        ({ reference }, answer) =>
          SubmissionAnswer.Succeeded({ names: namesOf(reference), evidence: evidenceOf(answer) })
      ),
      422: onBody(
        Schema.Struct({ code: Schema.String }),
        ({ code }, answer) =>
          SubmissionAnswer.Rejected({ code, message: "refused", names: namesNothing, evidence: evidenceOf(answer) })
      )
    })
  },
  status: {
    request: ({ id }) => ({ path: `/mutations/${id}` }),
    decode: byStatus({
      200: onBody(
        Body,
        ({ reference }, answer) =>
          StatusAnswer.Proven({ state: "succeeded", names: namesOf(reference), evidence: evidenceOf(answer) })
      ),
      404: onBody(
        Schema.Struct({ code: Schema.Literal("not_found") }),
        () => StatusAnswer.NotProven({ reason: "not_found", detail: "not known", names: namesNothing })
      )
    })
  },
  deadlines: { headers: 2000, body: 2000 },
  ...overrides
})

/** What came of a submission, as a word and its details. */
export const submitTo = (
  options: HttpProvider.HttpProviderOptions,
  operation = operationOf(),
  payload: Schema.Json = {}
) =>
  Effect.flatMap(HttpProvider.make(options), ({ submit }) =>
    Effect.match(submit(operation, payload), {
      onFailure: ({ _tag, reason }) => ({ _tag, reason }),
      onSuccess: (answer) => ({ ...answer, reason: "" })
    }))

export const readFrom = (options: HttpProvider.HttpProviderOptions, operation = operationOf()) =>
  Effect.flatMap(HttpProvider.make(options), ({ readStatus }) => readStatus(operation, null))
