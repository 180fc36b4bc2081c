/**
 * `POST /mcp` keeps the rules of Streamable HTTP (MCP 2025-11-25 and 2026-07-28, "Transports") and the limits of the gateway.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { type Cause, Effect, Fiber, Queue, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { eventStream } from "../../../../src/server/agents/EventStream.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import { assertProblem } from "../../../fixtures/http/HttpProblem.ts"
import { accept, acceptIn, issue } from "../../../fixtures/http/HttpScene.ts"
import {
  callOf,
  eventsOf,
  headersOf,
  legacy,
  type Message,
  messagesOf,
  modern,
  nameHeader,
  open,
  post,
  requestOf
} from "../../../fixtures/mcp/HttpMcp.ts"

const both = [modern, legacy] as const

const atOnce = { concurrency: "unbounded" } as const

/** A scene, and functions that send to it. */
const scene = Effect.gen(function*() {
  const { port } = yield* Gateway
  const holder = yield* issue()
  const operation = yield* accept(holder)
  const send = (message: unknown, headers: Readonly<Record<string, string>> = {}) =>
    Effect.promise(() => post(port, holder.token, message, headers))
  const sendRaw = (method: string, body: string | Buffer, headers: Readonly<Record<string, string>>) =>
    Effect.promise(() =>
      open(port, { method, body, headers: { authorization: `Bearer ${holder.token}`, ...headers } }).complete
    )
  return { holder, operation, port, send, sendRaw }
})

const errorOf = (answer: { readonly text: string }) => (JSON.parse(answer.text) as Message)["error"]

