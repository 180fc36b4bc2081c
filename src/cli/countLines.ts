import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Stream from "effect/Stream"

const newline = 0x0a

interface Counted {
  readonly newlines: number
  /** The last byte. */
  readonly last: number
}

const addLines = ({ last, newlines }: Counted, bytes: Uint8Array): Counted => {
  let count = newlines
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) count++
  return { newlines: count, last: bytes.at(-1) ?? last }
}

/** The number of lines of a file, for its progress. Null if it is no regular file, or cannot be read. */
export const countLines = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const { type } = yield* fs.stat(path)
  if (type !== "File") return null
  const { last, newlines } = yield* Stream.runFold(fs.stream(path), () => ({ newlines: 0, last: newline }), addLines)
  return last === newline ? newlines : newlines + 1
}, Effect.orElseSucceed(() => null))
