/**
 * A firewall between the gateway and its authorization server: it forwards requests, answers some in the server's
 * place, and leaves others without an answer.
 */
import { Context, Effect, type Scope } from "effect"
import * as http from "node:http"
import type { AddressInfo } from "node:net"

/** A request as the middlebox sees it. */
export interface Seen {
  readonly path: string
  readonly body: string
}

/** A status without a body, a document, no answer, or the answer of the authorization server. */
export type Treatment = number | "silence" | "forward" | { readonly json: unknown }

export interface Middlebox {
  /** The origin that the middlebox listens on. */
  readonly origin: string
  /** The origin of the authorization server, which requests are forwarded to. */
  readonly forwardTo: (origin: string) => void
  readonly treat: (how: (request: Seen) => Treatment) => void
  readonly seen: ReadonlyArray<Seen>
  /** The number of requests without an answer so far, and the highest such number. */
  readonly open: () => number
  readonly mostOpen: () => number
  /** Closes the connections of all requests that have no answer. */
  readonly hangUp: Effect.Effect<void>
}

export class Box extends Context.Service<Box, Middlebox>()("test/Middlebox") {}

const bodyOf = async (request: http.IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString("utf8")
}

const forwarded = async (
  origin: string,
  request: http.IncomingMessage,
  body: string,
  response: http.ServerResponse
) => {
  const { authorization = "", "content-type": type = "" } = request.headers
  const answer = await fetch(origin + request.url!, {
    method: request.method!,
    headers: { authorization, "content-type": type },
    ...body === "" ? {} : { body }
  })
  const text = await answer.text()
  response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" }).end(text)
}

/** Listens on loopback until the scope closes, and forwards requests unless instructed otherwise. */
export const makeMiddlebox: Effect.Effect<Middlebox, never, Scope.Scope> = Effect.gen(function*() {
  let target = ""
  let treatment: (request: Seen) => Treatment = () => "forward"
  const open = new Set<http.ServerResponse>()
  let mostOpen = 0
  const seen: Array<Seen> = []

  const answer = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    open.add(response)
    mostOpen = Math.max(mostOpen, open.size)
    response.once("close", () => open.delete(response))
    const body = await bodyOf(request)
    const one = { path: request.url!, body }
    seen.push(one)
    const how = treatment(one)
    if (how === "silence") return
    if (how === "forward") return forwarded(target, request, body, response)
    if (typeof how === "number") return void response.writeHead(how).end()
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(how.json))
  }

  const server = yield* Effect.acquireRelease(
    Effect.callback<http.Server>((resume) => {
      const server = http.createServer((request, response) =>
        void answer(request, response).catch(() => response.destroy())
      )
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forwardTo: (origin) => {
      target = origin
    },
    treat: (how) => {
      treatment = how
    },
    seen,
    open: () => open.size,
    mostOpen: () => mostOpen,
    hangUp: Effect.sync(() => {
      for (const response of open) response.destroy()
    })
  }
})
