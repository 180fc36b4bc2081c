/**
 * `mcp` as hosts use it: a process that speaks MCP over its standard streams, and reads a served gateway on PostgreSQL. The clients
 * are the official SDKs of both protocol versions.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Client as ModernClient } from "@modelcontextprotocol/client"
import { StdioClientTransport as ModernTransport } from "@modelcontextprotocol/client/stdio"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js"
import { ConfigProvider, Context, Effect, Layer, Redacted } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { inject } from "vitest"
import { gatewayAccess } from "../../../src/cli/McpCommand.ts"
import { manifest } from "../../../src/node/process/Invocation.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { accept, drive, issue, newKey, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, runProcess, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"

/** A served gateway, and the services of its ledger. */
const served = Effect.gen(function*() {
  const database = yield* createDatabase()
  const port = yield* freePort
  const services = yield* Layer.build(
    PostgresServices.pipe(Layer.provideMerge(Layer.merge(layerFor(database), Platform)))
  )
  yield* serve([], { DATABASE_URL: urlOf(database), PORT: String(port) })
  return { url: `http://127.0.0.1:${port}`, services }
})

class Served extends Context.Service<Served, Effect.Success<typeof served>>()("test/Served") {
  static readonly layer = Layer.effect(Served, served)
}

type Env = Readonly<Record<string, string>>

const environment = (env: Env) => ({ PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", ...env })

/** Starts the command. The scope ends it. */
const startCommand = (env: Env) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [inject("command"), "mcp"], { env: environment(env) })
      const output = { stdout: "", stderr: "" }
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => output.stdout += chunk)
      child.stderr.setEncoding("utf8").on("data", (chunk: string) => output.stderr += chunk)
      child.stdin.on("error", () => {})
      const closed = once(child, "close") as Promise<[number | null]>
      const until = async (condition: () => boolean) => {
        while (!condition() && child.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 10))
        assert.isTrue(condition(), `${output.stdout}\n${output.stderr}`)
      }
      return { child, output, closed, until }
    }),
    ({ child, closed }) =>
      Effect.promise(async () => {
        child.kill("SIGKILL")
        await closed
      })
  )

