/**
 * The HTTP client for submissions to providers: undici, bare, with a say in when the first byte leaves.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type { Agent, Dispatcher } from "@effect/platform-node/Undici"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { constants } from "node:crypto"
import { SendGate } from "../submission/http/SendGate.ts"

/** How connections to providers are made. */
export interface ProviderHttpClientOptions {
  /** Until the connection can be written to, TLS included; measured in steps of half a second. Default: 5 seconds. */
  readonly connectTimeout?: Duration.Input
  /**
   * Connections to one origin, each with one request at a time; more requests wait, and their deadlines run. Default:
   * 64. Not less than the submissions and status reads that run at once.
   */
  readonly connections?: number
  /** How long an idle connection is kept. The shorter, the rarer the provider closes it first. Default: 2 seconds. */
  readonly keepAlive?: Duration.Input
  /** Certificates, as PEM: whom to trust instead of the usual authorities, and how to show who we are (mutual TLS). */
  readonly tls?: {
    readonly ca?: string | ReadonlyArray<string>
    readonly cert?: string
    readonly key?: Redacted.Redacted<string>
  }
}

/** Carries the gate through undici, which hands its options on. */
const gateKey = Symbol("financial-agents-gateway/node/ProviderHttpClient/gate")

const makeAgent = (options: ProviderHttpClientOptions) => {
  const { ca, cert, key } = options.tls ?? {}
  const keepAlive = Duration.toMillis(options.keepAlive ?? "2 seconds")
  const agent: Agent.Options = {
    connections: options.connections ?? 64,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: keepAlive,
    // What the provider says of its patience only shortens ours.
    keepAliveMaxTimeout: keepAlive,
    connect: {
      timeout: Duration.toMillis(options.connectTimeout ?? "5 seconds"),
      // With a renegotiation, a certificate might be refused after the request was written.
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      ...(ca === undefined ? {} : { ca: typeof ca === "string" ? ca : [...ca] }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key: Redacted.value(key) })
    }
  }
  return NodeHttpClient.makeDispatcherOptions(agent)
}

/**
 * Asks for leave right before undici writes: it starts a request and writes its head in the same turn, and starts it
 * anew if ever it should write it again.
 */
const withLeave = (handler: Dispatcher.DispatchHandler, gate: SendGate): Dispatcher.DispatchHandler => ({
  onRequestStart: (controller, context) => {
    handler.onRequestStart?.(controller, context)
    if (!controller.aborted && !gate.pass()) controller.abort(new Error("the request must not leave any more"))
  },
  onRequestUpgrade: (...args) => handler.onRequestUpgrade?.(...args),
  onResponseStarted: () => handler.onResponseStarted?.(),
  onResponseStart: (...args) => handler.onResponseStart?.(...args),
  onResponseData: (...args) => handler.onResponseData?.(...args),
  onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
  onResponseError: (...args) => handler.onResponseError?.(...args),
  onBodySent: (...args) => handler.onBodySent?.(...args),
  onRequestSent: () => handler.onRequestSent?.()
})

const askBeforeSending: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const gate = (options as { readonly [gateKey]?: SendGate })[gateKey]
  if (gate === undefined) return dispatch(options, handler)
  gate.watch()
  return dispatch(options, withLeave(handler, gate))
}

/** Hands the gate that the adapter provides on to undici. */
const carryDeparture = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  HttpClient.transformResponse(client, (response) =>
    Effect.flatMap(SendGate, (gate) =>
      gate === null
        ? response
        : Effect.updateService(response, NodeHttpClient.UndiciOptions, (options) => ({
          ...options,
          [gateKey]: gate
        }))))

/**
 * A client for `HttpProvider` on Node. It connects within a deadline, sends each request once, never pipelines, follows
 * no redirect, speaks HTTP/1.1 alone, and writes the first byte of a submission only if it may still leave: what waits
 * for a connection or connects when the deadline comes is proven not to have been sent.
 */
export const layer = (options: ProviderHttpClientOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
  HttpClient.layerMergedContext(Effect.map(NodeHttpClient.makeUndici, carryDeparture)).pipe(
    Layer.provide(
      Layer.effect(
        NodeHttpClient.Dispatcher,
        Effect.map(makeAgent(options), (agent) => agent.compose(askBeforeSending))
      )
    )
  )
