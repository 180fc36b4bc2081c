/**
 * The client for providers: what it asks, sends, keeps and ends. Over a dispatcher of the test where each call of undici
 * counts, and over connections elsewhere.
 */
import type { Dispatcher } from "@effect/platform-node/Undici"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as net from "node:net"
import { Readable } from "node:stream"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { gzipSync } from "node:zlib"
import { freePort } from "../../../bench/shared/freePort.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { makeUndiciClient } from "../../../src/node/http/UndiciClient.ts"
import { SendDeadline } from "../../../src/submission/http/SendDeadline.ts"
import { until } from "../../fixtures/sandbox/SandboxHarness.ts"
import { answering, rawServer, response } from "../../fixtures/submission/HttpProviderServer.ts"

/** A controller of undici that counts the calls. */
const makeController = () => {
  const calls: Array<string> = []
  const state = { paused: false, aborted: false, reason: null as Error | null }
  const controller: Dispatcher.DispatchController = {
    get aborted() {
      return state.aborted
    },
    get paused() {
      return state.paused
    },
    get reason() {
      return state.reason
    },
    pause: () => {
      state.paused = true
      calls.push("pause")
    },
    resume: () => {
      if (state.paused) calls.push("resume")
      state.paused = false
    },
    abort: (reason) => {
      state.aborted = true
      state.reason = reason
      calls.push("abort")
    }
  }
  return { controller, calls }
}

/** A dispatcher that keeps the handler of each request. */
const makeDispatcher = (onDispatch: () => void = () => {}) => {
  const handlers: Array<Required<Dispatcher.DispatchHandler>> = []
  const dispatch = (_: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) => {
    onDispatch()
    handlers.push(handler as Required<Dispatcher.DispatchHandler>)
    return true
  }
  // The client calls only `dispatch`.
  return { client: makeUndiciClient({ dispatch } as unknown as Dispatcher), handlers }
}

const url = "http://127.0.0.1:1/"

/** A response over the dispatcher of the test, whose body the test adds. The scope of the test could abort it. */
const startResponse = Effect.gen(function*() {
  const { client, handlers } = makeDispatcher()
  const { calls, controller } = makeController()
  const fiber = yield* Effect.forkChild(HttpClient.withScope(client).get(url), { startImmediately: true })
  const handler = handlers[0]!
  handler.onRequestStart(controller, null)
  handler.onResponseStart(controller, 200, {})
  return { response: yield* Fiber.join(fiber), handler, controller, calls }
})

const getFrom = (bytes: string | Buffer) =>
  Effect.gen(function*() {
    const server = yield* rawServer(answering(bytes))
    return yield* HttpClient.get(server.url)
  })

const live = Layer.fresh(ProviderHttpClient.layer({ connections: 1, connectTimeout: 300 }))

const reasonOf = (error: HttpClientError.HttpClientError) => ({ tag: error.reason._tag, cause: error.reason.cause })

const expectFailure = <A>(effect: Effect.Effect<A, HttpClientError.HttpClientError, HttpClient.HttpClient>) =>
  Effect.map(Effect.flip(effect), reasonOf)

describe("The deadline", () => {
  it.effect("is watched before undici has the request, and asked at each write", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const deadline: SendDeadline = {
        watch: () => asked.push("watch"),
        pass: () => asked.push("pass") === 3
      }
      const { client, handlers } = makeDispatcher(() => asked.push("dispatch"))
      const { calls, controller } = makeController()
      const fiber = yield* client.get(url).pipe(
        Effect.provideService(SendDeadline, deadline),
        Effect.forkChild({ startImmediately: true })
      )
      handlers[0]!.onRequestStart(controller, null)
      assert.deepStrictEqual({ asked, calls }, { asked: ["watch", "dispatch", "pass"], calls: [] })
      handlers[0]!.onRequestStart(controller, null)
      assert.deepStrictEqual({ asked, calls }, { asked: ["watch", "dispatch", "pass", "pass"], calls: ["abort"] })
      handlers[0]!.onResponseError(controller, controller.reason!)
      const { cause, tag } = yield* expectFailure(Fiber.join(fiber)).pipe(Effect.provide(live))
      assert.deepStrictEqual([tag, (cause as Error).message], ["TransportError", "the send deadline has passed"])
    }))

  it.effect("is not asked for an interrupted request, which undici drops", () =>
    Effect.gen(function*() {
      let passes = 0
      const deadline: SendDeadline = { watch: () => {}, pass: () => ++passes > 0 }
      const { client, handlers } = makeDispatcher()
      const { calls, controller } = makeController()
      const fiber = yield* client.get(url).pipe(
        Effect.provideService(SendDeadline, deadline),
        Effect.forkChild({ startImmediately: true })
      )
      yield* Fiber.interrupt(fiber)
      handlers[0]!.onRequestStart(controller, null)
      assert.deepStrictEqual({ passes, calls }, { passes: 0, calls: ["abort"] })
    }))
})

