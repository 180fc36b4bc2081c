/**
 * A mixed load: reads, conditional reads, lists, filtered lists, health checks, missing operations, refused tokens and
 * aborted requests. Each connection sends the next request as soon as the last is answered.
 */
import { converse, type Exchange, exchange, get } from "../shared/conversation.ts"
import { configuration, report } from "../shared/processes.ts"

export interface MixedLoad {
  /** On 127.0.0.1. */
  readonly port: number
  readonly token: string
  readonly ids: ReadonlyArray<string>
  /** Requests in all. */
  readonly requests: number
  /** Milliseconds after which it stops, even with fewer requests. */
  readonly duration: number
  readonly connections: number
}

/** Sent each second, and at the end. */
export interface Progress {
  readonly requests: number
  readonly unexpected: number
  readonly firstUnexpected: string | null
  readonly isDone: boolean
}

const job = configuration<MixedLoad>()
const authorized = ["Accept: application/json", `Authorization: Bearer ${job.token}`]
const missing = "/v1/operations/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"
const refused = ["Accept: application/json", `Authorization: Bearer fingw_${"0".repeat(49)}`]

const read = (id: string) => get(`/v1/operations/${id}`, authorized)
const list = get("/v1/operations", authorized)

const entityTagOf = async (id: string) => {
  const headers = { authorization: `Bearer ${job.token}` }
  const response = await fetch(`http://127.0.0.1:${job.port}/v1/operations/${id}`, { headers })
  await response.text()
  const tag = response.headers.get("etag")
  if (tag === null) throw new Error(`the read of ${id} has no entity tag: ${response.status}`)
  return tag
}

/** A read of each operation with its entity tag, which does not change. */
const conditionalReads = async (ids: ReadonlyArray<string>) => {
  const exchanges: Array<Exchange> = []
  // One after the other: the gateway refuses hundreds at once.
  for (const id of ids) {
    const line = `If-None-Match: ${await entityTagOf(id)}`
    exchanges.push(exchange(get(`/v1/operations/${id}`, [...authorized, line]), 304))
  }
  return exchanges
}

const abort = (bytes: Buffer): Exchange => ({ ...exchange(bytes, 200), isAborted: true })

/** Kinds of requests with their share of the load, in percent. */
const kinds: ReadonlyArray<readonly [percent: number, exchanges: ReadonlyArray<Exchange>]> = [
  [44, job.ids.map((id) => exchange(read(id), 200))],
  [20, await conditionalReads(job.ids.slice(0, 500))],
  [8, [exchange(list, 200)]],
  [2, [exchange(get("/v1/operations?state=failed&page_size=20", authorized), 200)]],
  [12, [exchange(get("/healthz", []), 200)]],
  [6, [exchange(get(missing, authorized), 404)]],
  [6, [exchange(get(`/v1/operations/${job.ids[0]}`, refused), 401)]],
  [2, [abort(read(job.ids[0]!)), abort(list)]]
]

/** A hundred entries, so that a random one has the kind's share. */
const shares = kinds.flatMap(([percent, exchanges]) => Array.from({ length: percent }, () => exchanges))

const pick = <A>(values: ReadonlyArray<A>): A => values[Math.floor(Math.random() * values.length)]!

let requests = 0
let unexpected = 0
let firstUnexpected: string | null = null
const end = performance.now() + job.duration

const isOver = () => requests >= job.requests || performance.now() >= end
const next = () => {
  if (isOver()) return null
  requests++
  return pick(pick(shares))
}
const progress = (isDone: boolean) => report({ requests, unexpected, firstUnexpected, isDone } satisfies Progress)

/** An aborted request closes its connection, so each connection is opened again until the end. */
const talk = async () => {
  while (!isOver()) {
    await converse({
      port: job.port,
      next,
      onAnswer: () => {},
      onError: (what) => {
        unexpected++
        firstUnexpected ??= what
      },
      patience: 10_000
    })
  }
}

const timer = setInterval(() => progress(false), 1000)
await Promise.all(Array.from({ length: job.connections }, talk))
// A later message would hide the last one.
clearInterval(timer)
progress(true)
