/** The ways in which a bank takes a request and gives no answer that proves anything. */
import type * as net from "node:net"
import { type BankAnswer, type Behaviour, bytesOf, headOf, type ReceivedRequest, textOf } from "./ContractBank.ts"
import { followsNoRedirect, limitsBody, longestBody, type Rule } from "./contractRules.ts"

/** A behaviour with the end of its sentence, "a bank that …". */
interface Hostility {
  readonly what: string
  readonly behaviour: Behaviour
  readonly rules?: ReadonlyArray<Rule>
}

/** The answer that the bank would give to this request if it behaved. */
type GoodAnswer = (request: ReceivedRequest) => BankAnswer

const page = "<!doctype html><title>Bad gateway</title><h1>Bad gateway</h1>"

const ending = (bytes: (request: ReceivedRequest) => string): Behaviour => ({
  onRequest: (socket, request) => void socket.end(bytes(request))
})

/** Writes and goes on only when the adapter reads. */
const endless = (socket: net.Socket, head: string, chunk: string) => {
  const more = () => {
    if (socket.destroyed) return
    if (socket.bytesWritten >= longestBody) return void socket.destroy()
    socket.write(chunk, more)
  }
  socket.write(head, more)
}

/** One byte now and then, so that only a deadline for the whole body ends it. */
const trickle = (socket: net.Socket, head: string) => {
  socket.write(head)
  const timer = setInterval(() => socket.write(" "), 5)
  socket.on("close", () => clearInterval(timer))
}

const cutOff = (good: GoodAnswer): ReadonlyArray<Hostility> => {
  const half = (request: ReceivedRequest) => {
    const answer = good(request)
    return headOf(answer) + textOf(answer).slice(0, Math.ceil(textOf(answer).length / 2))
  }
  return [
    { what: "closes the connection after it took the request", behaviour: ending(() => "") },
    {
      what: "resets the connection after it took the request",
      behaviour: { onRequest: (socket) => socket.resetAndDestroy() }
    },
    {
      what: "resets the connection at the head of the request",
      behaviour: {
        onHead: (socket) => {
          socket.resetAndDestroy()
          return true
        }
      }
    },
    {
      what: "closes the connection within the head of its answer",
      behaviour: ending((request) => headOf(good(request)).slice(0, 30))
    },
    { what: "closes the connection within the body of its answer", behaviour: ending(half) },
    {
      what: "resets the connection within the body of its answer",
      behaviour: {
        onRequest: (socket, request) =>
          void socket.write(half(request), () => setImmediate(() => socket.resetAndDestroy()))
      }
    }
  ]
}

const unreadable = (good: GoodAnswer): ReadonlyArray<Hostility> => [
  { what: "speaks no HTTP", behaviour: ending(() => "220 mail.bank.example ESMTP\r\n") },
  {
    what: "answers with its usual status and a body that is no JSON",
    behaviour: ending((request) => bytesOf({ ...good(request), body: null }).replace(/null$/u, "nul?"))
  },
  {
    what: "answers with its usual status and an empty body",
    behaviour: ending((request) => bytesOf({ status: good(request).status, text: "" }))
  },
  {
    what: "answers with its usual status and JSON of another shape",
    behaviour: ending((request) => bytesOf({ status: good(request).status, body: { note: "maintenance" } }))
  },
  {
    what: "answers with its usual body as text/html",
    behaviour: ending((request) => {
      const answer = good(request)
      return bytesOf({ ...answer, headers: { ...answer.headers, "Content-Type": "text/html" } })
    })
  },
  ...[200, 400, 403, 404, 408, 409, 421, 422, 425, 429, 500, 502, 503, 504].map((status): Hostility => ({
    what: `answers ${status} with the page of a proxy`,
    behaviour: ending(() => bytesOf({ status, text: page }))
  })),
  {
    what: "answers 500 and repeats the request with its headers",
    behaviour: ending(({ body, headers }) =>
      bytesOf({ status: 500, body: { error: "internal", headers, request: body } })
    )
  }
]

/** Where the redirects lead. A request for it is answered like a good one. */
const elsewhere = "/elsewhere"

const redirecting = (good: GoodAnswer): ReadonlyArray<Hostility> =>
  [301, 302, 303, 307, 308].map((status) => ({
    what: `redirects with ${status}`,
    rules: [followsNoRedirect(elsewhere)],
    behaviour: ending((request) =>
      bytesOf(request.path === elsewhere ? good(request) : { status, headers: { Location: elsewhere } })
    )
  }))

const slow = (good: GoodAnswer): ReadonlyArray<Hostility> => [
  { what: "never answers", behaviour: { isSilent: true, onRequest: () => {} } },
  {
    what: "sends half a head and no more",
    behaviour: {
      isSilent: true,
      onRequest: (socket, request) => void socket.write(headOf(good(request)).slice(0, 30))
    }
  },
  {
    what: "sends the head of an answer and no body",
    behaviour: { isSilent: true, onRequest: (socket, request) => void socket.write(headOf(good(request))) }
  },
  {
    what: "sends a byte of the body now and then",
    behaviour: { isSilent: true, onRequest: (socket, request) => trickle(socket, headOf(good(request), 1_000_000)) }
  },
  {
    what: "sends a body without end",
    rules: [limitsBody],
    behaviour: {
      onRequest: (socket, request) => {
        const answer = good(request)
        endless(socket, headOf(answer, 2 * longestBody) + textOf(answer), " ".repeat(65_536))
      }
    }
  }
]

/** All of them. `good` makes the answer that the bank would give if it behaved. */
export const hostileAnswers = (good: GoodAnswer): ReadonlyArray<Hostility> => [
  ...cutOff(good),
  ...unreadable(good),
  ...redirecting(good),
  ...slow(good)
]
