/**
 * The head of a response, in one pass. Node's `writeHead` checks each name and each value again, and compares each name with those that it
 * treats specially. That takes a tenth of the time of a small response. Here a line that was checked once is written as it is.
 */
import { type ServerResponse, STATUS_CODES, validateHeaderName, validateHeaderValue } from "node:http"

/** Headers that change what Node does with the connection or the body, or that it writes itself. */
const ofNode = new Set(["connection", "date", "expect", "keep-alive", "trailer", "transfer-encoding", "upgrade"])

/** A header with its latest value. Most headers have the same value in each response. */
interface Line {
  value: string
  text: string
}

/** Lines by name. The server's own responses have a few names; an application may make up others. */
const lines = new Map<string, Line>()
const maxLines = 256

/** The line of a header. Null: `writeHead` has to write it. Throws if it is not valid in HTTP. */
const lineOf = (name: string, value: string): string | null => {
  const known = lines.get(name)
  if (known?.value === value) return known.text
  if (known === undefined) {
    if (ofNode.has(name)) return null
    validateHeaderName(name)
  }
  validateHeaderValue(name, value)
  const text = `${name}: ${value}\r\n`
  if (known !== undefined) {
    known.value = value
    known.text = text
  } else if (lines.size < maxLines) lines.set(name, { value, text })
  return text
}

let second = 0
let date = ""

const dateLine = (): string => {
  const now = Math.floor(Date.now() / 1000)
  if (now !== second) {
    second = now
    date = `Date: ${new Date(now * 1000).toUTCString()}\r\n`
  }
  return date
}

/** Members of a response that Node's types do not declare. The test of this module fails if a new version changes them. */
interface Unsent {
  _header: string | null
  _headerSent: boolean
}

/**
 * Gives a response its head, as `writeHead` would. The headers have the length of its body. `keepAlive` is in milliseconds. False if only
 * `writeHead` can: the connection ends, or a header is one of Node's. Throws if a header is not valid in HTTP.
 */
export const setHead = (
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  keepAlive: number
): boolean => {
  const unsent = response as ServerResponse & Partial<Unsent>
  if (!response.shouldKeepAlive || unsent._header !== null || unsent._headerSent !== false) return false
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`
  for (const name in headers) {
    const line = lineOf(name, headers[name]!)
    if (line === null) return false
    head += line
  }
  response.statusCode = status
  unsent._header = `${head}${dateLine()}Connection: keep-alive\r\nKeep-Alive: timeout=${
    Math.floor(keepAlive / 1000)
  }\r\n\r\n`
  return true
}
