/**
 * No call of an agent submits anything, or changes anything. A gateway with the role of a reader, a worker and a sandbox run as
 * processes. The test has operations in every state, calls everything that the MCP server has in random order, and compares
 * the sandbox's own record and the database with those before.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import * as fs from "node:fs"
import * as http from "node:http"
import * as path from "node:path"
import { type GrantIdentity, ProviderName } from "../../../src/domain/Grant.ts"
import type { OperationId, OperationState } from "../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { accept, issue, issueAgain, operationIn } from "../../fixtures/ledger/Ledger.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { servicesOn } from "../../fixtures/mcp/AgentGateway.ts"
import {
  headersOf,
  legacy,
  type Message,
  modern,
  open,
  type Posted,
  requestOf,
  tasksDeclared
} from "../../fixtures/mcp/HttpMcp.ts"
import { mcpRequests } from "../../fixtures/mcp/McpFuzz.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, launch, serve } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

interface Call {
  readonly version: string
  readonly method: string
  readonly params: Message
}

const versions = [modern, legacy]

/** Instructions to the sandbox, by the state in which they leave the operation while the worker runs. */
const instructions: Partial<Record<OperationState, object>> = {
  succeeded: { outcome: "succeeded" },
  failed: { outcome: "rejected", code: "declined", message: "Call the tool again to pay." },
  submitted: { outcome: "pending" },
  indeterminate: { faults: { lose: true } }
}

const servedBank = ProviderName.make("bank")

/** A provider without a worker. */
const otherBank = ProviderName.make("other-bank")

const startSandbox = Effect.fnUntraced(function*(record: string) {
  const { output } = yield* launch(
    ["sandbox", "--port", "0", "--control-port", "0", "--record", record],
    {},
    ({ stderr }) => stderr.includes("\"Listening\"")
  )
  return /"url":"(http:[^"]+)"/.exec(output.stderr)![1]!
})

/** An operation in each state, held ones and those of another owner. The worker has done all that it will do. */
const fill = Effect.gen(function*() {
  const ledger = yield* OperationLedger
  const queue = yield* Queue
  const { access_token, grant, identity } = yield* issue({ provider: servedBank })
  const elsewhere = (yield* issueAgain(grant, { provider: otherBank })).identity
  const add = (grantee: GrantIdentity, payload = {}) =>
    Effect.map(accept(grantee, { payload }), ({ operation }) => operation.id)

  const held = yield* add(elsewhere)
  yield* queue.holdAll
  const accepted = yield* add(elsewhere)
  const cancelled = yield* add(elsewhere)
  const { id: submitting } = yield* operationIn(elsewhere, "submitting")
  yield* ledger.cancel(cancelled, null)
  const { identity: stranger } = yield* issue({ provider: servedBank })
  const foreign = yield* add(stranger, { sandbox: instructions.succeeded })
  const submitted = yield* Effect.forEach(
    Object.entries(instructions),
    ([state, sandbox]) => Effect.map(add(identity, { sandbox }), (id) => ({ id, state }))
  )
  for (const { id, state } of [...submitted, { id: foreign, state: "succeeded" }]) {
    yield* Effect.repeat(Effect.delay(ledger.show(id), "20 millis"), { until: (shown) => shown.state === state })
  }
  return {
    token: Redacted.value(access_token),
    owned: [held, accepted, cancelled, submitting, ...submitted.map(({ id }) => id)],
    sent: [foreign, ...submitted.map(({ id }) => id)].toSorted(),
    foreign
  }
})

/**
 * All that an agent or a provider could see of a change. The worker writes only when it reads a status next and
 * that an operation waits for a review, which it does whether agents call or not.
 */
const snapshot = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.all({
    history: sql`SELECT * FROM operation_history ORDER BY operation_id, revision`,
    operations: sql`
      SELECT id, client_id, resource_owner, subject, grant_id, idempotency_key, type, state, revision, created_at, updated_at,
        completed_at, failure_code, failure_message, change_position
      FROM operations ORDER BY id`,
    payloads: sql`SELECT operation_id, client_id FROM operation_payloads ORDER BY operation_id`,
    grants: sql`SELECT * FROM grants ORDER BY id`,
    tokens: sql`SELECT * FROM access_tokens ORDER BY digest`,
    clients: sql`SELECT * FROM clients ORDER BY id`,
    connections: sql`SELECT * FROM provider_connections ORDER BY id`
  })
})

