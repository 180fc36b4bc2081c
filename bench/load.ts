/**
 * The load generator: keep-alive connections that send the next request as soon as the last is answered.
 *
 * It shares the machine with the servers that it measures, so it does as little work as possible: it creates the bytes
 * of the requests beforehand, and reads only the status and the length of a response.
 */
import { connect } from "node:net"

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

const headEnd = Buffer.from("\r\n\r\n")
const contentLength = /\r\ncontent-length: (\d+)/i

const toBytes = (path: string, index: number, token: string) =>
  Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nAuthorization: Bearer ${token}\r\n`
      + `X-Request-Id: bench-${index}-${crypto.randomUUID()}\r\n\r\n`
  )

const percentile = (sorted: Float64Array, fraction: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN

const run = (job: LoadJob): Promise<LoadResult> => {
  const requests = job.paths.map((path, index) => toBytes(path, index, job.token))
  const latencies: Array<number> = []
  let errors = 0
  let firstError: string | null = null
  const fail = (what: string) => {
    errors++
    firstError ??= what
  }
  const start = performance.now()
  const end = start + job.duration

  const converse = () =>
    new Promise<void>((resolve) => {
      const socket = connect({ port: job.port, host: "127.0.0.1", noDelay: true })
      let sentAt = 0
      let bytesLeft = 0
      let partialHead: Buffer | null = null

      const send = () => {
        sentAt = performance.now()
        if (sentAt >= end) return socket.destroy()
        return socket.write(requests[Math.floor(Math.random() * requests.length)]!)
      }
      const startResponse = (bytes: Buffer) => {
        const bodyStart = bytes.indexOf(headEnd) + headEnd.length
        if (bodyStart < headEnd.length) {
          partialHead = bytes
          return
        }
        partialHead = null
        const head = bytes.toString("latin1", 0, bodyStart)
        if (!head.startsWith("HTTP/1.1 200 ")) fail(`${head}${bytes.toString("latin1", bodyStart)}`)
        bytesLeft = Number(contentLength.exec(head)?.[1]) - (bytes.length - bodyStart)
        if (Number.isNaN(bytesLeft)) {
          fail(`no Content-Length: ${head}`)
          socket.destroy()
        }
      }
      socket.on("data", (chunk) => {
        if (bytesLeft > 0) bytesLeft -= chunk.length
        else startResponse(partialHead === null ? chunk : Buffer.concat([partialHead, chunk]))
        if (bytesLeft !== 0 || partialHead !== null) return
        const now = performance.now()
        if (now < end) latencies.push(now - sentAt)
        send()
      })
      socket.on("connect", send)
      socket.on("error", (error) => fail(error.message))
      socket.on("close", () => {
        if (performance.now() < end) fail("the server closed the connection")
        resolve()
      })
      // A response that is missing five seconds after the end counts as an error.
      setTimeout(() => {
        if (socket.destroyed) return
        fail("no response")
        socket.destroy()
      }, job.duration + 5000).unref()
    })

  return Promise.all(Array.from({ length: job.connections }, converse)).then(() => {
    const sorted = Float64Array.from(latencies).sort()
    return {
      requests: latencies.length,
      errors,
      firstError,
      requestsPerSecond: latencies.length / (job.duration / 1000),
      p50: percentile(sorted, 0.5),
      p99: percentile(sorted, 0.99)
    }
  })
}

process.once("disconnect", () => process.exit())
process.on("message", (job) => void run(job as LoadJob).then((result) => process.send!(result)))
