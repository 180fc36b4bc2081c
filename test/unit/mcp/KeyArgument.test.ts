/**
 * A tool takes an idempotency key as the HTTP header has it: another key for the same words would be another payment.
 */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { parseIdempotencyKey } from "../../../src/api/MutationEndpoint.ts"
import { KeyArgument } from "../../../src/mcp/OperationTools.ts"

const read = Schema.decodeUnknownSync(KeyArgument)

const visible = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) })

describe("A key as an argument of a tool", () => {
  it("is the key that the header gives for the same text, whenever the header takes it", () => {
    fc.assert(
      fc.property(fc.oneof(visible, visible.map((text) => `"${text}"`)), (text) => {
        const ofHeader = parseIdempotencyKey(text)
        fc.pre(ofHeader !== null && text.length <= 255)
        assert.strictEqual(read(text), ofHeader)
      }),
      { numRuns: 2000 }
    )
  })

  it("may hold characters that the header takes in quotes alone, and is then the text itself", () => {
    for (const key of ["a,b", "a;b", "a\"b", "\"", "\"a\"b"]) assert.strictEqual(read(key), key)
  })

  it("is refused when it is empty, too long, or not visible ASCII", () => {
    for (const key of ["", "a b", "ä", "a".repeat(256)]) assert.throws(() => read(key))
  })
})
