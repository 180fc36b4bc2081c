/**
 * A tool that requests work accepts what its endpoint would accept, and says what is not known when a call ends without an answer.
 * The ledger is in memory.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { payingTool } from "../../../fixtures/mcp/PayingTool.ts"

const payment = { amount: "1.00", from: "a", to: "b", idempotency_key: "rent" }

/** What the model reads. */
const textOf = (answer: { readonly [name: string]: unknown }) => {
  const { content, isError } = answer["result"] as {
    readonly content: [{ readonly text: string }]
    readonly isError: boolean
  }
  return { isError, ...JSON.parse(content[0].text) as { readonly advice: string; readonly problem?: object } }
}

describe("A tool that requests work", () => {
  it.live("records a confirmed request", () =>
    Effect.gen(function*() {
      const { pay, recorded } = yield* payingTool()
      assert.isFalse(textOf(yield* pay(payment)).isError)
      assert.strictEqual(recorded(), 1)
    }))

  it.live("asks no person about a payload that a check of the whole payload refuses", () =>
    Effect.gen(function*() {
      const { pay, recorded } = yield* payingTool()
      const { problem } = textOf(yield* pay({ ...payment, to: "a" }))
      assert.deepInclude(problem, {
        code: "invalid_request",
        fields: [{ path: "arguments", message: "Expected two different accounts" }]
      })
      assert.strictEqual(recorded(), 0)
    }))
})
