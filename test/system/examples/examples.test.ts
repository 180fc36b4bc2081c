/**
 * The example programs `application`, `client` and `fetch` work together. The tests run them in process and read their output.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Console, Deferred, Effect, Layer, Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpServer } from "effect/http"
import { createServer } from "node:http"
import { Application } from "../../../examples/application.ts"
import * as Banks from "../../../examples/banks.ts"
import { ClientFromEnvironment, program } from "../../../examples/client.ts"
import { copyOperations, type TokenStore } from "../../../examples/fetch.ts"
import { GatewayClient } from "../../../src/api/Client.ts"
import { createClient } from "../../../src/client/FetchClient.ts"
import { runOf } from "../../fixtures/processes/CommandLine.ts"

const Running = Application.pipe(
  Layer.provideMerge(HttpServer.layerTestClient.pipe(Layer.provide(FetchHttpClient.layer))),
  Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" }))
)

const clientWith = (session: string) =>
  Layer.unwrap(Effect.map(HttpServer.HttpServer, (server) =>
    GatewayClient.layer({
      baseUrl: HttpServer.formatAddress(server.address),
      accessToken: Redacted.make(session)
    }))).pipe(Layer.provide(FetchHttpClient.layer))

/** Collects the output of a program, and waits for a line that matches. */
const recorded = (until: RegExp) =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const seen = yield* Deferred.make<void>()
    const keep = (...args: ReadonlyArray<unknown>) => {
      lines.push(args.join(" "))
      if (until.test(lines.at(-1)!)) Deferred.doneUnsafe(seen, Effect.void)
    }
    const console_ = Object.assign(Object.create(globalThis.console), { log: keep, error: keep }) as Console.Console
    return { lines, console_, seen: Deferred.await(seen) }
  })

describe("The examples", () => {
  it.live("application: its endpoint and the gateway's share one server, behind the application's verifier", () =>
    Effect.gen(function*() {
      const hello = yield* HttpClient.get("/hello")
      assert.strictEqual(hello.status, 200)
      const document = yield* Effect.flatMap(HttpClient.get("/openapi.json"), ({ text }) => text)
      for (const path of ["/hello", "/v1/operations"]) assert.include(document, JSON.stringify(path))
      const anonymous = yield* HttpClient.get("/v1/operations")
      assert.strictEqual(anonymous.status, 401)
      assert.match(anonymous.headers["x-request-id"] ?? "", /^[0-9a-f-]{36}$/)
      const alice = yield* HttpClient.get("/v1/operations", { headers: { authorization: "Bearer alice-session" } })
      assert.strictEqual(alice.status, 200)
      const { operations } = (yield* alice.json) as { readonly operations: ReadonlyArray<{ readonly type: string }> }
      assert.deepStrictEqual(operations.map(({ type }) => type), ["payment"])
    }).pipe(Effect.provide(Running)))

  it.live("banks: pays once through each bank, although the bank loses its answer", () =>
    Effect.gen(function*() {
      const { console_, lines } = yield* recorded(/^$/)
      yield* Effect.provideService(Banks.program, Console.Console, console_)
      const table = lines.filter((line) => line.includes("requests"))
      assert.deepStrictEqual(
        table.map((line) => [line.split(" ")[0], /requests 1 .*indeterminate.* succeeded$/u.test(line)]),
        [["alpaca", true], ["increase", true], ["open-banking-uk", true]]
      )
      // A bank of Open Banking UK settles a lost answer only for a person.
      assert.deepStrictEqual(table.map((line) => line.includes("under review")), [false, false, true])
    }), 120_000)

  it.live("client: lists operations, and then follows those that are not settled", () =>
    Effect.gen(function*() {
      const { console_, lines, seen } = yield* recorded(/^Following/)
      const fiber = yield* Effect.forkChild(
        program.pipe(Effect.provide(clientWith("alice-session")), Effect.provideService(Console.Console, console_))
      )
      yield* seen
      assert.match(lines[0]!, /payment\s+accepted \(revision 1\)/)
      assert.strictEqual(lines[1], "Following 1 operations that are not settled")
      assert.isUndefined(fiber.pollUnsafe())
    }).pipe(Effect.provide(Running)))

  it.live("client: stops at a problem and prints its code", () =>
    Effect.gen(function*() {
      const { console_, lines } = yield* recorded(/invalid_token/)
      yield* program.pipe(Effect.provide(clientWith("nobody")), Effect.provideService(Console.Console, console_))
      assert.match(lines.join("\n"), /^Invalid token: .*\(invalid_token, request [0-9a-f-]{36}\)$/)
    }).pipe(Effect.provide(Running)))

  it.live("client and fetch: name the setting of an address that is none", () =>
    Effect.gen(function*() {
      for (const GATEWAY_URL of ["127.0.0.1:3000", "ftp://gateway.example", "http://"]) {
        const env = { GATEWAY_URL, ACCESS_TOKEN: "fingw_x" }
        const failure = yield* Effect.flip(Effect.scoped(Layer.build(ClientFromEnvironment))).pipe(
          Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
        )
        assert.match(String(failure), /a URL such as https:\/\/gateway\.example.*GATEWAY_URL/s)
        const { code, stderr } = yield* runOf("examples/fetch.ts", [], {
          ...env,
          NODE_OPTIONS: "--conditions=gateway-source"
        })
        assert.strictEqual(code, 1)
        assert.include(stderr, "GATEWAY_URL must be a URL such as https://gateway.example")
      }
    }))

  it.live("fetch: prints the changes, keeps its place in the feed, and stops at a problem with its code", () =>
    Effect.gen(function*() {
      const { address } = yield* HttpServer.HttpServer
      const kept: Array<string | null> = [null]
      const tokens: TokenStore = { read: () => kept.at(-1)!, write: (token) => kept.push(token) }
      const runUntil = (accessToken: string, isLast: (line: string) => boolean) =>
        Effect.promise(async () => {
          const lines: Array<string> = []
          const enough = new AbortController()
          const print = (line: string) => {
            lines.push(line)
            if (isLast(line)) enough.abort()
          }
          const client = createClient({ baseUrl: HttpServer.formatAddress(address), accessToken })
          await copyOperations(client, tokens, print, enough.signal).catch((error: unknown) => {
            if (error !== enough.signal.reason) throw error
          })
          return lines
        })
      const first = yield* runUntil("alice-session", (line) => line === "Up to date")
      assert.match(first[0]!, /payment\s+accepted \(revision 1\)/)
      const refused = yield* runUntil("nobody", () => false)
      assert.match(refused.join("\n"), /^Invalid token: .*\(invalid_token, request [0-9a-f-]{36}\)$/)
      assert.deepStrictEqual(kept.map((token) => typeof token), ["object", "string"])
    }).pipe(Effect.provide(Running)))
})
