/**
 * A fake bank, for development and tests. It keeps its transfers in memory, and fails in the mode that a request sets:
 *
 *     curl -X PUT http://127.0.0.1:4020/mode/lost_answer
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"
import { setTimeout } from "node:timers/promises"
import type { Transfer } from "./Transfer.ts"

/**
 * - `wrong_key`: it answers 401, as if the API key had changed.
 * - `slow`: it answers after three seconds.
 * - `lost_request`: it drops the connection, and books nothing.
 * - `lost_answer`: it books the transfer, and then drops the connection.
 */
export const modes = ["normal", "wrong_key", "slow", "lost_request", "lost_answer"] as const
export type Mode = (typeof modes)[number]

interface Booking {
  readonly id: string
  readonly key: string
  readonly status: "booked"
}

interface State {
  mode: Mode
  /** The transfers, by idempotency key. */
  readonly bookings: Map<string, Booking>
}

type Answer = readonly [status: number, body: unknown]

/** Books a transfer once for each key. */
const book = ({ bookings }: State, key: string, deadline: string | undefined, { amount }: Transfer): Answer => {
  const known = bookings.get(key)
  if (known !== undefined) return [200, known]
  if (deadline !== undefined && Date.parse(deadline) < Date.now()) {
    return [409, { key, code: "too_late", message: "The request arrived after Send-Before." }]
  }
  if (Number(amount) > 10_000) {
    return [422, { key, code: "limit_exceeded", message: "The limit of a transfer is 10000." }]
  }
  const booking = { id: randomUUID(), key, status: "booked" } as const
  bookings.set(key, booking)
  return [201, booking]
}

const setMode = (state: State, mode: string): Answer => {
  if (!modes.includes(mode as Mode)) return [422, { modes }]
  state.mode = mode as Mode
  return [200, { mode }]
}

/** The answer to a request, or null to drop the connection. */
const answerTo = async (state: State, apiKey: string, request: IncomingMessage): Promise<Answer | null> => {
  const { headers, method, url = "" } = request
  const [, collection, name = ""] = url.split("/")
  if (method === "PUT" && collection === "mode") return setMode(state, name)
  // The bank has the request then, even if the sender's process ends.
  const transfer = method === "POST" ? await json(request) as Transfer : null
  if (state.mode === "slow") await setTimeout(3000)
  if (state.mode === "lost_request") return null
  if (state.mode === "wrong_key" || headers.authorization !== `Bearer ${apiKey}`) return [401, { code: "unauthorized" }]
  if (transfer !== null) {
    const answer = book(state, String(headers["idempotency-key"]), headers["send-before"]?.toString(), transfer)
    return state.mode === "lost_answer" ? null : answer
  }
  const booking = state.bookings.get(name)
  return booking === undefined ? [404, { key: name, code: "not_found" }] : [200, booking]
}

/** A bank that listens on the loopback interface. */
export interface FakeBank {
  readonly url: string
  readonly setMode: (mode: Mode) => void
  /** How many transfers it has booked. */
  readonly count: () => number
}

/** Starts a bank, which ends with the scope. Port 0 chooses a free port. */
export const startFakeBank = Effect.fn(function*(options: { readonly port: number; readonly apiKey: string }) {
  const state: State = { mode: "normal", bookings: new Map() }
  const server = createServer((request, response) => {
    answerTo(state, options.apiKey, request).then((answer) => {
      if (answer === null) return response.destroy()
      const [status, body] = answer
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
    }, () => response.destroy())
  })
  yield* Effect.acquireRelease(
    Effect.orDie(Effect.tryPromise({
      try: () => once(server.listen(options.port, "127.0.0.1"), "listening"),
      catch: (cause) =>
        new Error(
          `the fake bank cannot listen on 127.0.0.1:${options.port}. Set FAKE_BANK_PORT to a free port`,
          { cause }
        )
    })),
    () => Effect.sync(() => server.close().closeAllConnections())
  )
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    setMode: (mode) => void setMode(state, mode),
    count: () => state.bookings.size
  } satisfies FakeBank
})