describe("The handler of undici", () => {
  it.effect("never continues the fiber within the parser", () =>
    Effect.gen(function*() {
      const { client, handlers } = makeDispatcher()
      const { controller } = makeController()
      const seen: Array<string> = []
      const fiber = yield* client.get(url).pipe(
        Effect.tap(() => Effect.sync(() => seen.push("head"))),
        Effect.flatMap(({ text }) => text),
        Effect.tap(() => Effect.sync(() => seen.push("body"))),
        Effect.forkChild({ startImmediately: true })
      )
      const handler = handlers[0]!
      handler.onRequestStart(controller, null)
      handler.onResponseStart(controller, 200, {})
      assert.deepStrictEqual(seen, [])
      yield* until(() => seen.length === 1)
      handler.onResponseData(controller, Buffer.from("text"))
      handler.onResponseEnd(controller, {})
      assert.deepStrictEqual(seen, ["head"])
      assert.strictEqual(yield* Fiber.join(fiber), "text")
    }))

  it.effect("does not take an early hint for the response", () =>
    Effect.gen(function*() {
      const { client, handlers } = makeDispatcher()
      const { controller } = makeController()
      const fiber = yield* Effect.forkChild(client.get(url), { startImmediately: true })
      handlers[0]!.onRequestStart(controller, null)
      handlers[0]!.onResponseStart(controller, 103, { link: "x" })
      handlers[0]!.onResponseStart(controller, 201, {})
      const { headers, status } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([status, { ...headers }], [201, {}])
    }))
})

describe("A body", () => {
  const chunk = Buffer.alloc(32 * 1024, "x")

  it.effect("pauses the connection when 64 KiB are not read, and resumes it when the reader needs more", () =>
    Effect.gen(function*() {
      const { calls, controller, handler, response } = yield* startResponse
      handler.onResponseData(controller, chunk)
      assert.deepStrictEqual(calls, [])
      handler.onResponseData(controller, chunk)
      assert.deepStrictEqual(calls, ["pause"])
      const fiber = yield* Effect.forkChild(Stream.runCollect(response.stream), { startImmediately: true })
      yield* until(() => calls.length > 1)
      assert.deepStrictEqual(calls, ["pause", "resume"])
      handler.onResponseEnd(controller, {})
      assert.deepStrictEqual(Buffer.concat(yield* Fiber.join(fiber)), Buffer.concat([chunk, chunk]))
    }))

  it.effect("is paused again while its reader works on a chunk", () =>
    Effect.gen(function*() {
      const { calls, controller, handler, response } = yield* startResponse
      let chunks = 0
      yield* response.stream.pipe(
        Stream.runForEach(() => Effect.andThen(Effect.sync(() => ++chunks), Effect.never)),
        Effect.forkChild({ startImmediately: true })
      )
      handler.onResponseData(controller, chunk)
      yield* until(() => chunks === 1)
      handler.onResponseData(controller, chunk)
      assert.deepStrictEqual([calls, chunks], [[], 1])
      handler.onResponseData(controller, chunk)
      assert.deepStrictEqual([calls, chunks], [["pause"], 1])
    }))

  it.effect("is aborted when its reader stops before the end", () =>
    Effect.gen(function*() {
      const { calls, controller, handler, response } = yield* startResponse
      handler.onResponseData(controller, chunk)
      yield* Stream.runHead(response.stream)
      assert.include(calls, "abort")
    }))

  it.effect("fails in each reader, with its cause, when undici reports an error", () =>
    Effect.gen(function*() {
      const cause = new Error("other side closed")
      const readers: ReadonlyArray<
        (response: HttpClientResponse) => Effect.Effect<unknown, HttpClientError.HttpClientError>
      > = [
        ({ arrayBuffer }) => arrayBuffer,
        ({ stream }) => Stream.runDrain(stream)
      ]
      for (const read of readers) {
        const { controller, handler, response } = yield* startResponse
        handler.onResponseData(controller, chunk)
        const fiber = yield* Effect.forkChild(Effect.flip(read(response)), { startImmediately: true })
        handler.onResponseError(controller, cause)
        assert.deepStrictEqual(reasonOf(yield* Fiber.join(fiber)), { tag: "DecodeError", cause })
        assert.deepStrictEqual(reasonOf(yield* Effect.flip(response.text)).tag, "DecodeError")
      }
    }))

  it.effect("drops the chunks that were not read when it fails", () =>
    Effect.gen(function*() {
      const { controller, handler, response } = yield* startResponse
      handler.onResponseData(controller, chunk)
      handler.onResponseError(controller, new Error("other side closed"))
      let chunks = 0
      const read = Stream.runForEach(response.stream, () => Effect.sync(() => ++chunks))
      assert.deepStrictEqual([reasonOf(yield* Effect.flip(read)).tag, chunks], ["DecodeError", 0])
    }))

  it.effect("that is complete can be read after the abort", () =>
    Effect.gen(function*() {
      const scope = Scope.makeUnsafe()
      const { controller, handler, response } = yield* Scope.provide(startResponse, scope)
      handler.onResponseData(controller, Buffer.from("text"))
      handler.onResponseEnd(controller, {})
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(yield* response.text, "text")
    }))

  it.live("without an end fills no memory", () =>
    Effect.gen(function*() {
      let written = 0
      let drained = Date.now()
      const block = Buffer.alloc(1024 * 1024)
      const writeOn = (socket: net.Socket) => {
        drained = Date.now()
        while (written < 2 ** 30 && !socket.destroyed) {
          written += block.length
          if (!socket.write(block)) return
        }
      }
      const server = yield* rawServer({
        onConnect: (socket) => socket.on("drain", () => writeOn(socket)),
        onRequest: (socket) => {
          socket.write("HTTP/1.1 200 OK\r\n\r\n")
          writeOn(socket)
        }
      })
      const { stream } = yield* HttpClient.withScope(yield* HttpClient.HttpClient).get(server.url)
      yield* Stream.runForEach(stream, () => Effect.never).pipe(Effect.forkChild({ startImmediately: true }))
      yield* until(() => Date.now() - drained > 300)
      assert.isBelow(written, 64 * 1024 * 1024)
    }).pipe(Effect.scoped, Effect.provide(live)))
})

