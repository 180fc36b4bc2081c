/** The load generator: for each job, connections that send the next request as soon as the last is answered. */
import { converse, exchange, get, postJson } from "../shared/conversation.ts"
import { percentile } from "../shared/statistics.ts"

/** A request of the load. With a body it is a POST. */
export interface LoadRequest {
  readonly path: string
  /** Lines of the head beside token and id. Default: `Accept: application/json`. */
  readonly lines?: ReadonlyArray<string>
  /** JSON. */
  readonly body?: string
}

export interface LoadJob {
  /** On 127.0.0.1. */
  readonly port: number
  readonly token: string
  /** The load takes one at random. */
  readonly requests: ReadonlyArray<LoadRequest>
  readonly connections: number
  /** Milliseconds. */
  readonly duration: number
}

export interface LoadResult {
  /** Answered within the time, with 200. */
  readonly requests: number
  /** Answers other than 200, and broken connections. */
  readonly errors: number
  readonly firstError: string | null
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
}

const toExchange = (
  { body, lines = ["Accept: application/json"], path }: LoadRequest,
  index: number,
  token: string
) => {
  const all = [...lines, `Authorization: Bearer ${token}`, `X-Request-Id: bench-${index}-${crypto.randomUUID()}`]
  return exchange(body === undefined ? get(path, all) : postJson(path, all, body), 200)
}

const run = async ({ connections, duration, port, requests: sent, token }: LoadJob): Promise<LoadResult> => {
  const requests = sent.map((request, index) => toExchange(request, index, token))
  const latencies: Array<number> = []
  let errors = 0
  let firstError: string | null = null
  const end = performance.now() + duration
  const talk = () =>
    converse({
      port,
      next: () => performance.now() >= end ? null : requests[Math.floor(Math.random() * requests.length)]!,
      onAnswer: (sentAt) => {
        const now = performance.now()
        if (now < end) latencies.push(now - sentAt)
      },
      onError: (what) => {
        errors++
        firstError ??= what
      },
      patience: 10_000
    })
  await Promise.all(Array.from({ length: connections }, talk))
  const sorted = Float64Array.from(latencies).sort()
  return {
    requests: latencies.length,
    errors,
    firstError,
    requestsPerSecond: latencies.length / (duration / 1000),
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99)
  }
}

process.once("disconnect", () => process.exit())
process.on("message", (job) => void run(job as LoadJob).then((result) => process.send!(result)))
