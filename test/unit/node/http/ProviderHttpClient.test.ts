/**
 * The client for providers: what it asks, keeps and ends. Over a dispatcher of the test where each call of undici counts, and over
 * connections elsewhere.
 */
import { Dispatcher } from "@effect/platform-node/Undici"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as net from "node:net"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { gzipSync } from "node:zlib"
import { freePort } from "../../../../bench/shared/freePort.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { SendDeadline } from "../../../../src/submission/http/SendDeadline.ts"
import { answering, rawServer, response } from "../../../fixtures/submission/HttpProviderServer.ts"
import { until } from "../../../fixtures/until.ts"

/** A controller of undici that remembers an abort. */
const makeController = () => {
  const controller: Dispatcher.DispatchController = {
    aborted: false,
    paused: false,
    reason: null,
    pause: () => {},
    resume: () => {},
    abort: (reason) => void Object.assign(controller, { aborted: true, reason })
  }
  return controller
}

/** A client on a dispatcher that keeps the handler of each request. */
const makeHeld = (onDispatch: () => void = () => {}) => {
  const handlers: Array<Required<Dispatcher.DispatchHandler>> = []
  class Held extends Dispatcher {
    override dispatch(_: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
      onDispatch()
      handlers.push(handler as Required<Dispatcher.DispatchHandler>)
      return true
    }
  }
  return Effect.map(ProviderHttpClient.makeClient(new Held()), (client) => ({ client, handlers }))
}

const url = "http://127.0.0.1:1/"

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
  it.live("is watched before undici has the request, and asked at each write", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const deadline: SendDeadline = {
        watch: () => asked.push("watch"),
        pass: () => asked.push("pass") === 3
      }
      const { client, handlers } = yield* makeHeld(() => asked.push("dispatch"))
      const controller = makeController()
      const fiber = yield* client.get(url).pipe(
        Effect.provideService(SendDeadline, deadline),
        Effect.forkChild({ startImmediately: true })
      )
      handlers[0]!.onRequestStart(controller, null)
      assert.deepStrictEqual([asked, controller.aborted], [["watch", "dispatch", "pass"], false])
      handlers[0]!.onRequestStart(controller, null)
      assert.deepStrictEqual([asked, controller.aborted], [["watch", "dispatch", "pass", "pass"], true])
      handlers[0]!.onResponseError(controller, controller.reason!)
      const { cause, tag } = yield* expectFailure(Fiber.join(fiber)).pipe(Effect.provide(live))
      assert.deepStrictEqual([tag, (cause as Error).message], ["TransportError", "the send deadline has passed"])
    }))

  it.live("is not asked for an interrupted request, which undici drops", () =>
    Effect.gen(function*() {
      let passes = 0
      const deadline: SendDeadline = { watch: () => {}, pass: () => ++passes > 0 }
      const { client, handlers } = yield* makeHeld()
      const controller = makeController()
      const fiber = yield* client.get(url).pipe(
        Effect.provideService(SendDeadline, deadline),
        Effect.forkChild({ startImmediately: true })
      )
      yield* Fiber.interrupt(fiber)
      handlers[0]!.onRequestStart(controller, null)
      assert.deepStrictEqual([passes, controller.aborted], [0, true])
    }))
})

describe("A body", () => {
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

  it.live("ends a request that waits for a connection, and it is never sent", () =>
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
      yield* Fiber.interrupt(third)
      answerFirst()
      assert.strictEqual((yield* Fiber.join(first)).status, 200)
      assert.strictEqual((yield* expectFailure(Fiber.join(second))).tag, "TransportError")
      assert.strictEqual((yield* client.get(`${server.url}/last`)).status, 200)
      assert.deepStrictEqual(server.requests.map(({ head }) => head.split(" ")[1]), ["/", "/last"])
    }).pipe(Effect.scoped, Effect.provide(live)))

  it.live.each(["interruption", "scope"])(
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
})

describe("A connection", () => {
  it.live("stays open no longer because its provider asks for it", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering("HTTP/1.1 204 x\r\nKeep-Alive: timeout=600\r\n\r\n"))
      yield* Effect.flatMap(HttpClient.get(server.url), ({ text }) => text)
      yield* until(() => server.open() === 0)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(ProviderHttpClient.layer({ keepAlive: "100 millis" })))))
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