describe("An abort", () => {
  /** Answers the first request when the test asks for it, and the others at once. */
  const heldServer = Effect.gen(function*() {
    const sockets: Array<net.Socket> = []
    const server = yield* rawServer({
      onRequest: (socket, _, index) => {
        sockets.push(socket)
        if (index > 1) socket.write(response(200, "{}"))
      }
    })
    return { server, answerFirst: () => sockets[0]!.write(response(200, "{}")) }
  })

  it.live("ends a request that waits for a connection at once, and it is never sent", () =>
    Effect.gen(function*() {
      const { answerFirst, server } = yield* heldServer
      const client = yield* HttpClient.HttpClient
      const first = yield* Effect.forkChild(client.get(server.url), { startImmediately: true })
      yield* until(() => server.requests.length === 1)
      const scope = Scope.makeUnsafe()
      const second = yield* HttpClient.withScope(client).get(`${server.url}/closed`).pipe(
        Scope.provide(scope),
        Effect.forkChild({ startImmediately: true })
      )
      const third = yield* Effect.forkChild(client.get(`${server.url}/interrupted`), { startImmediately: true })
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* expectFailure(Fiber.join(second))).tag, "TransportError")
      yield* Fiber.interrupt(third)
      answerFirst()
      assert.strictEqual((yield* Fiber.join(first)).status, 200)
      assert.strictEqual((yield* client.get(`${server.url}/last`)).status, 200)
      assert.deepStrictEqual(server.requests.map(({ head }) => head.split(" ")[1]), ["/", "/last"])
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live.each(["interruption", "interruption, with an open scope", "scope"])(
    "by %s closes the connection while the head is awaited",
    (by) =>
      Effect.gen(function*() {
        const { server } = yield* heldServer
        const client = yield* HttpClient.HttpClient
        const scope = Scope.makeUnsafe()
        const scoped = HttpClient.withScope(client).get(server.url).pipe(Scope.provide(scope))
        const fiber = yield* Effect.forkChild(by === "interruption" ? client.get(server.url) : scoped, {
          startImmediately: true
        })
        yield* until(() => server.requests.length === 1)
        if (by === "scope") {
          yield* Scope.close(scope, Exit.void)
          assert.strictEqual((yield* expectFailure(Fiber.join(fiber))).tag, "TransportError")
        } else yield* Fiber.interrupt(fiber)
        yield* until(() => server.open() === 0)
      }).pipe(Effect.scoped, Effect.provide(live))
  )

  it.live.each(["whole", "stream"])(
    "while the body arrives closes the connection and fails the reader: %s",
    (as) =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(`HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf`))
        const scope = Scope.makeUnsafe()
        const client = HttpClient.withScope(yield* HttpClient.HttpClient)
        const { arrayBuffer, stream } = yield* Scope.provide(client.get(server.url), scope)
        const read: Effect.Effect<unknown, HttpClientError.HttpClientError> = as === "whole"
          ? arrayBuffer
          : Stream.runDrain(stream)
        const fiber = yield* Effect.forkChild(read, { startImmediately: true })
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* expectFailure(Fiber.join(fiber))).tag, "DecodeError")
        assert.strictEqual((yield* expectFailure(arrayBuffer)).tag, "DecodeError")
        yield* until(() => server.open() === 0)
      }).pipe(Effect.scoped, Effect.provide(live))
  )
})

