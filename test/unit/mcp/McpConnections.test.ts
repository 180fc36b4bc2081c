/** The work of an agent's call ends with the call, and in time. */
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { AgentReads } from "../../../src/mcp/AgentReads.ts"
import { type JsonObject, type JsonRpcMessage, legacy } from "../../../src/mcp/JsonRpc.ts"
import { McpConnections } from "../../../src/mcp/McpConnections.ts"
import { formOf, readsOf } from "../../fixtures/mcp/AgentOperations.ts"
import { makeSteppingClock } from "../../fixtures/SteppingClock.ts"
import { until } from "../../fixtures/submission/World.ts"

const operation = formOf(1, "accepted", 0)

/** Calls the tool that waits for an operation. `sent` has the answers. */
const startWait = Effect.gen(function*() {
  const sent: Array<JsonRpcMessage> = []
  const { open } = yield* McpConnections
  const { receive } = yield* open("stdio", (message) => Effect.sync(() => sent.push(message)))
  const request = (id: number, method: string, params: JsonObject) => receive({ jsonrpc: "2.0", id, method, params })
  const clientInfo = { name: "agent", version: "1" }
  yield* request(1, "initialize", { protocolVersion: legacy, capabilities: {}, clientInfo })
  const call = yield* Effect.forkChild(
    request(2, "tools/call", { name: "wait_for_operation", arguments: { id: operation.id, seconds: 20 } })
  )
  return { call, receive, sent }
})

it.effect("A call that its client cancels reads no more", () => {
  const reads = { begun: 0, ended: 0 }
  const next = () =>
    Effect.suspend(() => {
      reads.begun++
      return Effect.ensuring(Effect.never, Effect.sync(() => reads.ended++))
    })
  return Effect.gen(function*() {
    const { call, receive, sent } = yield* startWait
    yield* until(() => reads.begun === 1)
    yield* receive({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } })
    yield* Fiber.join(call)
    yield* until(() => reads.ended === 1)
    assert.lengthOf(sent, 1)
  }).pipe(
    Effect.provideService(AgentReads, { ...readsOf(operation), next }),
    Effect.scoped,
    Effect.provide(McpConnections.layer)
  )
})

it.effect("A wait ends after its time also while the wall clock steps back", () =>
  Effect.gen(function*() {
    const { clock, set } = yield* makeSteppingClock
    const waits: Array<number> = []
    yield* Effect.gen(function*() {
      const { call } = yield* startWait
      yield* until(() => waits.length === 1)
      set(-3_600_000)
      for (const seconds of [10, 10]) yield* TestClock.adjust(`${seconds} seconds`)
      yield* until(() => call.pollUnsafe() !== undefined)
      assert.deepStrictEqual(waits, [10, 10])
    }).pipe(
      Effect.provideService(AgentReads, {
        ...readsOf(operation),
        next: (known, seconds) => {
          waits.push(seconds)
          return Effect.delay(Effect.succeed(known), seconds * 1000)
        }
      }),
      Effect.scoped,
      Effect.provide(McpConnections.layer),
      Effect.provideService(Clock.Clock, clock)
    )
  }))
