/**
 * A tool that requests work accepts what its endpoint would accept, and says what is not known when a call ends without an answer.
 * The ledger is in memory.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { adviceOnRefusedMutation } from "../../../../src/mcp/Advice.ts"
import { callOf, legacy, type Message } from "../../../fixtures/mcp/HttpMcp.ts"
import { messagesOf } from "../../../fixtures/mcp/PayingAgent.ts"
import { type Accept, confirmed, payingTool } from "../../../fixtures/mcp/PayingTool.ts"

const payment = { amount: "1.00", from: "a", to: "b", idempotency_key: "rent" }

/** What the model reads. */
const textOf = (answer: { readonly [name: string]: unknown }) => {
  const { content, isError } = answer["result"] as {
    readonly content: [{ readonly text: string }]
    readonly isError: boolean
  }
  return { isError, ...JSON.parse(content[0].text) as { readonly advice: string; readonly problem?: object } }
}

/** The request is recorded, and the answer never comes. */
const thenHang = (accept: Accept): Accept => (...request) => Effect.andThen(accept(...request), Effect.never)

const until = (isMet: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => isMet() ? Effect.void : Effect.andThen(Effect.sleep(5), until(isMet)))

const notKnown = "Whether the gateway recorded the request is not known. Do not use a new key: both requests could be "
  + "carried out. Call the tool in 30 s with the same key and the same arguments."

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

  it.live("says at its deadline and at the shutdown that the request may be recorded", () =>
    Effect.gen(function*() {
      const overdue = yield* payingTool({ accept: thenHang, lifecycle: { deadline: 400 } })
      const answer = yield* overdue.pay(payment)
      assert.deepInclude(answer, { code: "service_unavailable", detail: notKnown })
      assert.strictEqual(overdue.recorded(), 1)
      const { lifecycle, pay, recorded } = yield* payingTool({
        accept: thenHang,
        lifecycle: { deadline: 60_000, drainTimeout: 20 }
      })
      const paid = yield* Effect.forkChild(pay(payment))
      yield* until(() => recorded() === 1)
      yield* lifecycle.drain
      assert.deepInclude(yield* Fiber.join(paid), { code: "service_unavailable", detail: notKnown })
    }))

  it.live("says so on a stream, too", () =>
    Effect.gen(function*() {
      const { open, recorded, send } = yield* payingTool({ accept: thenHang, lifecycle: { deadline: 400 } })
      const stream = messagesOf(yield* open(callOf(legacy, 7, "pay", payment)))
      const question = (yield* Effect.promise(() => stream.next())).value as Message
      assert.strictEqual(question["method"], "elicitation/create")
      yield* send({ jsonrpc: "2.0", id: question["id"], result: confirmed })
      const answer = (yield* Effect.promise(() => stream.next())).value as Message
      assert.deepInclude(answer, { id: 7 })
      assert.strictEqual(answer["error"].message, notKnown)
      assert.strictEqual(recorded(), 1)
    }))

  it.live("says after a defect that the request may be recorded", () =>
    Effect.gen(function*() {
      const { pay, recorded } = yield* payingTool({
        accept: (accept) => (...request) => Effect.andThen(accept(...request), Effect.die(new Error("broken")))
      })
      const { advice, isError, problem } = textOf(yield* pay(payment))
      assert.isTrue(isError)
      assert.strictEqual(advice, adviceOnRefusedMutation("internal_error"))
      assert.match(advice, /recorded the request is not known.*Do not use a new key.*the same key/)
      assert.deepInclude(problem, { code: "internal_error" })
      assert.strictEqual(recorded(), 1)
    }))

  it.live("sends no response to a call that its client cancels", () =>
    Effect.gen(function*() {
      const { open, recorded, send } = yield* payingTool({ lifecycle: { deadline: 60_000 } })
      const stream = messagesOf(yield* open(callOf(legacy, 7, "pay", payment)))
      const { value: question } = yield* Effect.promise(() => stream.next())
      assert.propertyVal(question, "method", "elicitation/create")
      yield* send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } })
      const rest: Array<Message> = []
      yield* Effect.promise(async () => {
        for await (const message of stream) rest.push(message)
      })
      assert.isFalse(rest.some((message) => "id" in message && !("method" in message)))
      assert.strictEqual(recorded(), 0)
    }))
})
