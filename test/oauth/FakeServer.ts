/**
 * An authorization server without a network: its documents can be changed, delayed and taken away.
 */
import { type Duration, Effect, Layer } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import type { CircuitBreaker } from "effect/persistence"
import { layerIntrospectionCircuit } from "../../src/oauth/IntrospectionLane.ts"
import { issuer } from "./Issuing.ts"

export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What a URL answers: a value as JSON with status 200, or a whole response. */
type Answer = unknown

export class FakeServer {
  readonly requests: Array<Received> = []
  readonly answers = new Map<string, (request: Received) => Answer>()
  isDown = false
  delay: Duration.Input = 0
  /** Requests that are never answered. */
  isSilentTo: (request: Received) => boolean = () => false
  /** Requests that were aborted before they were answered. */
  aborted = 0
  /** Requests that are not answered yet. */
  open = 0
  /** The most requests that were open at once. */
  mostOpen = 0

  /** How often it was asked for this. */
  asked(path: string): number {
    return this.requests.filter(({ url }) => new URL(url).pathname === path).length
  }

  serve(path: string, answer: Answer | ((request: Received) => Answer)): void {
    const url = new URL(path, issuer).href
    this.answers.set(url, typeof answer === "function" ? answer as (request: Received) => Answer : () => answer)
  }

  readonly client: HttpClient.HttpClient = HttpClient.make((request, url) =>
    Effect.gen({ self: this }, function*() {
      const received = {
        method: request.method,
        url: url.href,
        headers: request.headers,
        body: bodyOf(request)
      }
      this.requests.push(received)
      this.mostOpen = Math.max(this.mostOpen, ++this.open)
      yield* this.isSilentTo(received) ? Effect.never : Effect.sleep(this.delay)
      if (this.isDown) {
        const cause = Object.assign(new Error(`connect ${url.href}`), { code: "ECONNREFUSED" })
        const reason = new HttpClientError.TransportError({ request, cause })
        return yield* new HttpClientError.HttpClientError({ reason })
      }
      const answer = this.answers.get(url.href)?.(received) ?? new Response("", { status: 404 })
      return HttpClientResponse.fromWeb(request, answer instanceof Response ? answer : Response.json(answer))
    }).pipe(
      Effect.onInterrupt(() =>
        Effect.sync(() => {
          this.aborted++
        })
      ),
      Effect.ensuring(Effect.sync(() => {
        this.open--
      }))
    )
  )
}

const bodyOf = ({ body }: HttpClientRequest.HttpClientRequest): string =>
  body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : ""

/** Serves metadata that names keys and introspection. */
export const makeFakeServer = (keys: ReadonlyArray<unknown> = []): FakeServer => {
  const server = new FakeServer()
  server.serve("/.well-known/oauth-authorization-server", {
    issuer,
    jwks_uri: `${issuer}/jwks`,
    introspection_endpoint: `${issuer}/introspect`
  })
  server.serve("/jwks", { keys })
  return server
}

/** Everything that verifiers need, with this server to ask. */
export const layerOf = (
  server: FakeServer
): Layer.Layer<
  HttpClient.HttpClient | Digest.Digest | SecureRandom.SecureRandom | CircuitBreaker.CircuitBreaker
> =>
  Layer.mergeAll(
    Layer.succeed(HttpClient.HttpClient, server.client),
    Digest.layerWebCrypto,
    SecureRandom.layerWebCrypto,
    layerIntrospectionCircuit
  )
