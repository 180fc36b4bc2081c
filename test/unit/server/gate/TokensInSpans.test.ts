/**
 * No trace span shows a token that a client puts into a path or query, or an argument of a tool, and no client chooses the trace. The tests
 * send such requests over a socket to a gateway whose tracer records everything that an exporter would send.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Option, Schema, type Tracer } from "effect"
import { McpServer, Tool, Toolkit } from "effect/ai"
import { Gateway, type GatewayOptions, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import { issue } from "../../../fixtures/http/HttpScene.ts"
import { callOf, legacy, modern, post } from "../../../fixtures/mcp/HttpMcp.ts"

const host = "Host: gateway.test\r\n"

const jwt = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzLTE3IiwiYXVkIjoiZ2F0ZXdheSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"

/** The text of a span that an exporter sends. It includes the message and the stack of a failure. */
const textOf = ({ attributes, events, links, name, status }: Tracer.NativeSpan): string =>
  JSON.stringify([
    name,
    [...attributes],
    events.map(([event, , more]) => [event, more]),
    links.map((link) => link.attributes),
    status._tag === "Ended" && Exit.isFailure(status.exit)
      ? [
        Cause.pretty(status.exit.cause),
        Cause.prettyErrors(status.exit.cause).map(({ message, stack }) => [message, stack])
      ]
      : []
  ])

/** Targets with the token in each place of a path or query, and the status of a GET without a credential. */
const targetsOf = (token: string) =>
  [
    [404, `/${token}`],
    [404, `/v1/accounts/${token}/operations`],
    [404, `/x${token}.json`],
    [404, `/problems/${token}`],
    [401, `/v1/operations/${token}`],
    [422, `/healthz?${token}`],
    [422, `/healthz?token=${token}`],
    [404, `/healthz;${token}`],
    [414, `/${token}${"/a".repeat(4096)}`],
    [404, `/${encodeURIComponent(token).replace("e", "%65").replace("f", "%66")}`]
  ] as const

const send = (method: string, target: string, headers = host) =>
  Effect.gen(function*() {
    const { wire } = yield* Gateway
    const connection = yield* wire
    connection.send(`${method} ${target} HTTP/1.1\r\n${headers}\r\n`)
    return (yield* Effect.promise(() => connection.next({ bodiless: method === "HEAD" })))!.status
  })

/** The spans of requests, after each has ended. A response may arrive before its span ends. */
const serverSpans = Effect.gen(function*() {
  const { spans } = yield* Observer
  const ofServer = () => spans.filter(({ kind }) => kind === "server")
  while (ofServer().some(({ status }) => status._tag !== "Ended")) {
    yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
  }
  return ofServer()
})

const assertHidden = (token: string, spans: ReadonlyArray<Tracer.NativeSpan>) => {
  for (const span of spans) {
    const text = textOf(span)
    const plain = text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number(`0x${hex}`)))
    for (const part of [token, ...token.split(/[._]/).slice(1)]) assert.notInclude(plain, part)
  }
}

const tracing = (options: GatewayOptions = {}) => memoryGateway({ ...options, spans: true })

layer(tracing(), { excludeTestServices: true })("Spans of refused requests", (it) => {
  it.effect("show no gateway token and no JWT from any part of the target", () =>
    Effect.gen(function*() {
      const { token } = yield* issue()
      for (const secret of [token, jwt]) {
        for (const [status, target] of targetsOf(secret)) {
          assert.strictEqual(yield* send("GET", target), status, target.slice(0, 80))
          yield* send("POST", target)
          yield* send("HEAD", target)
          yield* send("GET", target, `${host}${host}`)
          yield* send("GET", `http://gateway.test${target}`)
        }
        assertHidden(secret, yield* serverSpans)
      }
      assert.isAtLeast((yield* serverSpans).length, 100)
    }))

  it.effect("show the rest of the path, and the names of query parameters", () =>
    Effect.gen(function*() {
      const { token } = yield* issue()
      yield* send("GET", `/v1/accounts/${token}/operations?state=x`)
      const span = (yield* serverSpans).at(-1)
      assert.strictEqual(span?.attributes.get("url.path"), "/v1/accounts/fingw_…/operations")
      assert.strictEqual(
        span?.attributes.get("url.full"),
        "http://gateway.test/v1/accounts/fingw_…/operations?state=REDACTED"
      )
      assert.strictEqual(span?.attributes.get("url.query"), "state=REDACTED")
      yield* send("GET", "/v1/operations?idempotency_key=rent-of-may")
      const { attributes } = (yield* serverSpans).at(-1)!
      assert.strictEqual(attributes.get("url.query"), "idempotency_key=REDACTED")
    }))
})

