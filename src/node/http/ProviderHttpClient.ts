/**
 * The HTTP client for submissions to providers: Effect's client on undici, which asks the `SendDeadline` before the first byte leaves.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type { Agent, Dispatcher } from "@effect/platform-node/Undici"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { constants, X509Certificate } from "node:crypto"
import { SendDeadline } from "../../submission/http/SendDeadline.ts"

/** Settings of the connections to providers. */
export interface ProviderHttpClientOptions {
  /** Limit for connecting, TLS handshake included; undici measures in steps of half a second. Default: 5 seconds. */
  readonly connectTimeout?: Duration.Input
  /**
   * Most connections to one origin, each with one request at a time. Further requests wait, and their deadlines run.
   * Default: 64. Set it to at least the number of concurrent submissions and status reads.
   */
  readonly connections?: number
  /** How long an idle connection stays open. If it is short, the provider rarely closes first. Default: 2 seconds. */
  readonly keepAlive?: Duration.Input
  /** PEM: `ca` replaces Node's certificate authorities; `cert` and `key` authenticate the gateway (mutual TLS). */
  readonly tls?: {
    readonly ca?: string | ReadonlyArray<string>
    readonly cert?: string
    readonly key?: Redacted.Redacted<string>
  }
}

const makeAgent = (options: ProviderHttpClientOptions) => {
  const { ca, cert, key } = options.tls ?? {}
  const keepAlive = Duration.toMillis(options.keepAlive ?? "2 seconds")
  const agent: Agent.Options = {
    connections: options.connections ?? 64,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: keepAlive,
    // A `Keep-Alive` header of the provider can shorten the time, not extend it.
    keepAliveMaxTimeout: keepAlive,
    connect: {
      timeout: Duration.toMillis(options.connectTimeout ?? "5 seconds"),
      // After a renegotiation, the client could refuse a certificate when the request is already written.
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      ...(ca === undefined ? {} : { ca: typeof ca === "string" ? ca : [...ca] }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key: Redacted.value(key) })
    }
  }
  return NodeHttpClient.makeDispatcherOptions(agent)
}

/**
 * Asks the deadline of the fiber that sends. undici writes the head in the turn of the event loop in which it calls `onRequestStart`, and
 * calls it again if it writes the request again.
 */
const askDeadline: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const deadline = Fiber.getCurrent()?.getRef(SendDeadline) ?? null
  if (deadline === null) return dispatch(options, handler)
  const start = handler.onRequestStart?.bind(handler)
  handler.onRequestStart = (controller, context) => {
    start?.(controller, context)
    // The request may have been interrupted while it waited for a connection.
    if (!controller.aborted && !deadline.pass()) controller.abort(new Error("the send deadline has passed"))
  }
  deadline.watch()
  return dispatch(options, handler)
}

/** A client that sends each request once, by the dispatcher. Its failures keep the cause that undici gave. @internal */
export const makeClient = (dispatcher: Dispatcher): Effect.Effect<HttpClient.HttpClient> =>
  Effect.provideService(NodeHttpClient.makeUndici, NodeHttpClient.Dispatcher, dispatcher.compose(askDeadline))

/** Whether a certificate may be shown at this time, in milliseconds. @internal */
export const isValidAt = ({ validFrom, validTo }: X509Certificate, millis: number): boolean =>
  Date.parse(validFrom) <= millis && millis <= Date.parse(validTo)

/** The certificate of the gateway. Null if there is none, or if Node will refuse it. */
const parseCertificate = (cert: string | undefined): X509Certificate | null => {
  try {
    return cert === undefined ? null : new X509Certificate(cert)
  } catch {
    return null
  }
}

/**
 * Fails before the first byte while the certificate is not valid. With TLS 1.3 the provider would refuse it after that byte, and the outcome
 * of a submission would be uncertain.
 */
const requireValid = (client: HttpClient.HttpClient, certificate: X509Certificate): HttpClient.HttpClient =>
  HttpClient.transform(client, (sent, request) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (isValidAt(certificate, now)) return sent
      const cause = { code: "GATEWAY_CERT_NOT_VALID" }
      return Effect.fail(
        new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
      )
    }))

/**
 * An HTTP client for `HttpProvider` on Node. It connects within a deadline, sends each request once, never pipelines,
 * follows no redirect, and uses HTTP/1.1 only. It writes the first byte of a submission only before the send deadline. A
 * request that waits for a connection, or connects, when the deadline passes is proven not to have been sent. While the certificate of the
 * gateway is not valid, it sends nothing.
 */
export const layer = (options: ProviderHttpClientOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.suspend(() => {
      const certificate = parseCertificate(options.tls?.cert)
      const client = Effect.flatMap(makeAgent(options), makeClient)
      return certificate === null ? client : Effect.map(client, (made) => requireValid(made, certificate))
    })
  )
