/**
 * The receiver of the outbox's webhooks: it checks each request, and answers as the test says.
 */
import { Effect } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"

const key = Buffer.alloc(32, "outbox")

/** The secret that both sides know. */
export const secret = `whsec_${key.toString("base64")}`

/** An acknowledged delivery. */
export interface Delivered {
  readonly webhookId: string
  readonly body: {
    readonly operation: {
      readonly id: string
      readonly revision: number
      readonly state: string
      readonly under_review: boolean
    }
    readonly client_id: string
    readonly subject: string
  }
}

/** Answers a request. A status 2xx acknowledges it, null never answers. */
export type Answer = (requests: number) => number | null | "reset" | Promise<number>

export interface Receiver {
  readonly url: string
  /** In the order of their answers. */
  readonly delivered: ReadonlyArray<Delivered>
  /** What was wrong with any request. */
  readonly errors: ReadonlyArray<string>
  /** Requests so far. */
  readonly requests: () => number
  /** Requests that the publisher gave up before the answer. */
  readonly aborted: () => number
  readonly answerWith: (answer: Answer) => void
}

/** Standard Webhooks, "Verifying webhook authenticity". */
const isSigned = ({ headers }: IncomingMessage, body: string): boolean => {
  const expected = createHmac("sha256", key)
    .update(`${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`).digest()
  return String(headers["webhook-signature"]).split(" ").some((signature) => {
    const found = Buffer.from(signature.replace(/^v1,/, ""), "base64")
    return signature.startsWith("v1,") && found.length === expected.length && timingSafeEqual(found, expected)
  })
}

const respond = (response: ServerResponse, status: number) =>
  response.writeHead(status, {
    ...status === 503 ? { "retry-after": "1" } : {},
    ...status === 307 ? { location: "/elsewhere" } : {}
  }).end()

/** Starts a receiver that acknowledges everything. It stops with the scope. */
export const startReceiver = Effect.acquireRelease(
  Effect.promise(async () => {
    const delivered: Array<Delivered> = []
    const errors: Array<string> = []
    /** Operations with an unanswered request. */
    const open = new Set<string>()
    let requests = 0
    let aborted = 0
    let answer: Answer = () => 200
    const receive = async (request: IncomingMessage, response: ServerResponse) => {
      const body = await text(request)
      const webhookId = String(request.headers["webhook-id"])
      const content = JSON.parse(body) as Delivered["body"]
      const { id, revision, under_review } = content.operation
      const expected = `${id}.${revision}${under_review ? ".review" : ""}`
      if (!isSigned(request, body)) errors.push(`${webhookId}: the signature is wrong`)
      if (webhookId !== expected) errors.push(`${webhookId} instead of ${expected}`)
      if (request.url !== "/") errors.push(`${webhookId}: posted to ${request.url}`)
      if (open.has(id)) errors.push(`${webhookId}: another delivery of the operation was not answered yet`)
      open.add(id)
      response.once("close", () => {
        open.delete(id)
        if (!response.writableFinished) aborted++
      })
      const status = await answer(++requests)
      if (status === "reset") return void request.socket.resetAndDestroy()
      if (status === null || response.destroyed) return
      if (status >= 200 && status < 300) delivered.push({ webhookId, body: content })
      respond(response, status)
    }
    const server = createServer((request, response) => {
      receive(request, response).catch((error: unknown) => {
        // A killed publisher cuts its requests.
        if (!request.destroyed) errors.push(String(error))
      })
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    const receiver: Receiver = {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      delivered,
      errors,
      requests: () => requests,
      aborted: () => aborted,
      answerWith: (next) => answer = next
    }
    return { receiver, server }
  }),
  ({ server }) =>
    Effect.promise(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
).pipe(Effect.map(({ receiver }) => receiver))

/** Each place where the revision of an operation went back among the acknowledged deliveries. */
export const wentBack = (delivered: ReadonlyArray<Delivered>): ReadonlyArray<string> => {
  const last = new Map<string, number>()
  return delivered.flatMap(({ body: { operation: { id, revision } } }) => {
    const before = last.get(id) ?? 0
    last.set(id, revision)
    return revision < before ? [`${id}: ${revision} after ${before}`] : []
  })
}

/** The webhook that was delivered last for each operation. */
export const lastOf = (delivered: ReadonlyArray<Delivered>): ReadonlyMap<string, string> =>
  new Map(delivered.map(({ body, webhookId }) => [body.operation.id, webhookId]))
