/**
 * The attackers of one phase of the flood. They have a process of their own, so that their work does not delay the timers of the
 * honest client. Each kind has a limit of connections and of requests a second. All end with the parent.
 */
import { connect, type Socket } from "node:net"
import { configuration, report } from "../../../../bench/shared/processes.ts"
import { type PhaseName, phases, type Target } from "./phases.ts"

export interface FloodConfig extends Target {
  readonly phase: PhaseName
  /** Multiplies the requests a second. */
  readonly times: number
}

/** The number of answers, by kind and status. */
export type Answers = Record<string, number>

const { phase, times, ...target } = configuration<FloodConfig>()
const { port } = target

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

/** Keeps a number of connections of a kind open. It replaces a closed connection after a second. */
const keep = (number: number, live: (socket: Socket) => void) => {
  const start = () => {
    const socket = open()
    socket.once("connect", () => live(socket))
    socket.once("close", () => setTimeout(start, 1000))
  }
  for (let n = 0; n < number; n++) setTimeout(start, n)
}

/** Calls `act` at a rate a second times `times`, in small batches. */
const repeat = (rate: number, act: () => void) => {
  let due = 0
  setInterval(() => {
    for (due += rate * times / 50; due >= 1; due--) act()
  }, 20)
}

/** A pool of connections with one request at a time each. If no connection is free, the request is dropped. */
const pool = (kind: string, number: number) => {
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

/** What the attackers of a phase are made of. */
const tools = { count, keep, open, pool, repeat }
export type Tools = typeof tools

phases[phase](target, tools)

process.on("message", () => report({ answers }))
report({ ready: true })
