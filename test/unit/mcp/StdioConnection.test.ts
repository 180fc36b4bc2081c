/** The connection over standard streams: messages run at the same time, within bounds, and its end ends them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Queue, Sink, Stdio, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { JsonRpcMessage } from "../../../src/mcp/JsonRpc.ts"
import { maxRunning, type Receiver, type Send, serveStdio } from "../../../src/mcp/StdioConnection.ts"

const encoder = new TextEncoder()

/** Serves a receiver. `write` sends lines to it, and `read` returns the next message that it sends. */
const serve = Effect.fnUntraced(function*(open: (send: Send) => Receiver<never>) {
  const input = yield* Queue.make<Uint8Array>()
  const output = yield* Queue.make<string>()
  const mayRead = Latch.makeUnsafe(true)
  const fiber = yield* Effect.forkChild(
    Effect.provide(
      serveStdio((send) => Effect.sync(() => open(send))),
      Stdio.layerTest({
        stdin: Stream.takeWhile(Stream.fromQueue(input), (chunk) => chunk.length > 0),
        stdout: () =>
          Sink.forEach((text: string | Uint8Array) => Effect.andThen(mayRead.await, Queue.offer(output, String(text))))
      })
    )
  )
  return {
    fiber,
    mayRead,
    write: (messages: ReadonlyArray<object>) =>
      Queue.offer(input, encoder.encode(messages.map((message) => `${JSON.stringify(message)}\n`).join(""))),
    end: Queue.offer(input, new Uint8Array(0)),
    read: Effect.map(Queue.take(output), (text) => JSON.parse(text) as Readonly<Record<string, unknown>>),
    unread: Queue.size(output)
  }
})

const request = (id: number, method = "wait") => ({ jsonrpc: "2.0", id, method })

const resultOf = (message: JsonRpcMessage): JsonRpcMessage => ({
  jsonrpc: "2.0",
  id: (message as { readonly id: number }).id,
  result: {}
})

const codeOf = ({ error }: Readonly<Record<string, unknown>>) => (error as { readonly code: number }).code

describe("A connection over standard streams", () => {
  it.effect("runs requests at the same time, and answers each when it is done", () =>
    Effect.gen(function*() {
      const gate = Latch.makeUnsafe()
      const { end, fiber, read, write } = yield* serve((send) => ({
        receive: (message) =>
          Effect.andThen(
            (message as { method?: string }).method === "wait" ? gate.await : Effect.void,
            send(resultOf(message))
          )
      }))
      yield* write([request(1), request(2, "ping")])
      assert.deepInclude(yield* read, { id: 2 })
      gate.openUnsafe()
      assert.deepInclude(yield* read, { id: 1 })
      yield* end
      yield* Fiber.join(fiber)
    }))

  it.effect("hears a notification after the request of the line before, and a request after `initialize` is answered", () =>
    Effect.gen(function*() {
      const heard: Array<string> = []
      const { end, fiber, write } = yield* serve(() => ({
        receive: (message) =>
          Effect.gen(function*() {
            const { method } = message as { readonly method: string }
            heard.push(`${method} begins`)
            if (method === "initialize") yield* Effect.yieldNow
            heard.push(`${method} ends`)
            if (method === "wait") yield* Effect.never
          })
      }))
      yield* write([request(1, "initialize"), request(2), { jsonrpc: "2.0", method: "notifications/cancelled" }])
      yield* end
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        heard,
        ["initialize", "wait", "notifications/cancelled"].flatMap((method) => [`${method} begins`, `${method} ends`])
      )
    }))

  it.effect(`refuses further requests while ${maxRunning} run`, () =>
    Effect.gen(function*() {
      const gate = Latch.makeUnsafe()
      const { read, write } = yield* serve((send) => ({
        receive: (message) => Effect.andThen(gate.await, send(resultOf(message)))
      }))
      yield* write(Array.from({ length: maxRunning + 1 }, (_, n) => request(n)))
      const refused = yield* read
      assert.deepStrictEqual([refused["id"], codeOf(refused)], [maxRunning, -32000])
      gate.openUnsafe()
      for (let n = 0; n < maxRunning; n++) assert.deepInclude(yield* read, { id: n })
      yield* write([request(100)])
      assert.deepInclude(yield* read, { id: 100 })
    }))

  it.effect("reads no further lines while the client does not read", () =>
    Effect.gen(function*() {
      let received = 0
      const { mayRead, read, write } = yield* serve((send) => ({
        receive: (message) =>
          Effect.suspend(() => {
            received++
            return send(resultOf(message))
          })
      }))
      mayRead.closeUnsafe()
      const count = 1000
      yield* write(Array.from({ length: count }, (_, n) => request(n, "ping")))
      for (let turn = 0; turn < 1000; turn++) yield* Effect.yieldNow
      assert.isBelow(received, 2 * maxRunning)
      mayRead.openUnsafe()
      const ids = yield* Effect.replicateEffect(read, count)
      assert.strictEqual(new Set(ids.map(({ id }) => id)).size, count, "each request is answered once")
    }))

  it.effect("interrupts what still runs one second after the end of its input", () =>
    Effect.gen(function*() {
      const ended: Array<string> = []
      const { end, fiber, mayRead, read, unread, write } = yield* serve((send) => ({
        receive: (message) =>
          Effect.onInterrupt(
            Effect.andThen(send(resultOf(message)), Effect.never),
            () => Effect.sync(() => void ended.push("interrupted"))
          )
      }))
      // Also while the client does not read.
      mayRead.closeUnsafe()
      yield* write([request(1), request(2)])
      yield* end
      yield* TestClock.adjust("990 millis")
      assert.deepStrictEqual(ended, [])
      yield* TestClock.adjust("10 millis")
      assert.deepStrictEqual(ended, ["interrupted", "interrupted"])
      mayRead.openUnsafe()
      yield* Fiber.join(fiber)
      assert.deepStrictEqual([(yield* read)["id"], (yield* read)["id"]], [1, 2])
      assert.strictEqual(yield* unread, 0)
    }))

  it.effect("answers a request whose handler has a defect, and goes on", () =>
    Effect.gen(function*() {
      const { read, write } = yield* serve((send) => ({
        receive: (message) =>
          (message as { readonly id: number }).id === 1 ? Effect.die(new Error("secret")) : send(resultOf(message))
      }))
      yield* write([request(1)])
      const failed = yield* read
      assert.deepStrictEqual([failed["id"], codeOf(failed)], [1, -32603])
      assert.notInclude(JSON.stringify(failed), "secret")
      yield* write([request(2)])
      assert.deepInclude(yield* read, { id: 2 })
    }))
})
