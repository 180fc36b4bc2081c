/**
 * The HTTP adapter fails safely when credentials, builders or middleware fail, and its spans, logs and errors hold no credentials and no
 * payloads. The tests check the outcome, and search everything that it emits.
 */
import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted, Tracer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import type * as net from "node:net"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import type { HttpProviderOptions } from "../../../../src/submission/http/HttpProviderOptions.ts"
import { encodeWithoutBody } from "../../../../src/submission/http/HttpRequest.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import {
  answering,
  clients,
  operationOf,
  optionsFor,
  rawServer,
  readFrom,
  response,
  submitTo,
  succeeded
} from "../../../fixtures/submission/HttpProviderServer.ts"

describe("Before anything is sent", () => {
  const never = optionsFor("http://127.0.0.1:1")
  const cases: ReadonlyArray<readonly [string, Partial<HttpProviderOptions>]> = [
    ["credentials that are interrupted", { credentials: () => Effect.interrupt }],
    ["credentials that throw", {
      credentials: () => {
        throw new Error("secret")
      }
    }],
    ["credentials that break the header", {
      credentials: () => Effect.succeed({ Authorization: Redacted.make("Bearer secret\r\nX-Injected: 1") })
    }],
    ...[
      "mutations",
      "",
      "//\\x",
      "/a b",
      "/a#b",
      "/mutations/.\u0000",
      "/mutations/..",
      "/mutations/%2e%2e/admin",
      "/./x",
      // What an adapter inserts stands for itself, also where it is encoded.
      "/mutations/.",
      "/mutations/.?all=1",
      "/mutations/%2E",
      "/mutations/./cancel",
      "/mutations/x%2F..%2fadmin",
      "/mutations/..%5Cadmin"
    ].map((path) =>
      [`the path ${JSON.stringify(path)}`, {
        submit: { ...never.submit, request: () => ({ path, body: {} }) },
        status: { ...never.status, isUnfiltered: true, request: () => ({ path }) }
      }] as const
    ),
    ...["Content-Length", "transfer-encoding", "Expect", "Upgrade", "Connection", "Host", "a b", ""].map((name) =>
      [`the header ${JSON.stringify(name)}`, {
        submit: { ...never.submit, request: () => ({ path: "/", headers: { [name]: "1" }, body: {} }) }
      }] as const
    )
  ]
  for (const [what, overrides] of cases) {
    it.live(`${what}: nothing was sent, and the error reveals no detail`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(response(200, succeeded)))
        const { _tag, reason } = yield* submitTo({ ...optionsFor(server.url), ...overrides })
        assert.strictEqual(_tag, "NotSent", reason)
        assert.notInclude(reason, "secret")
        if (overrides.credentials !== undefined || overrides.status !== undefined) {
          const status = yield* readFrom({ ...optionsFor(server.url), ...overrides })
          assert.deepInclude(status, { _tag: "NotProven", reason: "unclear" })
        }
        assert.strictEqual(server.connections(), 0)
      }).pipe(Effect.provide(ProviderHttpClient.layer())))
  }

  it("a path with dots in other places is sent as it is", () => {
    for (const path of ["/a.b", "/a..", "/..a", "/.../a", "/a%2Fb", "/a?after=..%2F.", "/v2/orders:by?id=."]) {
      const { url } = Effect.runSync(encodeWithoutBody("https://bank.example/v1", { path }, {}))
      assert.strictEqual(url, `https://bank.example/v1${path}`)
    }
  })

  for (
    const baseUrl of ["nowhere", "ftp://bank.example", "https://user:pw@bank.example", "https://bank.example/?q=1"]
  ) {
    it.effect(`the base URL ${baseUrl} is refused at construction`, () =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(HttpProvider.make(optionsFor(baseUrl)))
        assert.isTrue(Exit.hasDies(exit))
      }).pipe(Effect.provide(NodeHttpClient.layerFetch)))
  }
})

