/**
 * The official client of MCP 2026-07-28 follows operations as tasks, with a token of the gateway itself. The tests
 * run a real process and the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Operation, OperationState } from "../../../src/domain/Operation.ts"
import { modern } from "../../../src/mcp/ProtocolVersions.ts"
import { accept, drive, issue, operationIn } from "../../fixtures/ledger/Ledger.ts"
import { agentGateway, shownIn } from "../../fixtures/mcp/AgentGateway.ts"
import { connectModernHost } from "../../fixtures/mcp/ModernHost.ts"
import { until } from "../../fixtures/processes/ServingProcesses.ts"

const noRepetition = "Do not send the request again and do not use a new key."

/** A running gateway, a grant, and a host with its token. */
const scene = Effect.gen(function*() {
  const { services, start, url } = yield* agentGateway
  yield* start()
  const { access_token, identity } = yield* Effect.provide(issue(), services)
  const host = yield* Effect.acquireRelease(
    Effect.promise(() => connectModernHost(url, Redacted.value(access_token))),
    ({ close }) => Effect.promise(close)
  )
  assert.strictEqual(host.client.getNegotiatedProtocolVersion(), modern)
  return {
    host,
    accept: Effect.provide(Effect.map(accept(identity), ({ operation }) => operation), services),
    create: (state: OperationState) => Effect.provide(operationIn(identity, state), services),
    drive: (operation: Operation, states: ReadonlyArray<OperationState>) =>
      Effect.provide(drive(operation, states), services),
    /** All that the database has of operations. */
    rows: Effect.provide(
      SqlClient.SqlClient.use((sql) =>
        Effect.all({
          operations: sql`SELECT * FROM operations ORDER BY id`,
          history: sql`SELECT * FROM operation_history ORDER BY operation_id, revision`,
          payloads: sql`SELECT * FROM operation_payloads ORDER BY operation_id`
        })
      ),
      services
    )
  }
})
type Scene = Effect.Success<typeof scene>

/** Waits for an operation, which the host follows as a task. */
const follow = ({ host }: Scene, id: string) =>
  Effect.promise(() => host.session.callTool("wait_for_operation", { id, seconds: 55 }))

describe("A host of the official client for MCP 2026-07-28", () => {
  for (const outcome of ["succeeded", "failed"] as const) {
    it.live(`follows an operation as a task until it is completed, with the result ${outcome}`, () =>
      Effect.gen(function*() {
        const world = yield* scene
        const operation = yield* world.accept
        const execution = yield* follow(world, operation.id)
        const seen: Array<string> = []
        const settling = execution.settle({
          onEvent: (event) => {
            if (event.type === "task") seen.push(`${event.task.taskId} ${event.task.status}`)
          }
        })
        yield* until(() => seen.length > 0)
        yield* world.drive(operation, ["submitting", "submitted", outcome])
        const { outcome: settled } = yield* Effect.promise(() => settling)
        assert.strictEqual(settled.status, "completed", "the task status failed is for errors of the protocol")
        const shown = shownIn((settled as { readonly result: object }).result)
        assert.deepInclude(shown.operation, { id: operation.id, state: outcome, terminal: true })
        assert.include(shown.advice, outcome === "failed" ? "The request failed." : "The request succeeded.")
        assert.isTrue(seen.every((line) => line.startsWith(operation.id)))
        assert.strictEqual(seen[0], `${operation.id} working`)
      }).pipe(Effect.scoped))
  }

  it.live("sees an indeterminate operation as a working task that must not be repeated", () =>
    Effect.gen(function*() {
      const world = yield* scene
      const { id } = yield* world.create("indeterminate")
      const execution = yield* follow(world, id)
      const task = yield* Effect.promise(() => world.host.session.task(id as never).snapshot())
      assert.strictEqual(task.status, "working")
      assert.include(task.statusMessage, "The outcome is not known.")
      assert.include(task.statusMessage, noRepetition)
      yield* Effect.promise(() => execution.close())
    }).pipe(Effect.scoped))

  it.live("cancels nothing with tasks/cancel, in any state, and is told why", () =>
    Effect.gen(function*() {
      const world = yield* scene
      const states = ["accepted", "submitting", "submitted", "indeterminate", "succeeded", "failed"] as const
      const operations = yield* Effect.forEach(states, world.create)
      const before = yield* world.rows
      for (const { id } of operations) {
        const answer = yield* Effect.promise(() => world.host.request("tasks/cancel", { taskId: id }))
        assert.strictEqual(answer.kind, "result")
        assert.include(JSON.stringify(answer), "\"financial-agents-gateway/reason\":\"Nothing was cancelled.")
        yield* Effect.promise(() => world.host.session.task(id as never).cancel())
      }
      assert.deepStrictEqual(yield* world.rows, before)
      const statuses = yield* Effect.forEach(
        operations,
        ({ id }) => Effect.promise(async () => (await world.host.session.task(id as never).snapshot()).status)
      )
      assert.deepStrictEqual(statuses, ["working", "working", "working", "working", "completed", "completed"])
    }).pipe(Effect.scoped))
})
