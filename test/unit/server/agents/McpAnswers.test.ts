/**
 * What the endpoint for agents says of itself is true: its capabilities, the headers of its streams, and the status of a refusal.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { adviceOnRefusal, inWords, sentences } from "../../../../src/mcp/Advice.ts"
import { operationTools } from "../../../../src/mcp/OperationTools.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { fixedToken, operationWith, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblem } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"
import { idOf } from "../../../fixtures/mcp/AgentOperations.ts"
import {
  callOf,
  headersOf,
  legacy,
  type Message,
  modern,
  open,
  post,
  requestOf
} from "../../../fixtures/mcp/HttpMcp.ts"

const scene = Effect.gen(function*() {
  const { port } = yield* Gateway
  const holder = yield* issue()
  const operation = yield* accept(holder)
  const send = (message: unknown, headers: Readonly<Record<string, string>> = {}) =>
    Effect.promise(() => post(port, holder.token, message, headers))
  return { holder, operation, port, send }
})

const bodyOf = ({ text }: { readonly text: string }) => JSON.parse(text) as Message

layer(memoryGateway(), { excludeTestServices: true })("answers to agents", (it) => {
  it.effect("offers no subscriptions, and does not find their methods", () =>
    Effect.gen(function*() {
      const { operation: { id }, send } = yield* scene
      const initialize = { protocolVersion: legacy, capabilities: {}, clientInfo: { name: "test", version: "1" } }
      for (
        const request of [requestOf(legacy, 1, "initialize", initialize), requestOf(modern, 1, "server/discover")]
      ) {
        const { capabilities } = bodyOf(yield* send(request))["result"]
        assert.deepStrictEqual(capabilities.resources, { subscribe: false, listChanged: false })
      }
      const uri = `operation://${id}`
      const methods = {
        "resources/subscribe": { uri },
        "resources/unsubscribe": { uri },
        "subscriptions/listen": { notifications: { resourceSubscriptions: [uri] } }
      }
      for (const [method, params] of Object.entries(methods)) {
        for (const [version, status] of [[modern, 404], [legacy, 200]] as const) {
          const answer = yield* send(requestOf(version, 1, method, params))
          assert.deepStrictEqual([answer.status, bodyOf(answer)["error"]?.code], [status, -32_601], method)
        }
      }
    }))

  it.effect("refuses a request of 2026-07-28 whose Mcp-Method is missing or names another method", () =>
    Effect.gen(function*() {
      const { holder, port, send } = yield* scene
      const list = requestOf(modern, 1, "tools/list")
      const { "mcp-method": _, ...others } = headersOf(list)
      const without = yield* Effect.promise(() =>
        open(port, { body: JSON.stringify(list), headers: { ...others, authorization: `Bearer ${holder.token}` } })
          .complete
      )
      for (const answer of [without, yield* send(list, { "mcp-method": "tools/call" })]) {
        assert.deepStrictEqual([answer.status, bodyOf(answer)["error"].code], [400, -32_020])
      }
    }))

  it.effect("refuses a request that names its version in the header alone, and takes such a notification", () =>
    Effect.gen(function*() {
      const { send } = yield* scene
      const version = { "mcp-protocol-version": modern }
      const refused = yield* send({ jsonrpc: "2.0", id: 1, method: "tools/list" }, version)
      assert.deepStrictEqual([refused.status, bodyOf(refused)["error"].code], [400, -32_602])
      const taken = yield* send(
        { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 9 } },
        version
      )
      assert.deepStrictEqual([taken.status, taken.text], [202, ""])
    }))

  it.effect("streams with headers that keep proxies from holding events back, and without events to clients that refuse them", () =>
    Effect.gen(function*() {
      const { operation: { id }, send } = yield* scene
      const wait = callOf(legacy, 1, "wait_for_operation", { id, seconds: 1 }, { progressToken: "p" })
      const { headers } = yield* send(wait)
      assert.strictEqual(headers["content-type"], "text/event-stream")
      assert.strictEqual(headers["x-accel-buffering"], "no")
      assert.strictEqual(headers["cache-control"], "no-store, no-transform")
      const refused = yield* send(wait, { accept: "application/json, text/event-stream;q=0" })
      assert.strictEqual(refused.headers["content-type"], "application/json")
    }))

  it.effect("tells to read on in a feed at once while pages follow, and after 5 seconds at its end", () =>
    Effect.gen(function*() {
      const { holder, send } = yield* scene
      yield* accept(holder)
      for (const [page_size, seconds] of [[1, 0], [2, 5]] as const) {
        const { result } = bodyOf(yield* send(callOf(modern, 1, "changes_since", { page_size })))
        assert.strictEqual(result.structuredContent.read_again_in_seconds, seconds)
      }
    }))

  it.effect("tells what the grant may spend, and that no limits are no permission", () =>
    Effect.gen(function*() {
      const { send } = yield* scene
      const { result } = bodyOf(yield* send(callOf(modern, 1, "get_limits", {})))
      assert.deepStrictEqual(result.structuredContent, { advice: inWords(sentences.noLimits), limits: [] })
    }))

  it.effect.each([legacy, modern])(
    "tells in the error of a missing resource that it says nothing about an outcome: %s",
    (version) =>
      Effect.gen(function*() {
        const { send } = yield* scene
        const { error } = bodyOf(
          yield* send(requestOf(version, 1, "resources/read", { uri: `operation://${idOf(0)}` }))
        ) as Message
        assert.strictEqual(error.code, version === legacy ? -32_002 : -32_602)
        assert.strictEqual(JSON.parse(error.message).advice, adviceOnRefusal("operation_not_found"))
      })
  )

  it.effect.each([legacy, modern])(
    "gives the advice on wrong arguments of every tool, and no more than the beginning of what was sent: %s",
    (version) =>
      Effect.gen(function*() {
        const { send } = yield* scene
        const wrong: ReadonlyArray<Message> = [
          Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`<key${index}>`, 1])),
          { ["`".repeat(50_000)]: 1 },
          { id: 1, idempotency_key: 1, state: Array(1000).fill("x"), after: 1 }
        ]
        for (const tool of Object.keys(operationTools)) {
          for (const args of wrong) {
            const answer = yield* send(callOf(version, 1, tool, args))
            const { isError, content: [{ text }] } = bodyOf(answer)["result"]
            const { advice, problem } = JSON.parse(text)
            assert.deepStrictEqual(
              [isError, advice, problem.code],
              [true, adviceOnRefusal("invalid_request"), "invalid_request"]
            )
            // Each character may take six in quotes, and those of the message double the backslash.
            assert.isBelow(answer.text.length, 10_000)
            assert.notMatch(text, /[<>&`]/)
          }
        }
      })
  )

  it.effect.each([legacy, modern])(
    "are the same with and without a connection to Effect's server: %s",
    (version) =>
      Effect.gen(function*() {
        const { holder, operation: { id }, send } = yield* scene
        yield* accept(holder)
        const fitting: Readonly<Record<Exclude<keyof typeof operationTools, "wait_for_operation">, Message>> = {
          list_operations: { page_size: 1 },
          get_operation: { id },
          find_operation_by_key: { idempotency_key: "unknown" },
          changes_since: { page_size: 1 },
          get_limits: {}
        }
        for (const [name, args] of Object.entries(fitting)) {
          for (const given of [args, { id: idOf(0) }, { surplus: "fingw_secret" }]) {
            const call = callOf(version, 1, name, given)
            // A call with another member needs a connection.
            const answers = [yield* send(call), yield* send({ ...call, params: { ...call["params"], other: 1 } })]
            // Seconds and tokens of pages differ.
            const [alone, connected] = answers.map(({ text }) =>
              bodyOf({ text: text.replaceAll(/[\w-]{60,}|\b\d+\b/g, "0") })
            )
            assert.deepStrictEqual(alone, connected)
          }
        }
      })
  )

  it.effect("answers 401 with a challenge when the read finds the grant revoked", () =>
    Effect.gen(function*() {
      const { holder, operation: { id }, send } = yield* scene
      const grants = yield* Grants
      yield* grants.revoke(holder.grant.grant_id)
      for (const version of [modern, legacy]) {
        const answer = yield* send(callOf(version, 1, "get_operation", { id }))
        assert.strictEqual(assertProblem(answer).code, "grant_revoked")
        assert.include(answer.headers["www-authenticate"], "/.well-known/oauth-protected-resource/mcp")
      }
    }))
})

describe("the advice on a state in a list", () => {
  it.live("has the seconds of the youngest operation in it, in any order", () =>
    Effect.gen(function*() {
      const ages = [3_600_000, 0, 60_000]
      const operations = ages.map((age, number) =>
        operationWith({ id: idOf(number), updated_at: DateTime.makeUnsafe(Date.now() - age) })
      )
      for (const page of [operations, operations.toReversed()]) {
        yield* withServices({ list: () => Effect.succeed({ operations: page, next: null }) }, ({ port }) =>
          Effect.gen(function*() {
            const answer = yield* Effect.promise(() =>
              post(port, fixedToken, callOf(modern, 1, "list_operations", {}))
            )
            const [{ advice }] = bodyOf(answer)["result"].structuredContent.advice_by_state
            assert.match(advice, / Read again in [1-3] s\.$/)
          }))
      }
    }))
})
