/**
 * What an agent reads when nothing was found, or a call was wrong, tells it what not to do. It stays short for any input.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { OperationNotFound } from "../../../../src/domain/Operation.ts"
import { adviceOnRefusal } from "../../../../src/mcp/Advice.ts"
import { OperationTools } from "../../../../src/mcp/OperationTools.ts"
import { fixedId, fixedToken, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { callOf, legacy, type Message, messagesOf, modern, post, requestOf } from "../../../fixtures/mcp/HttpMcp.ts"

const versions = [legacy, modern]

const find = (_grant: unknown, id: typeof fixedId) => Effect.fail(new OperationNotFound({ id }))

describe("An agent reads", () => {
  it.live.each(versions)(
    "in the error of a missing resource that it tells nothing about an outcome: %s",
    (version) =>
      withServices({ find }, ({ port }) =>
        Effect.gen(function*() {
          const read = requestOf(version, 1, "resources/read", { uri: `operation://${fixedId}` })
          const [{ error } = {}] = messagesOf(yield* Effect.promise(() => post(port, fixedToken, read)))
          assert.strictEqual(error.code, version === legacy ? -32_002 : -32_602)
          assert.strictEqual(JSON.parse(error.message).advice, adviceOnRefusal("operation_not_found"))
        }))
  )

  it.live.each(versions)(
    "the advice on wrong arguments of every tool, and no more than the beginning of what it sent: %s",
    (version) =>
      withServices({}, ({ port }) =>
        Effect.gen(function*() {
          const wrong: ReadonlyArray<Message> = [
            Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`<key${index}>`, 1])),
            { ["`".repeat(50_000)]: 1 },
            { id: 1, idempotency_key: 1, state: Array(1000).fill("x"), after: 1 }
          ]
          for (const tool of Object.keys(OperationTools.tools)) {
            for (const args of wrong) {
              const answer = yield* Effect.promise(() => post(port, fixedToken, callOf(version, 1, tool, args)))
              const [{ result } = {}] = messagesOf(answer)
              assert.isTrue(result.isError)
              const { advice, problem } = JSON.parse(result.content[0].text)
              assert.deepStrictEqual([advice, problem.code], [adviceOnRefusal("invalid_request"), "invalid_request"])
              // Each character may take six in quotes, and those of the message double the backslash.
              assert.isBelow(answer.text.length, 10_000)
              assert.notMatch(result.content[0].text, /[<>&`]/)
            }
          }
        }))
  )
})