layer(memoryGateway(), { excludeTestServices: true })("POST /mcp", (it) => {
  it.effect("is the only method: others are 405 with Allow, OPTIONS tells it, and no session can be ended", () =>
    Effect.gen(function*() {
      const { sendRaw } = yield* scene
      for (const method of ["GET", "DELETE", "PUT", "PATCH"]) {
        const answer = yield* sendRaw(method, "", { accept: "application/json, text/event-stream" })
        assert.strictEqual(assertProblem(answer).code, "method_not_allowed")
        assert.strictEqual(answer.headers["allow"], "POST, OPTIONS")
      }
      const head = yield* sendRaw("HEAD", "", {})
      assert.deepStrictEqual([head.status, head.text, head.headers["allow"]], [405, "", "POST, OPTIONS"])
      const options = yield* sendRaw("OPTIONS", "", {})
      assert.deepStrictEqual([options.status, options.headers["allow"]], [204, "POST, OPTIONS"])
    }))

  it.effect("answers in JSON or events: a client that takes no JSON gets 406, one without events JSON alone", () =>
    Effect.gen(function*() {
      const { operation: { id }, send } = yield* scene
      for (const type of ["text/event-stream", "text/html", "application/json;q=0"]) {
        const answer = yield* send(requestOf(modern, 1, "tools/list"), { accept: type })
        assert.strictEqual(assertProblem(answer).code, "not_acceptable")
      }
      const waits = both.map((version) =>
        callOf(version, 1, "wait_for_operation", { id, seconds: 1 }, { progressToken: 1 })
      )
      const answers = yield* Effect.forEach(waits, (wait) => send(wait, { accept: "application/json" }), atOnce)
      for (const answer of answers) {
        assert.strictEqual(answer.headers["content-type"], "application/json")
        assert.strictEqual((JSON.parse(answer.text) as Message)["result"].structuredContent.operation.id, id)
      }
      const overlong = yield* send(waits[0], { accept: "application/json, ".repeat(60) })
      assert.strictEqual(overlong.headers["content-type"], "text/event-stream")
    }))

  it.effect("refuses a request of 2026-07-28 without the client's capabilities with 400, but not one without its name", () =>
    Effect.gen(function*() {
      const { send } = yield* scene
      const withMetadata = (_meta: Message) => ({ ...requestOf(modern, 1, "tools/list"), params: { _meta } })
      const version = { "io.modelcontextprotocol/protocolVersion": modern }
      for (const wrong of [{}, { capabilities: {} }, { "io.modelcontextprotocol/clientCapabilities": [] }]) {
        const answer = yield* send(withMetadata({ ...version, ...wrong }))
        assert.deepStrictEqual([answer.status, errorOf(answer).code], [400, -32_602])
      }
      const nameless = withMetadata({ ...version, "io.modelcontextprotocol/clientCapabilities": {} })
      assert.strictEqual((yield* send(nameless)).status, 200)
    }))

  it.effect("refuses web pages of other origins with 403", () =>
    Effect.gen(function*() {
      const { send } = yield* scene
      const list = requestOf(modern, 1, "tools/list")
      for (const origin of ["https://evil.test", "null", "http://gateway.test", "https://gateway.test.evil.test", ""]) {
        const answer = yield* send(list, { origin })
        assert.strictEqual(assertProblem(answer).code, "origin_not_allowed", origin)
      }
      assert.strictEqual((yield* send(list, { origin: "https://gateway.test" })).status, 200)
    }))

  it.effect("answers with a problem until JSON-RPC begins: a body that is no JSON, or beyond the limits of JSON", () =>
    Effect.gen(function*() {
      const { linesOf } = yield* Observer
      const { sendRaw } = yield* scene
      const headers = headersOf(requestOf(legacy, 1, "ping"))
      for (const body of ["", "{", "nonsense", "{}{}", "[".repeat(100) + "]".repeat(100)]) {
        const answer = yield* sendRaw("POST", body, headers)
        const problem = assertProblem(answer)
        assert.strictEqual(problem.code, "invalid_request", body)
        assert.strictEqual(problem.fields?.[0]?.path.split(".")[0], "body")
        assert.strictEqual(problem.request_id, answer.headers["x-request-id"])
        assert.lengthOf(linesOf(problem.request_id), 1)
      }
    }))

  it.effect("logs a refusal in JSON-RPC with the request id of the response", () =>
    Effect.gen(function*() {
      const { linesOf } = yield* Observer
      const { sendRaw } = yield* scene
      const headers = headersOf(requestOf(legacy, 1, "ping"))
      for (const body of ["[]", "1", "{}", "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"]) {
        const answer = yield* sendRaw("POST", body, headers)
        assert.deepStrictEqual([answer.status, errorOf(answer).code], [400, -32_600])
        assert.lengthOf(linesOf(answer.headers["x-request-id"] as string), 1, body)
      }
    }))

  it.effect("reports progress only under the token of the client, and before the result", () =>
    Effect.gen(function*() {
      const { operation: { id }, send } = yield* scene
      const waits = both.flatMap((version) =>
        ["token", 0, undefined].map((progressToken) => ({ version, progressToken }))
      )
      yield* Effect.forEach(waits, ({ progressToken, version }) =>
        Effect.gen(function*() {
          const meta = progressToken === undefined ? {} : { progressToken }
          const answer = yield* send(callOf(version, 7, "wait_for_operation", { id, seconds: 1 }, meta))
          const messages = messagesOf(answer)
          const reports = messages.slice(0, -1)
          assert.strictEqual(messages.at(-1)!["id"], 7)
          assert.strictEqual(reports.length > 0, progressToken !== undefined)
          const type = progressToken === undefined ? "application/json" : "text/event-stream"
          assert.strictEqual(answer.headers["content-type"], type)
          for (const { method, params } of reports) {
            assert.strictEqual(method, "notifications/progress")
            assert.strictEqual(params.progressToken, progressToken)
          }
        }), atOnce)
    }))

  it.effect("compares Mcp-Name with the name in the message, also in base64", () =>
    Effect.gen(function*() {
      const { send } = yield* scene
      const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: "binary" })).map((name) =>
        name.toWellFormed()
      )
      for (const name of ["tools/é", "=?base64?x?=", " a", "\u2028", ...fc.sample(text, { seed: 1, numRuns: 25 })]) {
        const answer = yield* send(requestOf(modern, 1, "tools/call", { name, arguments: {} }))
        assert.strictEqual(errorOf(answer).code, -32_602, name)
        const other = yield* send(requestOf(modern, 1, "tools/call", { name, arguments: {} }), {
          "mcp-name": nameHeader(`${name}x`)
        })
        assert.deepStrictEqual([other.status, errorOf(other).code], [400, -32_020])
      }
      const encoded = `=?base64?${Buffer.from("list_operations").toString("base64")}?=`
      const answer = yield* send(callOf(modern, 1, "list_operations", {}), { "mcp-name": encoded })
      assert.strictEqual(answer.status, 200)
    }))

  it.effect("never mixes up clients that use the same ids, nor shows operations of another owner", () =>
    Effect.gen(function*() {
      const { port } = yield* Gateway
      const holders = yield* Effect.forEach(
        [1, 2, 3],
        () =>
          Effect.gen(function*() {
            const holder = yield* issue()
            return { holder, own: [yield* acceptIn(holder, "accepted"), yield* acceptIn(holder, "failed")] }
          })
      )
      const ids = holders.map(({ own }) => own.map(({ id }) => id as string))
      const calls = fc.array(
        fc.record({
          client: fc.nat(2),
          of: fc.nat(2),
          which: fc.nat(1),
          version: fc.constantFrom(...both),
          id: fc.constantFrom(1, "1", "initialize"),
          kind: fc.constantFrom("get_operation", "wait_for_operation", "list_operations", "changes_since")
        }),
        { minLength: 2, maxLength: 24 }
      )
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(calls, (all) =>
            Promise.all(all.map(async ({ client, id, kind, of, version, which }) => {
              const asked = ids[of]![which]!
              const args = kind === "get_operation" ? { id: asked } : kind === "wait_for_operation"
                ? { id: ids[of]![1]!, seconds: 1 }
                : {}
              const meta = { progressToken: `${client} ${kind}` }
              const answer = await post(port, holders[client]!.holder.token, callOf(version, id, kind, args, meta))
              const messages = messagesOf(answer)
              assert.strictEqual(messages.at(-1)!["id"], id)
              const { isError, structuredContent } = messages.at(-1)!["result"]
              for (const [other, owned] of ids.entries()) {
                if (other !== client && (other !== of || isError !== true)) {
                  assert.isFalse(owned.some((one) => answer.text.includes(one)))
                }
              }
              if (args.id !== undefined) {
                assert.strictEqual(isError === true, of !== client)
                if (of === client) assert.strictEqual(structuredContent.operation.id, args.id)
              } else {
                const found = structuredContent.operations.map((operation: Message) => operation["id"])
                assert.sameMembers(found, ids[client]!)
              }
            })).then(() => {})),
          { numRuns: 40 }
        )
      )
    }))
})

