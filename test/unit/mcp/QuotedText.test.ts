/**
 * Text of providers reaches a model as visible data: it hides no character, breaks no line, and closes no tag or code fence. The
 * tests quote hostile messages, and any text.
 */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { Operation } from "../../../src/domain/Operation.ts"
import { maxMessageLength } from "../../../src/domain/Operation.ts"
import { quotedJson, quoteFailure } from "../../../src/mcp/QuotedText.ts"
import { brokenText, injections, operationOf, providerText } from "../../fixtures/mcp/HostileText.ts"

/** Letters, marks, numbers, punctuation and symbols without the dangerous ones, and the plain space. */
const visible = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u
const invisible = /[\p{Default_Ignorable_Code_Point}\u2800]/u
const marks = /[<>&`]/u

const assertSafe = (text: string) => {
  assert.match(text, visible)
  assert.notMatch(text, invisible)
  assert.notMatch(text, marks)
}

const failed = (message: string) => operationOf({ state: "failed", under_review: false, updated_at: 0, message })
const quoted = (message: string): string => quoteFailure(failed(message)).failure!.message

/** Reads the escapes of a quoted message back. */
const unquote = (text: string): string =>
  text.replaceAll(/\\u\{([0-9a-f]+)\}/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 16)))

describe("a quoted failure", () => {
  it("shows every hidden character, line break and mark of a prompt as an escape", () => {
    fc.assert(fc.property(providerText, (message) => assertSafe(quoted(message))), { numRuns: 1000 })
    for (const message of injections) assertSafe(quoted(message))
  })

  it("stays within the contract: its length, and well-formed text", () => {
    const isOperation = Schema.is(Operation)
    fc.assert(
      fc.property(providerText, (message) => {
        assert.isTrue(isOperation(quoteFailure(failed(message))))
      }),
      { numRuns: 1000 }
    )
  })

  it("keeps the text: an ellipsis alone shows where the escapes made it too long", () => {
    fc.assert(
      fc.property(providerText, (message) => {
        const text = quoted(message)
        if (unquote(text) === unquote(message)) return
        assert.isTrue(text.endsWith("…"))
        assert.isTrue(
          unquote(message).startsWith(unquote(text.slice(0, -1))),
          "the cut splits no escape and no character"
        )
        assert.isAbove(text.length, maxMessageLength - 11, "the longest escape has ten units")
      }),
      { numRuns: 1000 }
    )
  })

  it("leaves ordinary text of any language as it is, and quotes nothing twice", () => {
    const ordinary = "Überweisung abgelehnt (code 51): 支払い拒否, \"saldo\" insuficiente – कार्ड 🚀"
    assert.strictEqual(quoted(ordinary), ordinary)
    fc.assert(fc.property(providerText, (message) => {
      assert.strictEqual(quoted(quoted(message)), quoted(message))
    }))
  })

  it("changes nothing but the message", () => {
    for (const state of ["accepted", "indeterminate", "succeeded", "cancelled"] as const) {
      const operation = operationOf({ state, under_review: true, updated_at: 0, message: "" })
      assert.strictEqual(quoteFailure(operation), operation)
    }
    const hostile = failed("a\u202eb")
    assert.deepStrictEqual(quoteFailure(hostile), {
      ...hostile,
      failure: { code: "declined", message: "a\\u{202e}b" }
    })
  })
})

describe("a result as text for a model", () => {
  const json = fc.jsonValue({ stringUnit: "binary" })

  it("is JSON of the identical value", () => {
    fc.assert(
      fc.property(json, providerText, brokenText, (value, text, broken) => {
        for (const whole of [value, text, broken, { [broken]: [text, value] }]) {
          assert.deepStrictEqual(JSON.parse(quotedJson(whole)), JSON.parse(JSON.stringify(whole)))
        }
      }),
      { numRuns: 500 }
    )
    fc.assert(fc.property(brokenText, (text) => assert.strictEqual(JSON.parse(quotedJson(text)), text)))
  })

  it("hides no character, and closes no tag and no code fence of the prompt around it", () => {
    fc.assert(
      fc.property(json, providerText, brokenText, (value, text, broken) => {
        assertSafe(quotedJson({ [broken]: [text, value] }))
      }),
      { numRuns: 500 }
    )
    for (const text of injections) assertSafe(quotedJson({ text }))
  })

  it("escapes the units of a character, as JSON does", () => {
    assert.strictEqual(
      quotedJson({ text: "</system>`&\u202e\u{e0041}\ud800 ü" }),
      String.raw`{"text":"\u003c/system\u003e\u0060\u0026\u202e\udb40\udc41\ud800 ü"}`
    )
  })
})
