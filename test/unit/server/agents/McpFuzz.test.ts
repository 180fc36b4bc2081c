/**
 * Every message of an agent gets a declared answer, and never an internal error. The tests send thousands of random requests to
 * `POST /mcp` of a gateway in memory.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import * as http from "node:http"
import { operationStates } from "../../../../src/domain/Operation.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import { acceptIn, issue } from "../../../fixtures/http/HttpScene.ts"
import { assertDeclared, outputSchemasOf } from "../../../fixtures/mcp/DeclaredAnswers.ts"
import { messagesOf, modern, open, post, requestOf } from "../../../fixtures/mcp/HttpMcp.ts"
import { mcpRequests } from "../../../fixtures/mcp/McpFuzz.ts"

/** The seed of the random requests: a failure repeats with the same seed. */
const seed = Number(process.env["FUZZ_SEED"] ?? 20261121)
const numRuns = Number(process.env["FUZZ_REQUESTS"] ?? rounds(1500, 30_000))
const connections = 16

layer(memoryGateway(), { excludeTestServices: true })("Every message to /mcp", (it) => {
  it.effect("gets a declared answer, and no defect is logged", () =>
    Effect.gen(function*() {
      const { port } = yield* Gateway
      const { lines } = yield* Observer
      const holder = yield* issue()
      const operations = yield* Effect.forEach(operationStates, (state) => acceptIn(holder, state))
      const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
      const scene = {
        token: holder.token,
        ids: operations.map(({ id }) => id),
        finalIds: operations.filter(({ terminal }) => terminal).map(({ id }) => id)
      }
      const kinds = new Map<string, number>()
      yield* Effect.promise(async () => {
        const list = await post(port, holder.token, requestOf(modern, 1, "tools/list"))
        const schemas = outputSchemasOf(messagesOf(list)[0]!["result"].tools)
        const queue = fc.sample(mcpRequests(scene), { seed, numRuns })[Symbol.iterator]()
        const run = async () => {
          for (let next = queue.next(); !next.done; next = queue.next()) {
            let answer
            try {
              answer = await open(port, next.value, agent).complete
              const kind = assertDeclared(schemas, next.value, answer)
              kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
            } catch (cause) {
              const seen = JSON.stringify({ request: next.value, status: answer?.status, text: answer?.text }, null, 2)
              throw new Error(seen.replaceAll(/a{99,}/g, "a…a").slice(0, 5000), { cause })
            }
          }
        }
        await Promise.all(Array.from({ length: connections }, run))
        agent.destroy()
      })
      const defects = lines.filter(({ level, text }) => level === "ERROR" || level === "FATAL" || text.includes("BUG"))
      assert.deepStrictEqual(defects.map(({ text }) => text), [])
      // The requests were of several kinds.
      assert.includeMembers([...kinds.keys()], [
        "200 result",
        "200 result after progress",
        "200 -32601",
        "200 -32602",
        "202",
        "400 -32600",
        "400 -32020",
        "400 -32022",
        "401 invalid_token",
        "403 origin_not_allowed",
        "404 -32601",
        "406 not_acceptable",
        "413 payload_too_large",
        "415 unsupported_media_type",
        "422 invalid_request"
      ])
    }))
})
