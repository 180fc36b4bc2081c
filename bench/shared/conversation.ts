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
  /** Whether the response has a body: a 304 has none. */
  readonly hasBody: boolean
  /** Whether the client closes the connection instead of reading the response. */
  readonly isAborted: boolean
}

export interface Conversation {
  /** On 127.0.0.1. */
  readonly port: number
  /** The next request; null ends the conversation. */
  readonly next: () => Exchange | null
  /** Called after each response, with the instant at which its request was sent. */
  readonly onAnswer: (sentAt: number) => void
  /** Called for each unexpected response and broken connection. */
  readonly onError: (what: string) => void
  /** Milliseconds until the conversation is given up as an error. */
  readonly patience: number
}

const headEnd = Buffer.from("\r\n\r\n")
const contentLength = /\r\ncontent-length: (\d+)/i

/** A GET request with these lines of its head. */
export const get = (path: string, lines: ReadonlyArray<string>): Buffer =>
  Buffer.from([`GET ${path} HTTP/1.1`, "Host: 127.0.0.1", ...lines, "", ""].join("\r\n"))

/** An exchange that expects a status. */
export const exchange = (bytes: Buffer, status: number): Exchange => ({
  bytes,
  expected: `HTTP/1.1 ${status} `,
  hasBody: status !== 304,
  isAborted: false
})

/** Talks on one connection until `next` returns null, the request is aborted, or the connection breaks. */
export const converse = ({ next, onAnswer, onError, patience, port }: Conversation): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true })
    let current: Exchange | null = null
    let sentAt = 0
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
      const { expected, hasBody } = current!
      if (!head.startsWith(expected)) onError(`${head}${bytes.toString("latin1", bodyStart)}`)
      bytesLeft = hasBody ? Number(contentLength.exec(head)?.[1]) - (bytes.length - bodyStart) : 0
      if (Number.isNaN(bytesLeft)) {
        onError(`no Content-Length: ${head}`)
        finish()
      }
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
    const timeout = setTimeout(() => {
      if (!isDone) onError("no response")
      finish()
    }, patience)
    socket.on("close", () => {
      clearTimeout(timeout)
      if (!isDone) onError("the server closed the connection")
      resolve()
    })
  })