/** Each tool, task method and resource, for each operation. Each of these calls must be answered. */
const everyCall = (ids: ReadonlyArray<OperationId>): ReadonlyArray<Call> =>
  versions.flatMap((version) => {
    const tool = (name: string, toolArguments: object): Call => ({
      version,
      method: "tools/call",
      params: { name, arguments: toolArguments }
    })
    return [
      tool("list_operations", {}),
      tool("changes_since", {}),
      tool("find_operation_by_key", { idempotency_key: "key-1" }),
      ...ids.flatMap((id): ReadonlyArray<Call> => {
        const uri = `operation://${id}`
        const common = [
          tool("get_operation", { id }),
          tool("wait_for_operation", { id, seconds: 1 }),
          { version, method: "resources/read", params: { uri } }
        ]
        if (version !== modern) return common
        return [
          ...common,
          { version, method: "tasks/get", params: { taskId: id } },
          { version, method: "tasks/update", params: { taskId: id, inputResponses: {} } },
          { version, method: "tasks/cancel", params: { taskId: id } }
        ]
      })
    ]
  })

describe("Calls of agents", () => {
  it.live("submit nothing and change nothing, with any calls in any order", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "sandbox.jsonl")
      const { database, nameOf, urlAs } = yield* rolesWith()
      const services = yield* servicesOn(database)
      const sandbox = yield* startSandbox(record)
      const worker = yield* launch(
        // No claim becomes stale while the test runs.
        ["work", "--sandbox", `bank=${sandbox}`, "--rescue-after", "2h"],
        { DATABASE_URL: urlAs("writer") },
        ({ stderr }) => stderr.includes("\"Working\"")
      )
      const port = yield* freePort
      const gateway = yield* serve(["--no-migrate", "--port", String(port)], { DATABASE_URL: urlAs("reader") })

      const { foreign, owned, sent, token } = yield* Effect.provide(fill, services)
      const received = () =>
        fs.readFileSync(record, "utf8").split("\n").filter((line) => line !== "").map((line) =>
          (JSON.parse(line) as { readonly key: string }).key
        )
      assert.deepStrictEqual(received().toSorted(), sent, "each operation once, by the worker alone")
      const before = yield* Effect.provide(snapshot, services)
      const states = new Set(before.operations.map((row) => row["state"]))
      assert.strictEqual(states.size, 7, "an operation in every state")

      // A busy machine refuses some calls for now.
      const agent = new http.Agent({ keepAlive: true, maxSockets: 16 })
      yield* Effect.addFinalizer(() => Effect.sync(() => agent.destroy()))
      const insist = async (request: Posted) => {
        for (;;) {
          const answer = await open(port, request, agent).complete
          if (answer.status !== 503) return answer
        }
      }
      const ask = ({ method, params, version }: Call) => {
        const message = requestOf(version, 1, method, { ...params, _meta: tasksDeclared })
        const headers = { ...headersOf(message), authorization: `Bearer ${token}` }
        return insist({ body: JSON.stringify(message), headers })
      }
      yield* Effect.promise(() =>
        Promise.all(
          everyCall(owned).map(async (call) => {
            const { status, text } = await ask(call)
            const isResult = status === 200 && !/"error":\{|"isError":true/.test(text)
            assert.isTrue(isResult, `${JSON.stringify(call)}: ${status} ${text}`)
          })
        )
      )
      const finalIds = before.operations.flatMap(({ completed_at, id }) => completed_at === null ? [] : [String(id)])
      const requests = mcpRequests({ token, ids: [...owned, foreign], finalIds })
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(fc.array(requests, { minLength: 1, maxLength: 24 }), async (some) => {
            for (const { status, text } of await Promise.all(some.map(insist))) {
              assert.isBelow(status, 500, text)
              assert.notInclude(text, "\"code\":-32603", "no internal error")
            }
          }),
          { numRuns: rounds(40, 1000) }
        )
      )

      assert.deepStrictEqual(received().toSorted(), sent)
      assert.deepStrictEqual(yield* Effect.provide(snapshot, services), before)
      const users = yield* Effect.provide(
        SqlClient.SqlClient.use((sql) =>
          sql<{ readonly usename: string }>`
            SELECT DISTINCT usename FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename LIKE ${`${database}%`}`
        ),
        services
      )
      assert.sameMembers(users.map(({ usename }) => usename), [nameOf("reader"), nameOf("writer")])
      const writable = yield* Effect.provide(
        SqlClient.SqlClient.use((sql) =>
          sql`
            SELECT table_name, privilege_type FROM information_schema.column_privileges
            WHERE grantee = ${nameOf("reader")} AND privilege_type <> 'SELECT'
            UNION SELECT table_name, privilege_type FROM information_schema.table_privileges
            WHERE grantee = ${nameOf("reader")} AND privilege_type <> 'SELECT'`
        ),
        services
      )
      assert.deepStrictEqual(writable, [])
      assert.strictEqual(yield* gateway.stop("SIGTERM"), 0)
      assert.strictEqual(yield* worker.stop("SIGTERM"), 0)
    }).pipe(Effect.provide(Platform), Effect.scoped))
})
