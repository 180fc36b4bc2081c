/** The phases of the flood: what the attackers of each one do. To add a phase, add an entry to `phases`. */
import { randomBytes } from "node:crypto"
import type { Tools } from "./attackers.ts"

/** What the attackers know. */
export interface Target {
  /** On 127.0.0.1. */
  readonly port: number
  /** Access token of a client with many operations. */
  readonly token: string
  /** Access tokens of four clients. */
  readonly tokens: ReadonlyArray<string>
  /** RFC 3339: half of the operations of the client with many were created before it. */
  readonly middle: string
  /** Change token of the client with many operations. It names as many unfinished transactions as a token can. */
  readonly changeToken: string
}

type Attack = (target: Target, tools: Tools) => void

const authorize = (credential: string) => `Authorization: Bearer ${credential}\r\n`

const get = (path: string, credential?: string) =>
  `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${credential === undefined ? "" : authorize(credential)}\r\n`

/** A message to the endpoint of agents, as a whole. */
const message = (body: string, credential: string) =>
  `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorize(credential)}Accept: application/json, text/event-stream\r\n`
  + `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`

/** 2,000 connections: 1,000 send half requests, 400 do not read, 250 send lists, 250 forged tokens, 16 paths; the rest abort. */
const connections: Attack = ({ middle, token }, { keep, open, pool, repeat }) => {
  // Sends half a request, and one byte of a header every four seconds.
  keep(1000, (socket) => {
    socket.write("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    const drip = setInterval(() => socket.write("a"), 4000)
    socket.once("close", () => clearInterval(drip))
  })
  // Requests long lists, and does not read the responses.
  keep(400, (socket) => {
    socket.pause()
    for (let n = 0; n < 4; n++) socket.write(get("/v1/operations", token))
  })
  repeat(20, () => {
    const socket = open()
    socket.once("connect", () => socket.write(get("/v1/operations", token), () => socket.destroy()))
  })
  const refused = pool("refused", 250)
  repeat(50, () => refused(get("/v1/operations", `fingw_${randomBytes(36).toString("base64url")}`)))
  const lists = pool("lists", 250)
  repeat(50, () => lists(get(`/v1/operations?created_before=${middle}&type=payment`, token)))
  const paths = pool("paths", 16)
  repeat(15, () => paths(get(`/${"eyJ".repeat(2600)}`)))
}

/** 545 POSTs a second of four clients, without the last byte of the body, each on a connection of its own. */
const unfinishedBodies: Attack = ({ tokens }, { count, open, repeat }) => {
  let sent = 0
  repeat(545, () => {
    const socket = open()
    const bytes = message(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }), tokens[sent++ % tokens.length]!)
    socket.once("connect", () => socket.write(bytes.slice(0, -1)))
    socket.once("data", (chunk: Buffer) => {
      count("unfinished", chunk.toString("latin1", 9, 12))
      socket.destroy()
    })
  })
}

/** 84 calls a second of four clients, whose arguments have 5,000 members that no tool takes. */
const wideJson: Attack = ({ tokens }, { pool, repeat }) => {
  const send = pool("wide", 64)
  const args = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`k${index}`, 1]))
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "get_operation", arguments: args } }
  const bytes = tokens.map((token) => message(JSON.stringify(call), token))
  let sent = 0
  repeat(84, () => send(bytes[sent++ % bytes.length]!))
}

/** 250 pages of changes a second on 250 connections: made-up tokens, and the longest token with filters that few match. */
const changeTokens: Attack = ({ changeToken, token }, { pool, repeat }) => {
  const positions = Array.from({ length: 200 }, (_, n) => (n + 1).toString(36)).join(".")
  const madeUp = Buffer.from(`1.history.whole.zz.${positions}.${"0".repeat(32)}`).toString("base64url")
  for (const [kind, after] of [["made-up", madeUp], ["longest", changeToken]] as const) {
    const send = pool(kind, 125)
    repeat(125, () => send(get(`/v1/operations/changes?state=cancelled&after=${after}`, token)))
  }
}

export const phases = {
  connections,
  "change-tokens": changeTokens,
  "unfinished-bodies": unfinishedBodies,
  "wide-json": wideJson
} satisfies Record<string, Attack>

export type PhaseName = keyof typeof phases

export const phaseNames = Object.keys(phases) as ReadonlyArray<PhaseName>
