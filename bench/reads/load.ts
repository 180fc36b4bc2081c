/**
 * The load generator: for each job, connections that send the next request as soon as the last is answered.
 */
import { converse, type Exchange, exchange, get } from "../shared/conversation.ts"
import { percentile } from "../shared/statistics.ts"

export interface LoadJob {
  /** On 127.0.0.1. */
  readonly port: number
  readonly token: string
  /** Each request takes one at random. */
  readonly paths: ReadonlyArray<string>
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

const toExchange = (path: string, index: number, token: string): Exchange =>
  exchange(
    get(path, [
      "Accept: application/json",
      `Authorization: Bearer ${token}`,
      `X-Request-Id: bench-${index}-${crypto.randomUUID()}`
    ]),
    200
  )

const run = async ({ connections, duration, paths, port, token }: LoadJob): Promise<LoadResult> => {
  const requests = paths.map((path, index) => toExchange(path, index, token))
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
