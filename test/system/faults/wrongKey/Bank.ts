/** The bank of the run: it refuses a wrong key with 401, and keeps a record of the payments that it carried out. */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type * as net from "node:net"

export interface Bank {
  readonly url: string
  /** How often the bank carried out each payment, by idempotency key. */
  readonly payments: ReadonlyMap<string, number>
  /** When the bank refused a submission for its key, in milliseconds since 1970. */
  readonly refusals: ReadonlyArray<number>
}

/** Runs until the scope closes. */
export const makeBank = (rightKey: string): Effect.Effect<Bank, never, Scope.Scope> =>
  Effect.gen(function*() {
    const payments = new Map<string, number>()
    const refusals: Array<number> = []

    const answer = (response: ServerResponse, status: number, body: object) => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
    }

    const handle = (request: IncomingMessage, response: ServerResponse) => {
      request.resume()
      if (request.headers.authorization !== `Bearer ${rightKey}`) {
        if (request.method === "POST") refusals.push(Date.now())
        return answer(response, 401, { error: "unknown key" })
      }
      const id = request.method === "POST"
        ? String(request.headers["idempotency-key"])
        : (request.url ?? "").split("/").at(-1)!
      if (request.method === "POST") payments.set(id, (payments.get(id) ?? 0) + 1)
      return payments.has(id)
        ? answer(response, 200, { id, reference: `bank-${id}` })
        : answer(response, 404, { error: "unknown payment" })
    }

    const server = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer(handle).listen(0, "127.0.0.1")
        await once(server, "listening")
        return server
      }),
      (server) =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
    )
    return { url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`, payments, refusals }
  })
