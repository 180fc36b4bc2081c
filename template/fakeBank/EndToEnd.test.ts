/**
 * A transfer passes through the whole application and is booked once, also if the bank's answer is lost, or an agent asks for it. The tests run the
 * application with an embedded PostgreSQL and a fake bank.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { GatewayClient, makeClient, submit } from "financial-agents-gateway/api/Client"
import type { OperationId } from "financial-agents-gateway/domain/Operation"
import * as GatewayApp from "financial-agents-gateway/node/GatewayApp"
import { Database } from "financial-agents-gateway/node/Pools"
import { McpRoutes } from "financial-agents-gateway/server/McpRoutes"
import type { IssuedGrant } from "financial-agents-gateway/services/Grants"
import { Providers } from "financial-agents-gateway/submission/Providers"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { TransfersApi } from "../src/Api.ts"
import * as Bank from "../src/Bank.ts"
import { issueGrant } from "../src/Invitation.ts"
import { TransfersRoutes } from "../src/Routes.ts"
import { TransferTools } from "../src/Tools.ts"
import { exampleTransfer } from "../src/Transfer.ts"
import { bookings, startFakeBank } from "./FakeBank.ts"

const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "transfers-"))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
)

/** A free port below those that the system gives to outgoing connections, so that none of them takes it meanwhile. */
const freePort = Effect.promise(async () => {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000)
    const server = createServer().listen(port, "127.0.0.1")
    const isFree = await once(server, "listening").then(() => true, () => false)
    server.close()
    if (isFree) return port
  }
})

/** The application with a fake bank, and a client with a token of Alice. */
const scene = Effect.gen(function*() {
  const bank = yield* startFakeBank({ port: 0, apiKey: "key" })
  const port = yield* freePort
  const baseUrl = `http://127.0.0.1:${port}`
  const issued = yield* Deferred.make<IssuedGrant>()
  const application = GatewayApp.layer({
    api: TransfersApi,
    routes: TransfersRoutes,
    agents: McpRoutes(TransferTools),
    providers: Providers.layer({ [Bank.bankName]: Bank.layer(bank.url, Redacted.make("key")) }),
    database: Database.layer({ databaseUrl: Option.none(), dataDir: yield* temporaryDirectory }),
    started: Layer.effectDiscard(Effect.flatMap(Effect.orDie(issueGrant), (grant) => Deferred.succeed(issued, grant))),
    port,
    // Vitest sets the variable BASE_URL to something else.
    baseUrl
  })
  yield* Layer.build(application)
  const { access_token } = yield* Deferred.await(issued)
  return { bank, options: { baseUrl, accessToken: access_token } }
})

const args = { ...exampleTransfer, idempotency_key: "rent-of-june" }

/** What the tool answers: a question to the person, or the operation. */
interface ToolResult {
  readonly resultType?: string
  readonly requestState?: string
  readonly inputRequests?: Readonly<Record<string, unknown>>
  readonly structuredContent?: { readonly operation: { readonly id: OperationId } }
}

/** Calls the tool `transfer` as an agent does. `continuation` has the answer of the person. */
const callTransfer = (baseUrl: string, token: string, continuation: object = {}) =>
  Effect.promise(async () => {
    const version = "2026-07-28"
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": version,
      "io.modelcontextprotocol/clientInfo": { name: "test-agent", version: "1.0.0" },
      "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } }
    }
    const params = { name: "transfer", arguments: args, ...continuation, _meta }
    const response = await fetch(`${baseUrl}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "transfer"
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })
    })
    return ((await response.json()) as { readonly result: ToolResult }).result
  })

describe("The application", () => {
  it.live("settles a transfer whose answer was lost, and books it once", () =>
    Effect.gen(function*() {
      const { bank, options } = yield* scene
      const client = yield* makeClient(TransfersApi, options)
      const gateway = yield* Effect.provide(GatewayClient, GatewayClient.layer(options))
      yield* bank.setFaults({ drop_response: { rate: 1, on: "submission" } })
      const { body } = yield* submit(client.transfers.transfer({
        headers: { "idempotency-key": "rent-of-may" },
        payload: exampleTransfer
      }))
      assert.strictEqual((yield* gateway.settled(body.id)).state, "succeeded")
      assert.strictEqual(yield* bookings(bank), 1)
    }).pipe(Effect.provide([FetchHttpClient.layer, Logger.layer([])])))

  it.live("makes the transfer of an agent once a person confirms it, and not before", () =>
    Effect.gen(function*() {
      const { bank, options: { accessToken, baseUrl } } = yield* scene
      const token = Redacted.value(accessToken)
      const gateway = yield* Effect.provide(GatewayClient, GatewayClient.layer({ baseUrl, accessToken }))
      const { inputRequests, requestState, resultType } = yield* callTransfer(baseUrl, token)
      assert.strictEqual(resultType, "input_required")
      assert.include(JSON.stringify(inputRequests), args.iban)
      assert.strictEqual(yield* bookings(bank), 0)
      const confirmed = { action: "accept", content: { confirm: true } }
      const inputResponses = Object.fromEntries(Object.keys(inputRequests ?? {}).map((name) => [name, confirmed]))
      const { structuredContent } = yield* callTransfer(baseUrl, token, { requestState, inputResponses })
      assert(structuredContent !== undefined)
      assert.strictEqual((yield* gateway.settled(structuredContent.operation.id)).state, "succeeded")
      assert.strictEqual(yield* bookings(bank), 1)
    }).pipe(Effect.provide([FetchHttpClient.layer, Logger.layer([])])))
})
