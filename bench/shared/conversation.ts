/**
 * One keep-alive connection of a load generator: it sends the next request as soon as the last is answered.
 *
 * It shares the machine with the servers that it measures, so it does as little work as possible: the bytes of requests
 * exist beforehand, and it reads only the status and the length of a response.
 */
import { connect } from "node:net"

export interface Exchange {
  /** The whole request. */
  readonly bytes: Buffer
  /** How the response must start, such as `HTTP/1.1 200 `. */
  readonly expected: string
  /** Whether the client closes the connection instead of reading the response. */
  readonly isAborted: boolean
}

interface Conversation {
  /** On 127.0.0.1. */
  readonly port: number
  /** The next request; null ends the conversation. */
  readonly next: () => Exchange | null
  /** Called after each response, with the instant at which its request was sent. */
  readonly onAnswer: (sentAt: number) => void
  /** Called for each unexpected response and broken connection. */
  readonly onError: (what: string) => void
  /** Milliseconds for a response. A later one ends the conversation with an error. */
  readonly patience: number
}

const headEnd = Buffer.from("\r\n\r\n")
const contentLength = /\r\ncontent-length: (\d+)/i

/** Bytes of the body: none for a 304, and a negative number if the length is unknown. */
const bodyLength = (head: string): number =>
  head.startsWith("HTTP/1.1 304 ") ? 0 : Number(contentLength.exec(head)?.[1] ?? -1)

/** A GET request with these lines of its head. */
export const get = (path: string, lines: ReadonlyArray<string>): Buffer =>
  Buffer.from([`GET ${path} HTTP/1.1`, "Host: 127.0.0.1", ...lines, "", ""].join("\r\n"))

/** A POST request with these lines of its head, and a body of JSON. */
export const postJson = (path: string, lines: ReadonlyArray<string>, body: string): Buffer =>
  Buffer.from([
    `POST ${path} HTTP/1.1`,
    "Host: 127.0.0.1",
    ...lines,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "",
    body
  ].join("\r\n"))

/** An exchange that expects a status. */
export const exchange = (bytes: Buffer, status: number): Exchange => ({
  bytes,
  expected: `HTTP/1.1 ${status} `,
  isAborted: false
})

/** Talks on one connection until `next` returns null, the request is aborted, or the connection breaks. */
export const converse = ({ next, onAnswer, onError, patience, port }: Conversation): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true })
    let current: Exchange | null = null
    let sentAt = performance.now()
    let bytesLeft = 0
    let partialHead: Buffer | null = null
    let isDone = false

    const finish = () => {
      isDone = true
      socket.destroy()
    }
    const send = () => {
      current = next()
      if (current === null) return finish()
      sentAt = performance.now()
      socket.write(current.bytes)
      if (current.isAborted) setTimeout(finish, 1)
    }
    const startResponse = (bytes: Buffer) => {
      const bodyStart = bytes.indexOf(headEnd) + headEnd.length
      if (bodyStart < headEnd.length) {
        partialHead = bytes
        return
      }
      partialHead = null
      const head = bytes.toString("latin1", 0, bodyStart)
      if (!head.startsWith(current!.expected)) onError(`${head}${bytes.toString("latin1", bodyStart)}`)
      bytesLeft = bodyLength(head) - (bytes.length - bodyStart)
      if (bytesLeft >= 0) return
      onError(`no Content-Length, or more bytes than it says: ${head}`)
      finish()
    }
    socket.on("data", (chunk) => {
      if (isDone) return
      if (bytesLeft > 0) bytesLeft -= chunk.length
      else startResponse(partialHead === null ? chunk : Buffer.concat([partialHead, chunk]))
      if (isDone || bytesLeft !== 0 || partialHead !== null || current!.isAborted) return
      onAnswer(sentAt)
      send()
    })
    socket.on("connect", send)
    socket.on("error", (error) => onError(error.message))
    // A timer for each request would cost more than one that looks from time to time.
    const timer = setInterval(() => {
      if (performance.now() - sentAt < patience) return
      if (!isDone) onError(`no response within ${patience} ms`)
      finish()
    }, 500)
    socket.on("close", () => {
      clearInterval(timer)
      if (!isDone) onError("the server closed the connection")
      resolve()
    })
  })