describe("Middleware that repeats", () => {
  for (const [name, client] of clients) {
    const dropsFirst = {
      onRequest: (socket: net.Socket, _: unknown, index: number) => {
        if (index === 1) socket.resetAndDestroy()
        else socket.write(response(200, succeeded))
      }
    }
    const withMiddleware = (middleware: (client: HttpClient.HttpClient) => HttpClient.HttpClient) =>
      Layer.effect(HttpClient.HttpClient, Effect.map(HttpClient.HttpClient, middleware)).pipe(Layer.provide(client()))

    it.live(`a submission over ${name} fails before its second attempt, and the outcome is uncertain`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(dropsFirst)
        const { _tag, reason } = yield* submitTo(optionsFor(server.url))
        assert.strictEqual(_tag, "Uncertain", reason)
        assert.lengthOf(server.requests, 1)
      }).pipe(Effect.provide(withMiddleware(HttpClient.retryTransient({ times: 3 })))))

    it.live(`a submission over ${name} that was received and is then refused a connection is uncertain`, () =>
      Effect.gen(function*() {
        let close = () => {}
        const server = yield* rawServer({ onRequest: () => close() })
        close = server.close
        const { _tag, reason } = yield* submitTo(optionsFor(server.url))
        assert.lengthOf(server.requests, 1)
        assert.strictEqual(_tag, "Uncertain", reason)
      }).pipe(
        Effect.provide(withMiddleware(HttpClient.retry({ times: 1 }))),
        Effect.provideService(Tracer.DisablePropagation, true)
      ))

    for (const status of [301, 303, 307, 308]) {
      it.live(`a redirect by ${status} that middleware over ${name} follows is uncertain`, () =>
        Effect.gen(function*() {
          const elsewhere = yield* rawServer(answering(response(200, succeeded)))
          const server = yield* rawServer(answering(response(status, "{}", { Location: elsewhere.url })))
          const { _tag, reason } = yield* submitTo(optionsFor(server.url))
          assert.strictEqual(_tag, "Uncertain", reason)
          assert.deepStrictEqual(elsewhere.requests.filter(({ head }) => !head.startsWith("GET")), [])
        }).pipe(Effect.provide(withMiddleware(HttpClient.followRedirects(3)))))
    }
  }

  it.live("an unknown failure is uncertain, and its message is not revealed", () =>
    Effect.gen(function*() {
      const { _tag, reason } = yield* submitTo(optionsFor("http://127.0.0.1:1"))
      assert.deepStrictEqual([_tag, reason], ["Uncertain", "the request failed (TransportError)"])
    }).pipe(
      Effect.provide(NodeHttpClient.layerFetch),
      Effect.provideService(FetchHttpClient.Fetch, () => Promise.reject(new Error("secret http://user:pw@bank")))
    ))

  it.live("a client that throws is uncertain", () =>
    Effect.gen(function*() {
      const { _tag } = yield* submitTo(optionsFor("http://127.0.0.1:1"))
      assert.strictEqual(_tag, "Uncertain")
    }).pipe(
      Effect.provideService(
        HttpClient.HttpClient,
        HttpClient.make(() => {
          throw new Error("secret")
        })
      )
    ))

  it.live("a client that is interrupted from within is uncertain", () =>
    Effect.gen(function*() {
      const { _tag } = yield* submitTo(optionsFor("http://127.0.0.1:1"))
      assert.strictEqual(_tag, "Uncertain")
    }).pipe(Effect.provideService(HttpClient.HttpClient, HttpClient.make(() => Effect.interrupt))))
})

const inspect = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    one instanceof Error ?
      { ...one, name: one.name, message: one.message, stack: one.stack, cause: one.cause } :
      typeof one === "bigint"
      ? String(one)
      : one)

describe("Credentials and payloads", () => {
  const canaries = ["canary-token", "canary-payload", "canary-query", "canary-answer", "canary-defect"]
  for (const [name, client] of clients) {
    it.live(`appear in no span, log or error over ${name}`, () =>
      Effect.gen(function*() {
        const observer = yield* Observer
        const errors: Array<unknown> = []
        const silent = {}
        const behaviours = [
          answering(response(200, `{"canary-answer":1}`)),
          answering(response(500, `"canary-answer"`, { "X-Canary": "canary-answer" })),
          answering(response(302, "", { Location: "http://x/?canary-answer" })),
          answering("canary-answer"),
          answering(response(200, "canary-answer")),
          { onRequest: (socket: net.Socket) => socket.resetAndDestroy() },
          silent
        ]
        for (const behaviour of behaviours) {
          const server = yield* rawServer(behaviour)
          const base = optionsFor(server.url)
          const options = optionsFor(server.url, {
            // Only the provider that is silent needs a short one. The request must leave, also on a busy machine.
            deadlines: { headers: behaviour === silent ? 300 : 10_000 },
            credentials: () => Effect.succeed({ "X-Token": Redacted.make("canary-token") }),
            submit: { ...base.submit, request: (_, payload) => ({ path: "/m?q=canary-query", body: payload }) },
            status: { ...base.status, isUnfiltered: true, request: () => ({ path: "/m?q=canary-query" }) }
          })
          const { readStatus, submit } = yield* HttpProvider.make(options)
          const exit = yield* Effect.exit(submit(operationOf(), { secret: "canary-payload" }))
          errors.push(exit, yield* readStatus(operationOf(), null))
          if (Exit.isFailure(exit)) yield* Effect.logError("failed", exit.cause)
          assert.isAbove(server.bytes(), 0)
        }
        const spans = observer.spans.map(({ attributes, events, name, status }) => ({
          name,
          attributes: [...attributes],
          events,
          exit: status._tag === "Ended" ? status.exit : null
        }))
        assert.include(spans.map(({ name }) => name), "HttpProvider.submit")
        assert.isAbove(observer.lines.length, 0)
        const told = [spans, errors, observer.lines].map((one) => inspect(one)).join("\n")
        for (const canary of canaries) assert.notInclude(told, canary)
      }).pipe(
        Effect.provide(Layer.mergeAll(client(), Observer.observeLogs, Observer.observeSpans)),
        Effect.provide(Observer.layer)
      ))
  }
})
