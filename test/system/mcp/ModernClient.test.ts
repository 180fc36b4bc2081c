/**
 * The official client of MCP 2026-07-28 follows an operation as a task, with a token of the gateway itself. The test runs a real process
 * and the real PostgreSQL. `unit/mcp/OperationTasks` has the form of tasks, and `NothingSubmitted` cancels some.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { modern } from "../../../src/mcp/JsonRpc.ts"
import { accept, drive, issue } from "../../fixtures/ledger/Ledger.ts"
import { agentGateway, shownIn } from "../../fixtures/mcp/AgentGateway.ts"
import { connectModernHost } from "../../fixtures/mcp/ModernHost.ts"
import { until } from "../../fixtures/until.ts"

describe("A host of the official client for MCP 2026-07-28", () => {
  it.live("follows an operation as a task until it is completed, with the result that the operation failed", () =>
    Effect.gen(function*() {
      const { services, start, url } = yield* agentGateway
      yield* start()
      const { access_token, identity } = yield* Effect.provide(issue(), services)
      const { client, session } = yield* Effect.acquireRelease(
        Effect.promise(() => connectModernHost(url, Redacted.value(access_token))),
        ({ close }) => Effect.promise(close)
      )
      assert.strictEqual(client.getNegotiatedProtocolVersion(), modern)
      const { operation } = yield* Effect.provide(accept(identity), services)
      const { id } = operation
      const execution = yield* Effect.promise(() => session.callTool("wait_for_operation", { id, seconds: 55 }))
      const seen: Array<string> = []
      const settling = execution.settle({
        onEvent: (event) => {
          if (event.type === "task") seen.push(`${event.task.taskId} ${event.task.status}`)
        }
      })
      yield* until(() => seen.length > 0)
      yield* Effect.provide(drive(operation, ["submitting", "submitted", "failed"]), services)
      const { outcome } = yield* Effect.promise(() => settling)
      assert.strictEqual(outcome.status, "completed", "the task status failed is for errors of the protocol")
      const shown = shownIn((outcome as { readonly result: object }).result)
      assert.deepInclude(shown.operation, { id, state: "failed", terminal: true })
      assert.include(shown.advice, "The request failed.")
      assert.isTrue(seen.every((line) => line.startsWith(id)))
      assert.strictEqual(seen[0], `${id} working`)
    }).pipe(Effect.scoped))
})