const line = (message: object) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`

const initialize = line({
  id: "init",
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } }
})

const messagesIn = (stdout: string) =>
  stdout.split("\n").filter((text) => text !== "").map((text) => JSON.parse(text) as Readonly<Record<string, unknown>>)

interface Answer {
  readonly advice: string
  readonly operation: { readonly id: string; readonly state: string } | null
  readonly operations: ReadonlyArray<{ readonly id: string }>
  readonly next_change_token: string
  readonly limits: ReadonlyArray<object>
}

/** The official client of version 2025-11-25. */
const legacyClient = (env: Env) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [inject("command"), "mcp"],
        env: environment(env),
        stderr: "pipe"
      })
      const output = { stderr: "" }
      transport.stderr!.on("data", (chunk: Buffer) => output.stderr += chunk.toString())
      const client = new Client({ name: "test", version: "1" })
      await client.connect(transport)
      const call = async (name: string, args: object = {}) => {
        // The cast: the other form of the result is of an older version.
        const result = await client.callTool({ name, arguments: args as Record<string, unknown> }) as CallToolResult
        return { ...result, answer: result.structuredContent as unknown as Answer }
      }
      return { client, call, output, transport }
    }),
    ({ client }) => Effect.promise(() => client.close())
  )

describe.concurrent("mcp", () => {
  layer(Served.layer, { excludeTestServices: true })((it) => {
    it.effect("serves the official client: each tool, an operation while it settles, and the end of access", () =>
      Effect.scoped(Effect.gen(function*() {
        const { services, url } = yield* Served
        yield* Effect.gen(function*() {
          const budget = { currency: "EUR", amount: "100.00", per: "grant" } as const
          const { access_token, grant, identity } = yield* issue({
            authorization_details: [{ type: "financial_operations", budgets: [budget] }]
          })
          const token = Redacted.value(access_token)
          const key = newKey()
          const { operation } = yield* accept(identity, {
            key,
            terms: { amount: "10.00", currency: "EUR", payee: "A" }
          })
          const env = { GATEWAY_URL: url, GATEWAY_TOKEN: token, LOG_LEVEL: "Trace" }
          const { call, client, output, transport } = yield* legacyClient(env)
          const { tools } = yield* Effect.promise(() => client.listTools())
          assert.includeMembers(tools.map(({ name }) => name), [
            "list_operations",
            "get_operation",
            "find_operation_by_key",
            "wait_for_operation",
            "changes_since",
            "get_limits"
          ])
          const { id } = operation
          const list = yield* Effect.promise(() => call("list_operations"))
          assert.deepStrictEqual(list.answer.operations.map((one) => one.id), [id])
          assert.deepInclude((yield* Effect.promise(() => call("get_operation", { id }))).answer.operation, { id })
          const found = yield* Effect.promise(() => call("find_operation_by_key", { idempotency_key: key }))
          assert.deepInclude(found.answer.operation, { id })
          const limits = yield* Effect.promise(() => call("get_limits"))
          assert.deepInclude(limits.answer, { limits: [{ limit: budget, remaining: "90.00", resets_at: null }] })
          const changes = yield* Effect.promise(() => call("changes_since"))
          assert.deepStrictEqual(changes.answer.operations.map((one) => one.id), [id])

          const waiting = call("wait_for_operation", { id, seconds: 55 })
          const submitting = yield* drive(operation, ["submitting"])
          assert.deepInclude((yield* Effect.promise(() => call("get_operation", { id }))).answer.operation, {
            state: "submitting"
          })
          yield* drive(submitting, ["submitted", "succeeded"])
          assert.deepInclude((yield* Effect.promise(() => waiting)).answer.operation, { id, state: "succeeded" })
          const { contents } = yield* Effect.promise(() => client.readResource({ uri: `operation://${id}` }))
          assert.include(JSON.stringify(contents), "succeeded")
          const after = changes.answer.next_change_token
          const later = yield* Effect.promise(() => call("changes_since", { after }))
          assert.deepStrictEqual(later.answer.operations.map((one) => one.id), [id])

          const grants = yield* Grants
          yield* grants.revoke(grant.grant_id)
          const refused = yield* Effect.promise(() => call("get_operation", { id }))
          assert.isTrue(refused.isError)
          assert.include(JSON.stringify(refused.content), "grant_revoked")
          const said = JSON.stringify([tools, list, refused, contents])
          assert.notInclude(said + output.stderr, token)
          const commandLine = fs.existsSync("/proc/self/cmdline")
            ? fs.readFileSync(`/proc/${transport.pid}/cmdline`, "utf8")
            : "mcp"
          assert.include(commandLine, "mcp")
          assert.notInclude(commandLine, token)
        }).pipe(Effect.provide(services))
      })))

    it.effect("serves the official client of version 2026-07-28, which waits until an operation is final", () =>
      Effect.scoped(Effect.gen(function*() {
        const { services, url } = yield* Served
        yield* Effect.gen(function*() {
          const { access_token, identity } = yield* issue()
          const { operation } = yield* accept(identity)
          const transport = new ModernTransport({
            command: process.execPath,
            args: [inject("command"), "mcp"],
            env: environment({ GATEWAY_URL: url, GATEWAY_TOKEN: Redacted.value(access_token) }),
            stderr: "ignore"
          })
          const client = new ModernClient(
            { name: "test", version: "1" },
            { versionNegotiation: { mode: { pin: "2026-07-28" } } }
          )
          yield* Effect.acquireRelease(
            Effect.promise(() => client.connect(transport)),
            () => Effect.promise(() => client.close())
          )
          const waiting = client.callTool({ name: "wait_for_operation", arguments: { id: operation.id, seconds: 55 } })
          yield* drive(operation, ["submitting", "submitted", "succeeded"])
          const result = yield* Effect.promise(() => waiting)
          assert.include(JSON.stringify(result.structuredContent), "succeeded")
        }).pipe(Effect.provide(services))
      })))

    it.effect("answers other requests during a wait, and cancels it", () =>
      Effect.scoped(Effect.gen(function*() {
        const { services, url } = yield* Served
        yield* Effect.gen(function*() {
          const { access_token, identity } = yield* issue()
          const { operation } = yield* accept(identity)
          const { operation: other } = yield* accept(identity)
          const { child, closed, output, until } = yield* startCommand({
            GATEWAY_URL: url,
            GATEWAY_TOKEN: Redacted.value(access_token)
          })
          const isAnswered = (id: number) => () => output.stdout.includes(`"id":${id},`)
          const wait = (id: number, { id: operationId }: { readonly id: string }) =>
            line({ id, method: "tools/call", params: { name: "wait_for_operation", arguments: { id: operationId } } })
          const waits = wait(1, operation) + wait(2, operation) + wait(3, other)
          child.stdin.write(initialize + waits + line({ id: 4, method: "ping" }))
          yield* Effect.promise(() => until(isAnswered(4)))
          child.stdin.write(line({ method: "notifications/cancelled", params: { requestId: 1 } }))
          child.stdin.write(line({ id: 5, method: "ping" }))
          yield* Effect.promise(() => until(isAnswered(5)))
          yield* drive(operation, ["submitting", "submitted", "succeeded"])
          yield* Effect.promise(() => until(isAnswered(2)))
          // What still runs at the end gets no answer.
          child.stdin.end()
          assert.deepStrictEqual(yield* Effect.promise(() => closed), [0, null])
          const messages = messagesIn(output.stdout)
          assert.deepStrictEqual(messages.map(({ id }) => id), ["init", 4, 5, 2])
          const { version } = manifest
          assert.deepInclude(messages[0]!["result"], { serverInfo: { name: "financial-agents-gateway", version } })
          assert.strictEqual(output.stderr, "")
        }).pipe(Effect.provide(services))
      })))

    it.effect("warns at the start if the gateway refuses the token", () =>
      Effect.scoped(Effect.gen(function*() {
        const { url } = yield* Served
        const { child, closed, output, until } = yield* startCommand({
          GATEWAY_URL: url,
          GATEWAY_TOKEN: "another-token"
        })
        yield* Effect.promise(() => until(() => output.stderr.includes("invalid_token")))
        child.kill("SIGINT")
        assert.deepStrictEqual(yield* Effect.promise(() => closed), [0, null])
        assert.notInclude(output.stderr, "another-token")
        assert.strictEqual(output.stdout, "")
      })))
  })

  it.live("answers malformed, long and invalid lines with errors, and goes on", () =>
    Effect.scoped(Effect.gen(function*() {
      const lines = [
        "{ \"jsonrpc\": \"2.0\", \"id\": 1,\n",
        `${" ".repeat(1024 * 1024 + 1)}{}\n`,
        "[]\n",
        "\n",
        line({ id: null, method: "ping" }),
        line({ id: 1, method: "ping" })
      ]
      const { code, stdout } = yield* runProcess(
        ["mcp"],
        { GATEWAY_TOKEN: "t", GATEWAY_URL: "http://127.0.0.1:1" },
        lines.join("")
      )
      assert.strictEqual(code, 0)
      const errors = messagesIn(stdout).map(({ error, id }) => [id, (error as { code: number } | undefined)?.code])
      assert.sameDeepMembers(errors, [[null, -32700], [null, -32600], [null, -32600], [null, -32600], [1, undefined]])
    })))

  it.live("serves although the gateway is away, says so at the start, and never shows the token", () =>
    Effect.scoped(Effect.gen(function*() {
      const token = "a-secret-token"
      const env = { GATEWAY_TOKEN: token, GATEWAY_URL: `http://127.0.0.1:${yield* freePort}`, LOG_LEVEL: "Trace" }
      const { child, closed, output, until } = yield* startCommand(env)
      child.stdin.write(
        initialize + line({ id: 1, method: "tools/call", params: { name: "list_operations", arguments: {} } })
      )
      yield* Effect.promise(() => until(() => output.stdout.includes("\"id\":1,")))
      assert.include(output.stdout, "gateway_unreachable")
      assert.match(output.stderr, /"No answer of the gateway".*ECONNREFUSED/)
      child.kill("SIGTERM")
      assert.deepStrictEqual(yield* Effect.promise(() => closed), [0, null])
      assert.notInclude(output.stdout + output.stderr, token)
    })))

  it.live("ends when the client closes standard output, without a stack trace", () =>
    Effect.scoped(Effect.gen(function*() {
      const { child, closed, output } = yield* startCommand({ GATEWAY_TOKEN: "t", GATEWAY_URL: "http://127.0.0.1:1" })
      child.stdout.destroy()
      child.stdin.write(line({ id: 1, method: "ping" }))
      assert.deepStrictEqual(yield* Effect.promise(() => closed), [0, null])
      assert.notInclude(output.stderr, "    at ")
    })))

  it.live("names a missing token and an invalid URL in one line, without their values", () =>
    Effect.gen(function*() {
      const token = "a-secret-token"
      for (
        const [env, expected] of [
          [{}, /^GATEWAY_TOKEN is missing[^\n]+$/],
          [{ GATEWAY_TOKEN: "" }, /^GATEWAY_TOKEN is missing[^\n]+$/],
          [{ GATEWAY_TOKEN: `${token} ${token}` }, /^GATEWAY_TOKEN is no access token[^\n]+$/],
          [{ GATEWAY_TOKEN: "${GATEWAY_TOKEN}" }, /^GATEWAY_TOKEN names a variable[^\n]+$/],
          [
            { GATEWAY_TOKEN: token, GATEWAY_URL: "http://127.0.0.1:3000/mcp" },
            /^GATEWAY_URL must be the base URL[^\n]+$/
          ],
          [{ GATEWAY_TOKEN: token, GATEWAY_URL: "localhost:3000" }, /^GATEWAY_URL must be a URL[^\n]+$/],
          [
            { GATEWAY_TOKEN: token, GATEWAY_URL: `https://user:${token}@g.example` },
            /^GATEWAY_URL must be a URL[^\n]+$/
          ],
          [
            { GATEWAY_TOKEN: token, GATEWAY_URL: "http://gateway.example" },
            /^GATEWAY_URL must be https[^\n]+$/
          ],
          [
            { GATEWAY_TOKEN: token, GATEWAY_URL: "http://127.0.0.1.nip.example" },
            /^GATEWAY_URL must be https[^\n]+$/
          ]
        ] as const
      ) {
        const provider = ConfigProvider.fromUnknown(env)
        const { message } = yield* Effect.flip(gatewayAccess).pipe(
          Effect.provideService(ConfigProvider.ConfigProvider, provider)
        )
        assert.match(message, expected)
        assert.notInclude(message, token)
      }
      const missing = yield* runProcess(["mcp"], {})
      assert.deepStrictEqual([missing.code, missing.stdout], [1, ""])
      assert.match(missing.stderr, /^error: GATEWAY_TOKEN is missing[^\n]+\n$/)
      const { code, stderr } = yield* runProcess(["mcp", "--token", token], {})
      assert.strictEqual(code, 1)
      assert.match(stderr, /^error: [^\n]*--token[^\n]*\n$/)
    }))
})
