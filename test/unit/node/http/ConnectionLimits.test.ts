/** What the listener keeps of a connection: the response that runs, and nothing of one that ended. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import * as http from "node:http"
import * as net from "node:net"
import { vi } from "vitest"
import { Connection, reportDrops } from "../../../../src/node/http/ConnectionLimits.ts"
import { listening } from "../../../fixtures/http/listening.ts"
import { until } from "../../../fixtures/until.ts"

/** A server that records its only connection; `answer` ends its responses. */
const makeServer = Effect.fnUntraced(function*(answer: (response: http.ServerResponse) => void) {
  const connection = new Connection()
  const { port } = yield* listening(http.createServer((_request, response) => {
    connection.start(response)
    answer(response)
  }))
  const socket = net.connect(port, "127.0.0.1")
  yield* Effect.promise(() => once(socket, "connect"))
  return { connection, socket }
})

/** Waits until the text has arrived, and the server has finished its turn. */
const received = (socket: net.Socket, text: string) =>
  Effect.callback<void>((resume) => {
    let all = ""
    const onData = (bytes: Buffer) => {
      all += bytes.toString("latin1")
      if (!all.includes(text)) return
      socket.off("data", onData)
      setImmediate(() => resume(Effect.void))
    }
    socket.on("data", onData)
  })

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

describe("A connection", () => {
  it.live("keeps no response after it ended, request after request", () =>
    Effect.gen(function*() {
      const { connection, socket } = yield* makeServer((response) => {
        assert.strictEqual(connection.response, response)
        response.end("answer")
      })
      for (let n = 0; n < 3; n++) {
        socket.write(get)
        yield* received(socket, "answer")
        assert.isUndefined(connection.response)
      }
    }))

  it.live("keeps the response to the youngest request when an older one ends", () =>
    Effect.gen(function*() {
      const responses: Array<http.ServerResponse> = []
      const { connection, socket } = yield* makeServer((response) => responses.push(response))
      socket.write(get + get)
      yield* until(() => responses.length === 2)
      responses[0]!.end("first")
      yield* received(socket, "first")
      assert.strictEqual(connection.response, responses[1])
      assert.isFalse(connection.isOverdue(1000, 100_000, 0))
      responses[1]!.end("second")
      yield* received(socket, "second")
      assert.isUndefined(connection.response)
    }))

  it.live("counts as running while its request arrives, although the response ended", () =>
    Effect.gen(function*() {
      const { connection, socket } = yield* makeServer((response) => response.end("early"))
      socket.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12")
      yield* received(socket, "early")
      assert.isDefined(connection.response)
      assert.isFalse(connection.isOverdue(0, 0, 1000))
      assert.isFalse(connection.isOverdue(100, 1, 0))
      assert.isFalse(connection.isOverdue(100, 2000, 0))
    }))

  it.live("is overdue when bytes wait for the timeout after a response, but not two more bytes", () =>
    Effect.gen(function*() {
      const { connection, socket } = yield* makeServer((response) => response.end("answer"))
      assert.isFalse(connection.isOverdue(100, 0, 0))
      socket.write(get)
      yield* received(socket, "answer")
      assert.isFalse(connection.isOverdue(100, 0, 1000))
      assert.isFalse(connection.isOverdue(102, 5000, 1000))
      assert.isFalse(connection.isOverdue(103, 6000, 1000))
      assert.isFalse(connection.isOverdue(103, 6999, 1000))
      assert.isTrue(connection.isOverdue(103, 7000, 1000))
      // The next request starts anew.
      socket.write(get)
      yield* received(socket, "answer")
      assert.isFalse(connection.isOverdue(103, 9000, 1000))
      assert.isFalse(connection.isOverdue(105, 11_000, 1000))
    }))
})

it("Dropped connections are reported once each: the first at once, further ones of ten seconds together", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const server = new http.Server()
  const reports: Array<number> = []
  reportDrops(server, (count) => reports.push(count))
  for (let drop = 0; drop < 50; drop++) server.emit("drop")
  assert.deepStrictEqual(reports, [1])
  vi.advanceTimersByTime(10_000)
  assert.deepStrictEqual(reports, [1, 49])
  vi.advanceTimersByTime(60_000)
  assert.deepStrictEqual(reports, [1, 49])
  server.emit("drop")
  assert.deepStrictEqual(reports, [1, 49, 1])
  vi.useRealTimers()
})
