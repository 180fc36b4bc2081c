/** No text of an agent can look like a part of the question to the person, and nothing but an explicit yes is one. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as McpSchema from "effect/ai/McpSchema"
import * as fc from "fast-check"
import type { Unconfirmed } from "../../../src/mcp/Advice.ts"
import { confirm, textOf } from "../../../src/mcp/HumanConfirmation.ts"
import { providerText } from "../../fixtures/mcp/HostileText.ts"

describe("The question to a person", () => {
  it("shows each value on one line of its own, in quotes, without a hidden character, and in full", () => {
    fc.assert(fc.property(fc.oneof(providerText, fc.string({ unit: "grapheme" })), (name) => {
      const lines = textOf({ question: "Pay?", facts: { Amount: "1.00 EUR", Creditor: name } }).split("\n")
      assert.deepStrictEqual(lines.slice(0, 3), ["Pay?", "", "Amount: \"1.00 EUR\""])
      assert.lengthOf(lines, 4)
      const [, shown] = /^Creditor: ("[^\p{C}\p{Zl}\p{Zp}<>`]*")$/u.exec(lines[3]!) ?? []
      assert.strictEqual(JSON.parse(shown!), name)
    }))
  })
})

describe("A confirmation", () => {
  /** What becomes of a call of version 2026-07-28. */
  const called = (context: Partial<McpSchema.McpRequestContext["Service"]>) =>
    confirm({ question: "Pay?", facts: {} }, "state", () => Effect.void).pipe(
      Effect.provideService(
        McpSchema.McpRequestContext,
        McpSchema.McpRequestContext.of({
          clientId: 1,
          protocolVersion: "2026-07-28",
          clientCapabilities: McpSchema.ClientCapabilities.make({}),
          ...context
        })
      )
    )

  it.effect("is asked for by a form that nothing has filled in", () =>
    Effect.gen(function*() {
      const asked = yield* called({})
      assert.instanceOf(asked, McpSchema.InputRequired)
      const { confirmation } = (asked as McpSchema.InputRequired).inputRequests!
      const { requestedSchema } = confirmation!.params as { readonly requestedSchema: unknown }
      assert.deepStrictEqual(requestedSchema, {
        type: "object",
        properties: { confirm: { type: "boolean", title: "I confirm this" } },
        required: ["confirm"]
      })
    }))

  it.effect.each<[answer: object, state: string, outcome: "confirmed" | Unconfirmed]>([
    [{ action: "accept", content: { confirm: true } }, "state", "confirmed"],
    [{ action: "accept", content: { confirm: true } }, "another", "confirmation_mismatch"],
    [{ action: "accept", content: { confirm: false } }, "state", "confirmation_declined"],
    [{ action: "accept", content: { confirm: "true" } }, "state", "confirmation_declined"],
    [{ action: "accept", content: {} }, "state", "confirmation_declined"],
    [{ action: "accept" }, "state", "confirmation_declined"],
    [{ action: "decline", content: { confirm: true } }, "state", "confirmation_declined"],
    [{ action: "cancel" }, "state", "confirmation_declined"]
  ])("of %j for %s is %s", ([answer, requestState, outcome]) =>
    Effect.gen(function*() {
      const confirmation = answer as McpSchema.McpInputResponse
      assert.strictEqual(yield* called({ inputResponses: { confirmation }, requestState }), outcome)
    }))
})
