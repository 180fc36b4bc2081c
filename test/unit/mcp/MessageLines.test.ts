/**
 * Lines of the stdio transport: the chunks in which they arrive do not matter, and a line that is too long is not kept.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import type { JsonRpcMessage } from "../../../src/mcp/JsonRpc.ts"
import { lineOf, makeLineReader, type MessageLine } from "../../../src/mcp/StdioConnection.ts"

const limit = 64

/** Texts with characters of several bytes, and newlines, which JSON escapes. */
const message = fc.record({
  jsonrpc: fc.constant("2.0" as const),
  method: fc.string({ unit: fc.constantFrom("a", "\n", "\"", "é", "€", "😀", "\u2028"), maxLength: 3 })
}) satisfies fc.Arbitrary<JsonRpcMessage>

/** A line, and what a reader makes of it: the value, the code of the error, or nothing. */
const sentLine = fc.oneof(
  message.map((value) => ({ bytes: Buffer.from(lineOf(value)), read: [{ value }] })),
  fc.constantFrom("{", "nonsense", "{}{}", "[1,").map((text) => ({ bytes: Buffer.from(`${text}\n`), read: [-32700] })),
  fc.constantFrom("", " ", "\r", "\t").map((text) => ({ bytes: Buffer.from(`${text}\n`), read: [] })),
  fc.constant({ bytes: Buffer.from([0x22, 0xff, 0x22, 0x0a]), read: [-32700] }),
  fc.integer({ min: limit + 1, max: 5 * limit }).map((size) => ({
    bytes: Buffer.from(`${"x".repeat(size)}\n`),
    read: [-32600]
  }))
)

const readingOf = (line: MessageLine) => line.error === null ? { value: line.value } : line.error.code

/** Reads the bytes in chunks. The cuts are in thousandths of the whole. */
const readAll = (bytes: Uint8Array, cuts: ReadonlyArray<number>) => {
  const reader = makeLineReader(limit)
  const places = [
    0,
    ...cuts.map((cut) => Math.floor(cut * bytes.length / 1000)).toSorted((a, b) => a - b),
    bytes.length
  ]
  const pushed = places.slice(1).flatMap((end, n) => {
    // A platform may use the memory of a chunk again.
    const chunk = Uint8Array.from(bytes.subarray(places[n], end))
    const found = reader.push(chunk)
    chunk.fill(0)
    return found
  })
  return [...pushed, ...reader.end()].map(readingOf)
}

describe("The lines of the stdio transport", () => {
  it("hold the same messages and errors however they are divided into chunks, also without a newline at the end", () => {
    fc.assert(
      fc.property(
        fc.array(sentLine, { maxLength: 8 }),
        fc.array(fc.nat(999), { maxLength: 40 }),
        fc.boolean(),
        (lines, cuts, isCut) => {
          const bytes = Buffer.concat(lines.map((line) => line.bytes))
          const expected = lines.flatMap((line): ReadonlyArray<unknown> => line.read)
          assert.deepStrictEqual(readAll(isCut ? bytes.subarray(0, -1) : bytes, cuts), expected)
        }
      ),
      { numRuns: 500 }
    )
  })

  it("may have as many bytes as the limit, and one byte more is an error at once", () => {
    const reader = makeLineReader(limit)
    const text = `"${"x".repeat(limit - 2)}"`
    assert.deepStrictEqual(reader.push(Buffer.from(`${text}\n`)).map(readingOf), [{ value: text.slice(1, -1) }])
    assert.deepStrictEqual(reader.push(Buffer.from(text)), [])
    assert.deepStrictEqual(reader.push(Buffer.from(" ")).map(readingOf), [-32600])
    for (let n = 0; n < 100; n++) {
      assert.deepStrictEqual(reader.push(Buffer.alloc(1024, "x")), [], "the rest is skipped")
    }
    assert.deepStrictEqual(reader.push(Buffer.from("\n1\n")).map(readingOf), [{ value: 1 }])
  })

  it("has each member once, and is within the limits of a body", () => {
    const lines = ["{\"id\":1,\"id\":2}", "{\"a\":{\"b\":1,\"\\u0062\":2}}", "[".repeat(500) + "]".repeat(500)]
    for (const line of lines) {
      assert.deepStrictEqual(makeLineReader(2048).push(Buffer.from(`${line}\n`)).map(readingOf), [-32600], line)
    }
  })

  it("quote nothing of a line in an error", () => {
    const [line] = makeLineReader(limit).push(Buffer.from("{\"token\": secret\n"))
    assert.notInclude(JSON.stringify(line), "secret")
  })
})
