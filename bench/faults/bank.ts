/**
 * The bank of the comparison, in a process of its own that no fault ends. Its record of bookings judges the contestants.
 *
 * `POST /payments` pays, `GET /payments/{id}` and `GET /payments?reference=…` (or `end_to_end_id=…`) read. A payment with `"hold": true`
 * waits for a release and pays nothing; `POST /payments/{id}/cancel` cancels it. 429 and 503 say that nothing was taken. A key
 * (`Idempotency-Key`) that the bank honours stands for one payment: each later request gets that payment, with 200.
 */
import { once } from "node:events"
import * as http from "node:http"
import type * as net from "node:net"
import * as readline from "node:readline"
import { monotonic } from "../../test/long/faults/kit/Clock.ts"
import { type BankConfig, type BankEvent, type BankFault, type BankOrder, configVariable } from "./types.ts"

interface Booked {
  readonly id: string
  readonly reference: string
  readonly end_to_end_id: string | null
  readonly amount: string
  readonly currency: string
  readonly payee: string
  status: "paid" | "held" | "cancelled"
}

type Order = Omit<Booked, "id" | "status"> & { readonly hold?: boolean }

const config = JSON.parse(process.env[configVariable] ?? "{}") as BankConfig

const payments = new Map<string, Booked>()
/** Payments by the keys that the bank still honours. */
const keys = new Map<string, Booked>()
const requests = new Map<string, number>()
const planned = new Map<string, BankFault>()
/** Held requests, each with the function that goes on with it, or resets its connection. */
let held: Array<(goesOn: boolean) => void> = []

const tell = (event: Omit<BankEvent, "at">) =>
  void process.stdout.write(`${JSON.stringify({ at: Math.round(monotonic()), ...event })}\n`)

const readBody = async (request: http.IncomingMessage): Promise<string> => {
  let body = ""
  for await (const chunk of request) body += chunk
  return body
}

const send = (response: http.ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}

/** Books the order, or finds the payment of its key. */
const book = (
  order: Order,
  key: string | null,
  request: number
): { readonly payment: Booked; readonly isNew: boolean } => {
  const known = key === null ? undefined : keys.get(key)
  if (known !== undefined) {
    tell({ event: "repeated", id: order.reference, request })
    return { payment: known, isNew: false }
  }
  const { hold = false, ...rest } = order
  const payment: Booked = { id: `pay-${payments.size + 1}`, ...rest, status: hold ? "held" : "paid" }
  payments.set(payment.id, payment)
  if (key !== null) keys.set(key, payment)
  if (!hold) tell({ event: "booked", id: order.reference, request })
  return { payment, isNew: true }
}

const sendWebhooks = async (payment: Booked) => {
  tell({ event: "webhook", id: payment.reference })
  const body = JSON.stringify(payment)
  await Promise.all(config.webhookPorts.map((port) =>
    fetch(`http://127.0.0.1:${port}/webhooks`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
      signal: AbortSignal.timeout(2000)
      // A contestant need not take webhooks.
    }).catch(() => null)
  ))
}

/** Whether the request goes on. If not, its connection is reset. */
const whenOrdered = () => new Promise<boolean>((resolve) => held.push(resolve))

const pay = async (message: http.IncomingMessage, response: http.ServerResponse) => {
  const order = JSON.parse(await readBody(message)) as Order
  const id = order.reference
  const header = message.headers["idempotency-key"]
  const key = config.keys === "none" || typeof header !== "string" ? null : header
  const socket = message.socket as net.Socket
  const lose = (request: number) => {
    tell({ event: "lost", id, request })
    socket.resetAndDestroy()
  }
  const isHold = order.hold === true
  const request = (requests.get(id) ?? 0) + (isHold ? 0 : 1)
  requests.set(id, request)
  tell({ event: "arrived", id, request })
  const fault = isHold ? undefined : planned.get(`${id} ${request}`)
  if (fault === "lost_before") return lose(request)
  if (fault === "unavailable") {
    tell({ event: "answered", id, request, status: 503 })
    return send(response, 503, { code: "unavailable" })
  }
  if (fault === "hold_before") {
    tell({ event: "held", id, request })
    if (!(await whenOrdered())) return lose(request)
  }
  const { isNew, payment } = book(order, key, request)
  if (fault === "hold_after") {
    tell({ event: "held", id, request })
    if (!(await whenOrdered())) return lose(request)
  }
  if (fault === "webhook_first" || fault === "webhook_then_lost") {
    await sendWebhooks(payment)
    await new Promise((resolve) => setTimeout(resolve, 1000))
  }
  if (fault === "lost_after" || fault === "webhook_then_lost") return lose(request)
  const status = fault === "error_after" ? 500 : isNew ? 201 : 200
  tell({ event: "answered", id, request, status })
  send(response, status, status === 500 ? { code: "internal_error" } : payment)
}

const read = (url: URL, response: http.ServerResponse) => {
  const one = /^\/payments\/([^/]+)$/.exec(url.pathname)?.[1]
  if (one !== undefined) {
    const payment = payments.get(one)
    return payment === undefined ? send(response, 404, { code: "not_found" }) : send(response, 200, payment)
  }
  const [reference, endToEnd] = [url.searchParams.get("reference"), url.searchParams.get("end_to_end_id")]
  const found = [...payments.values()].filter((payment) =>
    reference === null ? payment.end_to_end_id === endToEnd : payment.reference === reference
  )
  tell({ event: "read", id: reference ?? found[0]?.reference ?? "" })
  send(response, 200, { payments: found })
}

const cancel = (id: string, response: http.ServerResponse) => {
  const payment = payments.get(id)
  if (payment === undefined) return send(response, 404, { code: "not_found" })
  if (payment.status === "paid") return send(response, 422, { code: "already_paid" })
  payment.status = "cancelled"
  send(response, 200, payment)
}

const server = http.createServer((message, response) => {
  const url = new URL(message.url ?? "/", "http://bank")
  const cancelled = /^\/payments\/([^/]+)\/cancel$/.exec(url.pathname)?.[1]
  if (message.headers.authorization !== `Bearer ${config.token}`) send(response, 401, { code: "unauthorized" })
  else if (message.method === "GET" && url.pathname.startsWith("/payments")) read(url, response)
  else if (message.method === "POST" && cancelled !== undefined) cancel(cancelled, response)
  else if (message.method === "POST" && url.pathname === "/payments") void pay(message, response)
  else send(response, 404, { code: "no_such_path" })
})

const obey = (order: BankOrder) => {
  switch (order.order) {
    case "faults":
      for (const { fault, id, request } of order.faults) planned.set(`${id} ${request}`, fault)
      return
    case "forget":
      return keys.clear()
    case "release":
    case "discard": {
      const all = held
      held = []
      for (const decide of all) decide(order.order === "release")
    }
  }
}

readline.createInterface({ input: process.stdin })
  .on("line", (line) => obey(JSON.parse(line) as BankOrder))
  .on("close", () => process.exit())

server.keepAliveTimeout = 60_000
server.listen(0, "127.0.0.1")
await once(server, "listening")
process.stdout.write(`${(server.address() as net.AddressInfo).port}\n`)