describe("A failure", () => {
  it.live("keeps the error of the system call", () =>
    Effect.gen(function*() {
      const port = yield* freePort
      const { cause, tag } = yield* expectFailure(HttpClient.get(`http://127.0.0.1:${port}`))
      const { code, syscall } = cause as NodeJS.ErrnoException
      assert.deepStrictEqual([tag, code, syscall], ["TransportError", "ECONNREFUSED", "connect"])
    }).pipe(Effect.provide(live)))

  it.live("of a request that undici refuses is one of the transport", () =>
    Effect.gen(function*() {
      const request = HttpClientRequest.setHeader(HttpClientRequest.get("http://127.0.0.1:1"), "upgrade", "x\n")
      const { cause, tag } = yield* expectFailure(HttpClient.execute(request))
      assert.deepStrictEqual([tag, (cause as { readonly code?: string }).code], [
        "TransportError",
        "UND_ERR_INVALID_ARG"
      ])
    }).pipe(Effect.provide(live)))
})

describe("A response", () => {
  it.live("has lower-case header names, joins repeated headers, and keeps each cookie", () =>
    Effect.gen(function*() {
      const { cookies, headers, remoteAddress, status, url } = yield* getFrom(
        "HTTP/1.1 404 x\r\nVia: one\r\nvIA: two\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
      )
      assert.deepStrictEqual({ ...headers }, { via: "one, two", "set-cookie": "a=1, b=2", "content-length": "0" })
      assert.deepStrictEqual(Object.keys(cookies.cookies), ["a", "b"])
      assert.deepStrictEqual([status, remoteAddress._tag, url.endsWith("/")], [404, "None", true])
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live.each<
    [accessor: string, body: string, read: (response: HttpClientResponse) => Effect.Effect<unknown, unknown>, unknown]
  >([
    ["text", "\u00e4b", ({ text }) => text, "\u00e4b"],
    ["json", "{\"a\":[1]}", ({ json }) => json, { a: [1] }],
    ["json, empty", "", ({ json }) => json, null],
    ["arrayBuffer", "ab", ({ arrayBuffer }) => arrayBuffer, new Uint8Array([97, 98]).buffer],
    [
      "stream",
      "ab",
      ({ stream }) => Effect.map(Stream.runCollect(stream), (all) => Buffer.concat(all).toString()),
      "ab"
    ],
    ["urlParamsBody", "?a=1&b=", ({ urlParamsBody }) => Effect.map(urlParamsBody, ({ params }) => params), [
      ["?a", "1"],
      ["b", ""]
    ]],
    ["formData", "a=1&b=2", ({ formData }) => Effect.map(formData, (form) => [...form]), [["a", "1"], ["b", "2"]]]
  ])("has %s", ([, body, read, expected]) =>
    Effect.gen(function*() {
      const received = yield* getFrom(response(200, body, { "Content-Type": "application/x-www-form-urlencoded" }))
      assert.deepStrictEqual(yield* read(received), expected)
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live("can be read whole again, but not as a stream before or after that", () =>
    Effect.gen(function*() {
      const whole = yield* getFrom(response(200, "{}"))
      assert.strictEqual(yield* whole.arrayBuffer, yield* whole.arrayBuffer)
      assert.deepStrictEqual([yield* whole.text, yield* whole.json], ["{}", {}])
      assert.strictEqual((yield* expectFailure(Stream.runDrain(whole.stream))).tag, "DecodeError")
      const streamed = yield* getFrom(response(200, "{}"))
      yield* Stream.runDrain(streamed.stream)
      assert.strictEqual((yield* expectFailure(streamed.text)).tag, "DecodeError")
      assert.strictEqual((yield* expectFailure(Stream.runDrain(streamed.stream))).tag, "DecodeError")
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live("with invalid JSON fails to decode, and never becomes another protocol", () =>
    Effect.gen(function*() {
      const received = yield* getFrom(response(200, "{"))
      const { cause, tag } = yield* expectFailure(received.json)
      assert.deepStrictEqual([tag, cause instanceof SyntaxError], ["DecodeError", true])
      assert.strictEqual((yield* expectFailure(received.upgrade)).tag, "StatusCodeError")
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live("is not decompressed", () =>
    Effect.gen(function*() {
      const packed = gzipSync("{}")
      const head = `HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`
      const received = yield* getFrom(Buffer.concat([Buffer.from(head), packed]))
      assert.deepStrictEqual(Buffer.from(yield* received.arrayBuffer), packed)
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live("with status 204 has an empty body, and leaves the connection open", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering("HTTP/1.1 204 x\r\n\r\n"))
      for (const _ of [1, 2]) {
        assert.strictEqual(yield* Effect.flatMap(HttpClient.get(server.url), ({ text }) => text), "")
      }
      assert.strictEqual(server.connections(), 1)
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live("is printed without its body and with redacted headers of the request", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, "\"secret\"")))
      const request = HttpClientRequest.setHeader(HttpClientRequest.get(server.url), "authorization", "secret")
      const received = yield* HttpClient.execute(request)
      assert.include(JSON.stringify(received), "\"status\":200")
      assert.notInclude(JSON.stringify(received), "secret")
    }).pipe(Effect.scoped, Effect.provide(live)))
})

describe("A response that the application drops unread", () => {
  it.live("is collected, and its connection closes", () =>
    Effect.gen(function*() {
      setFlagsFromString("--expose-gc")
      const collect = runInNewContext("gc") as () => void
      const server = yield* rawServer(answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"))
      const client = yield* HttpClient.HttpClient
      // In a fiber of its own, which ends with the response.
      yield* Effect.promise(async () => {
        await Effect.runPromise(client.get(server.url))
      })
      yield* until(() => {
        collect()
        return server.open() === 0
      })
    }).pipe(Effect.scoped, Effect.provide(live)))
})

describe("A request", () => {
  const form = new FormData()
  form.append("field", "value")

  it.live.each<[kind: string, body: HttpBody.HttpBody, sent: RegExp]>([
    ["bytes", HttpBody.text("text"), /\r\ncontent-length: 4\r\n\r\ntext$/u],
    [
      "a stream",
      HttpBody.stream(Stream.make(Buffer.from("te"), Buffer.from("xt"))),
      /\r\ncontent-length: 4\r\n\r\ntext$/u
    ],
    [
      "form data",
      HttpBody.formData(form),
      /^content-type: multipart\/form-data; boundary=[^]*name="field"\r\n\r\nvalue\r\n/mu
    ],
    ["no body", HttpBody.empty, /\r\ncontent-length: 0\r\n\r\n$/u]
  ])("sends %s", ([, body, sent]) =>
    Effect.gen(function*() {
      const server = yield* rawServer({ onBytes: () => {} })
      const request = HttpClientRequest.setBody(HttpClientRequest.post(`${server.url}/path?a=b#c`), body)
      yield* Effect.forkChild(HttpClient.execute(request), { startImmediately: true })
      yield* until(() => sent.test(server.received()))
      assert.match(server.received(), /^POST \/path\?a=b HTTP\/1\.1\r\n/u)
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live("that fails destroys the stream that it would have sent", () =>
    Effect.gen(function*() {
      const port = yield* freePort
      const body = new Readable({ read: () => {} })
      const request = HttpClientRequest.setBody(HttpClientRequest.post(`http://127.0.0.1:${port}`), HttpBody.raw(body))
      yield* Effect.flip(HttpClient.execute(request))
      assert.isTrue(body.destroyed)
    }).pipe(Effect.provide(live)))
})