layer(tracing(), { excludeTestServices: true })("The span of a request", (it) => {
  it.effect("begins a trace, and has only a link to that of the caller, sampled or not", () =>
    Effect.gen(function*() {
      const before = (yield* serverSpans).length
      const [trace, parent] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
      for (
        const header of [
          `traceparent: 00-${trace}-${parent}-00`,
          `traceparent: 00-${trace}-${parent}-01`,
          `b3: ${trace}-${parent}-0`
        ]
      ) {
        yield* send("GET", "/healthz", `${host}${header}\r\n`)
        yield* send("POST", "/mcp", `${host}${header}\r\nContent-Length: 0\r\n`)
      }
      const spans = (yield* serverSpans).slice(before)
      assert.lengthOf(spans, 6)
      for (const span of spans) {
        assert.isTrue(Option.isNone(span.parent))
        assert.notStrictEqual(span.traceId, trace)
        assert.isTrue(span.sampled)
        assert.deepStrictEqual(span.links.map((link) => [link.span.traceId, link.span.spanId]), [[trace, parent]])
      }
    }))
})

layer(tracing({ lifecycle: { maxInFlight: 0 } }), { excludeTestServices: true })("Spans of failed requests", (it) => {
  it.effect("show no token in the recorded failure", () =>
    Effect.gen(function*() {
      const { token } = yield* issue()
      for (const secret of [token, jwt]) {
        assert.strictEqual(yield* send("GET", `/v1/operations/${secret}`), 503)
      }
      const spans = yield* serverSpans
      const failed = spans.filter(({ status }) => status._tag === "Ended" && Exit.isFailure(status.exit))
      assert.strictEqual(failed.length, 2)
      for (const span of failed) assert.include(textOf(span), "GET /v1/operations/")
      for (const secret of [token, jwt]) assertHidden(secret, spans)
    }))
})

const Notes = Toolkit.make(
  Tool.make("note", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
)
const tools = McpServer.toolkit(Notes).pipe(
  Layer.provide(Notes.toLayer({ note: () => Effect.as(Effect.withSpan(Effect.void, "note.store"), "noted") }))
)

layer(tracing({ tools }), { excludeTestServices: true })("Spans of calls of tools", (it) => {
  it.effect("show the name of the tool, and none of its arguments", () =>
    Effect.gen(function*() {
      const { port } = yield* Gateway
      const { spans } = yield* Observer
      const { token } = yield* issue()
      const calls = [
        ["get_operation", { id: jwt }],
        ["find_operation_by_key", { idempotency_key: jwt }],
        ["wait_for_operation", { id: jwt }],
        ["note", { text: jwt }],
        ["note", { texts: jwt }]
      ] as const
      for (const version of [legacy, modern]) {
        for (const [name, args] of calls) {
          yield* Effect.promise(() => post(port, token, callOf(version, 1, name, args)))
        }
      }
      yield* serverSpans
      assertHidden(jwt, spans)
      assertHidden(token, spans)
      for (const [name] of calls) assert(spans.some(({ attributes }) => attributes.get("tool") === name), name)
      const stored = spans.filter(({ name }) => name === "note.store")
      assert.lengthOf(stored, 2)
      for (const { parent, traceId } of stored) {
        assert(
          parent._tag === "Some" &&
            spans.some((span) => span.spanId === parent.value.spanId && span.traceId === traceId)
        )
      }
    }))
})
