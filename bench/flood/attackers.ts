/**
 * The attackers of the flood. They have a process of their own, so that their work does not delay the timers of the
 * honest client. Each kind has a limit of connections and of requests a second. All end with the parent.
 */
import { randomBytes } from "node:crypto"
import { connect, type Socket } from "node:net"
import { configuration, report } from "../shared/processes.ts"

export interface FloodConfig {
  /** On 127.0.0.1. */
  readonly port: number
  /** Access token of a client with many operations. */
  readonly token: string
  /** RFC 3339: half of that client's operations were created before it. */
  readonly middle: string
  readonly connections: {
    readonly idle: number
    readonly slow: number
    readonly lists: number
    readonly refused: number
  }
  /** Requests a second. */
  readonly rates: { readonly aborted: number; readonly refused: number; readonly lists: number; readonly paths: number }
}

/** The number of answers, by kind and status. */
export type Answers = Record<string, number>

const { connections, middle, port, rates, token } = configuration<FloodConfig>()

const answers: Answers = {}
const count = (kind: string, status: string) => {
  const name = `${kind} ${status}`
  answers[name] = (answers[name] ?? 0) + 1
}

const open = (): Socket => {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true })
  socket.on("error", () => {})
  return socket
}

const request = (target: string, credential?: string) =>
  `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${
    credential === undefined ? "" : `Authorization: Bearer ${credential}\r\n`
  }\r\n`

/** Keeps a number of connections of a kind open. It replaces a closed connection after a second. */
const keep = (number: number, live: (socket: Socket) => void) => {
  const start = () => {
    const socket = open()
    socket.once("connect", () => live(socket))
    socket.once("close", () => setTimeout(start, 1000))
  }
  for (let n = 0; n < number; n++) setTimeout(start, n)
}

/** Calls `act` at a rate a second, in small batches. */
const repeat = (rate: number, act: () => void) => {
  let due = 0
  setInterval(() => {
    for (due += rate / 50; due >= 1; due--) act()
  }, 20)
}

/** A pool of connections with one request at a time each. If no connection is free, the request is dropped. */
const makeClient = (kind: string, number: number) => {
  const free: Array<Socket> = []
  keep(number, (socket) => {
    free.push(socket)
    socket.on("data", (chunk) => {
      const head = chunk.toString("latin1", 0, 12)
      if (!head.startsWith("HTTP/1.1 ")) return
      count(kind, head.slice(9))
      free.push(socket)
    })
    socket.once("close", () => {
      const at = free.indexOf(socket)
      if (at !== -1) free.splice(at, 1)
    })
  })
  return (bytes: string) => void free.shift()?.write(bytes)
}

// Sends half a request, and one byte of a header every four seconds.
keep(connections.idle, (socket) => {
  socket.write("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
  const drip = setInterval(() => socket.write("a"), 4000)
  socket.once("close", () => clearInterval(drip))
})

// Requests long lists, and does not read the responses.
keep(connections.slow, (socket) => {
  socket.pause()
  for (let n = 0; n < 4; n++) socket.write(request("/v1/operations", token))
})

repeat(rates.aborted, () => {
  const socket = open()
  socket.once("connect", () => socket.write(request("/v1/operations", token), () => socket.destroy()))
})

const refused = makeClient("refused", connections.refused)
repeat(rates.refused, () => refused(request("/v1/operations", `fingw_${randomBytes(36).toString("base64url")}`)))

const lists = makeClient("lists", connections.lists)
repeat(rates.lists, () => lists(request(`/v1/operations?created_before=${middle}&type=payment`, token)))

const paths = makeClient("paths", 16)
repeat(rates.paths, () => paths(request(`/${"eyJ".repeat(2600)}`)))

process.on("message", () => report({ answers }))
report({ ready: true })