describe("A stream of events", () => {
  const textOf = (response: HttpServerResponse.HttpServerResponse) =>
    Effect.promise(() => HttpServerResponse.toWeb(response).text())

  it.effect("has one event for each message, with any characters in its strings", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(fc.array(fc.jsonValue({ stringUnit: "binary" }), { maxLength: 8 }), async (values) => {
          const messages = [...values, "\n", "\r\n\r\n", "\u2028\u2029", "data: x\n\n", "\ud800", "\0"].map((text) => ({
            text
          }))
          const text = await Effect.runPromise(textOf(eventStream(Stream.fromIterable(messages))))
          assert.deepStrictEqual(eventsOf(text), messages.map((message) => JSON.parse(JSON.stringify(message))))
        })
      )
    ))

  it.effect("has a comment every 15 seconds of silence, and ends with its messages", () =>
    Effect.gen(function*() {
      const messages = yield* Queue.make<number, Cause.Done>()
      const reading = yield* Effect.forkChild(
        Effect.flatMap(
          Effect.context<never>(),
          (context) =>
            Effect.promise(() => HttpServerResponse.toWeb(eventStream(Stream.fromQueue(messages)), { context }).text())
        ),
        { startImmediately: true }
      )
      yield* TestClock.adjust("29 seconds")
      Queue.offerUnsafe(messages, 1)
      yield* TestClock.adjust("1 seconds")
      Queue.endUnsafe(messages)
      assert.strictEqual(yield* Fiber.join(reading), ": keep-alive\n\ndata: 1\n\n: keep-alive\n\n")
    }))
})
