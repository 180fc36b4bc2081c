/**
 * Messages of JSON-RPC in lines, as the stdio transport of MCP sends them.
 */
import { errorCodes, type JsonRpcError, type JsonRpcMessage } from "./JsonRpc.ts"

/** What a line holds: the JSON of a message, which is not checked further, or the error to answer with. */
export type MessageLine =
  | { readonly value: unknown; readonly error: null }
  | { readonly error: JsonRpcError }

const newline = 0x0a

const failed = (code: number, message: string): MessageLine => ({ error: { code, message } })

/** Fails if the bytes are not UTF-8. A part may end within a character. */
const textOf = (parts: ReadonlyArray<Uint8Array>): string => {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  return parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode()
}

/** The message of a complete line; null for a blank line. */
const messageIn = (parts: ReadonlyArray<Uint8Array>): MessageLine | null => {
  try {
    const text = textOf(parts)
    return text.trim() === "" ? null : { value: JSON.parse(text) as unknown, error: null }
  } catch {
    // The text of the failure would quote the line.
    return failed(errorCodes.parseError, "Parse error: the line is not JSON in UTF-8")
  }
}

/**
 * Reads lines of at most `limit` bytes from chunks. A longer line becomes an error when it exceeds the limit, and its rest is
 * skipped without being kept.
 */
export const makeLineReader = (limit: number) => {
  let parts: Array<Uint8Array> = []
  let size = 0
  let isSkipping = false

  const add = (part: Uint8Array, found: Array<MessageLine>): void => {
    if (isSkipping) return
    size += part.length
    if (size <= limit) {
      // A copy: the platform may use the buffer of a chunk again.
      if (part.length > 0) parts.push(part.slice())
      return
    }
    isSkipping = true
    parts = []
    found.push(failed(errorCodes.invalidRequest, `Invalid Request: a message has at most ${limit} bytes`))
  }

  const finish = (found: Array<MessageLine>): void => {
    const line = isSkipping ? null : messageIn(parts)
    if (line !== null) found.push(line)
    parts = []
    size = 0
    isSkipping = false
  }

  return {
    /** What the lines hold that end in this chunk. */
    push: (chunk: Uint8Array): ReadonlyArray<MessageLine> => {
      const found: Array<MessageLine> = []
      let from = 0
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
        add(chunk.subarray(from, end), found)
        finish(found)
        from = end + 1
      }
      add(chunk.subarray(from), found)
      return found
    },

    /** What the last line holds if no newline follows it. */
    end: (): ReadonlyArray<MessageLine> => {
      const found: Array<MessageLine> = []
      finish(found)
      return found
    }
  }
}

/** A message as a line. JSON escapes newlines in texts. */
export const lineOf = (message: JsonRpcMessage): string => `${JSON.stringify(message)}\n`
