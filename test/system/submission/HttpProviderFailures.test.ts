/**
 * A misbehaving provider leaves an outcome uncertain unless no byte of the request arrived. The tests use raw socket
 * servers that fail at each point, over each HTTP client, in ways that the conformance kit lacks.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as net from "node:net"
import { freePort } from "../../../bench/shared/freePort.ts"
import {
  answering,
  type Behaviour,
  clients,
  optionsFor,
  rawServer,
  readFrom,
  response,
  submitTo,
  succeeded
} from "../../fixtures/submission/HttpProviderServer.ts"

/** Each offset at which a response may end. */
const offsets = (bytes: string) => Array.from({ length: bytes.length }, (_, offset) => offset)

const chunked = (chunks: string) =>
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`

/** Those that the conformance kit lacks. `test/system/testing` runs the kit over each client. */
const misbehaviours: ReadonlyArray<readonly [name: string, behaviour: Behaviour]> = [
  ["closes each connection at once", { onConnect: (socket) => socket.end() }],
  ["closes at the first byte", { onBytes: (socket) => socket.end() }],
  ["sends another HTTP version", answering("HTTP/9.9 200 OK\r\n\r\n")],
  ["sends a bad chunk", answering(chunked("zz\r\n{}\r\n"))],
  ["ends between chunks", {
    onRequest: (socket) => socket.end(chunked(`${succeeded.length.toString(16)}\r\n${succeeded}\r\n`))
  }],
  ["sends an empty body of unknown length", {
    onRequest: (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
  }],
  [
    "sends invalid UTF-8",
    answering(
      Buffer.from(
        response(200, succeeded.replace("ref-1", "ref-\xff"), { "Content-Length": String(succeeded.length) }),
        "latin1"
      )
    )
  ],
  ["sends no content type", answering(`HTTP/1.1 200 OK\r\nContent-Length: ${succeeded.length}\r\n\r\n${succeeded}`)],
  ["sends a huge body", answering(response(200, JSON.stringify({ ...JSON.parse(succeeded), pad: "x".repeat(5000) })))],
  ["sends headers without end", {
    onRequest: (socket) => {
      const more = () => {
        if (socket.writable) socket.write(`X-Pad: ${"x".repeat(60_000)}\r\n`, more)
      }
      socket.write("HTTP/1.1 200 OK\r\n", more)
    }
  }],
  ["continues after 100", answering(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n`)],
  ["switches protocols", answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")],
  ["sends only early hints", answering("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")],
  ...[201, 202, 204, 206, 404, 422, 501, 599].map((status) =>
    [
      `answers ${status} with the body of a success`,
      answering(response(status, status === 204 ? "" : succeeded))
    ] as const
  )
]

const limits = { deadlines: { headers: 120, body: 80 }, maxBodySize: 4096 }

/** Submits. On a busy machine the deadline may pass before a byte has left: then it submits with a longer one. */
const submitUntilItArrives = Effect.fnUntraced(function*(
  server: Effect.Success<ReturnType<typeof rawServer>>,
  misbehaviour: string
) {
  for (let attempts = 1;; attempts++) {
    const scale = 2 ** (attempts - 1)
    const deadlines = { headers: limits.deadlines.headers * scale, body: limits.deadlines.body * scale }
    const result = yield* submitTo(optionsFor(server.url, { ...limits, deadlines }))
    if (server.bytes() > 0 || misbehaviour.includes("each connection") || attempts === 7) return { ...result, attempts }
  }
})

for (const [name, client] of clients) {
  describe(`Over ${name}`, () => {
    for (const [misbehaviour, behaviour] of misbehaviours) {
      it.live(`a provider that ${misbehaviour} leaves the outcome uncertain, unless no byte of the request arrived`, () =>
        Effect.gen(function*() {
          const server = yield* rawServer(behaviour)
          const { _tag, attempts, reason } = yield* submitUntilItArrives(server, misbehaviour)
          if (_tag === "NotSent") assert.strictEqual(server.bytes(), 0, reason)
          else assert.strictEqual(_tag, "Uncertain", reason)
          if (!misbehaviour.includes("each connection")) {
            assert.strictEqual(_tag, "Uncertain", reason)
            assert.isAtLeast(server.bytes(), 1)
          }
          assert.isAtMost(server.requests.length, attempts)
        }).pipe(Effect.provide(client())))

      it.live(`a provider that ${misbehaviour} proves nothing by a status read`, () =>
        Effect.gen(function*() {
          const server = yield* rawServer(behaviour)
          const status = yield* readFrom(optionsFor(server.url, limits))
          // Nothing is final without the evidence that the adapter declares.
          if (status._tag === "NotFound") assert.isNull(status.evidence)
          else assert.strictEqual(status._tag, "NotProven")
        }).pipe(Effect.provide(client())))
    }

    it.live("a response that is reset or closed at any byte is uncertain", () =>
      Effect.gen(function*() {
        const bytes = response(200, succeeded)
        yield* Effect.forEach([true, false], (reset) =>
          Effect.forEach(offsets(bytes), (offset) =>
            Effect.gen(function*() {
              const server = yield* rawServer({
                onRequest: (socket) =>
                  socket.write(bytes.slice(0, offset), () =>
                    reset ? socket.resetAndDestroy() : socket.end())
              })
              const { _tag, reason } = yield* submitTo(optionsFor(server.url))
              assert.strictEqual(_tag, "Uncertain", `${reason} at ${offset}`)
              assert.lengthOf(server.requests, 1)
            }).pipe(Effect.scoped), { concurrency: 8, discard: true }), { discard: true })
      }).pipe(Effect.provide(client())))

    it.live("a response that arrives byte by byte is understood", () =>
      Effect.gen(function*() {
        const server = yield* rawServer({
          onRequest: (socket) => {
            for (const byte of response(200, succeeded)) socket.write(byte)
          }
        })
        const answer = yield* submitTo(optionsFor(server.url))
        assert.strictEqual(answer._tag, "Succeeded", answer.reason)
      }).pipe(Effect.provide(client())))

    it.live("a provider that closes its half and then answers is understood", () =>
      Effect.gen(function*() {
        const server = yield* rawServer({ onRequest: (socket) => socket.end(response(200, succeeded)) })
        const answer = yield* submitTo(optionsFor(server.url))
        assert.strictEqual(answer._tag, "Succeeded", answer.reason)
      }).pipe(Effect.provide(client())))

    for (const status of [300, 304, 305, 307, 399]) {
      it.live(`a redirect by ${status} is not followed, and proves nothing`, () =>
        Effect.gen(function*() {
          const elsewhere = yield* rawServer(answering(response(200, succeeded)))
          const server = yield* rawServer(
            answering(response(status, status === 304 ? "" : succeeded, { Location: `${elsewhere.url}/mutations` }))
          )
          const { _tag, reason } = yield* submitTo(optionsFor(server.url))
          assert.strictEqual(_tag, "Uncertain", reason)
          const read = yield* readFrom(optionsFor(server.url))
          assert.deepInclude(read, { _tag: "NotProven", reason: "unclear" })
          assert.strictEqual(elsewhere.connections(), 0)
          assert.deepStrictEqual(server.requests.map(({ head }) => head.split(" ")[0]), ["POST", "GET"])
        }).pipe(Effect.provide(client())))
    }

    it.live("a closed port of several addresses proves that nothing was sent", () =>
      Effect.gen(function*() {
        const { _tag, reason } = yield* submitTo(optionsFor(`http://localhost:${yield* freePort}`))
        assert.strictEqual(_tag, "NotSent", reason)
        assert.include(reason, "ECONNREFUSED")
      }).pipe(Effect.provide(client())))

    it.live("TLS to a port without TLS never succeeds, and proves nothing unless the client knows that nothing was sent", () =>
      Effect.gen(function*() {
        const server = yield* rawServer({ onBytes: (socket) => socket.write("HTTP/1.1 400 Bad Request\r\n\r\n") })
        const { _tag, reason } = yield* submitTo(optionsFor(`https://127.0.0.1:${server.port}`))
        // The provider's client knows that the request never began.
        assert.strictEqual(_tag, name === "the provider's client" ? "NotSent" : "Uncertain", reason)
        assert.notInclude(server.received(), "POST")
      }).pipe(Effect.provide(client())))
  })
}

/** A port that never accepts: connections wait until its queue is full, and then get no answer. */
const silentPort = Effect.acquireRelease(
  Effect.promise(async () => {
    const program = "const s=require('net').createServer().listen({port:0,host:'127.0.0.1',backlog:1},()=>{"
      + "require('fs').writeSync(1,String(s.address().port));Atomics.wait(new Int32Array(new SharedArrayBuffer(4)),0,0)})"
    const child = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] })
    const [chunk] = (await once(child.stdout, "data")) as [Buffer]
    const port = Number(chunk.toString())
    const fillers = Array.from({ length: 8 }, () => net.connect(port, "127.0.0.1").on("error", () => {}))
    await once(fillers[0]!, "connect")
    return { port, child, fillers }
  }),
  ({ child, fillers }) =>
    Effect.promise(async () => {
      for (const filler of fillers) filler.destroy()
      const gone = once(child, "exit")
      child.kill("SIGKILL")
      await gone
    })
)

describe("A provider that does not accept connections", () => {
  for (const [name, client] of clients.slice(0, 2)) {
    it.live(`proves that nothing was sent when connecting over ${name} takes too long`, () =>
      Effect.gen(function*() {
        const { port } = yield* silentPort
        const { _tag, reason } = yield* submitTo(
          optionsFor(`http://127.0.0.1:${port}`, { deadlines: { headers: 10_000 } })
        )
        assert.strictEqual(_tag, "NotSent", reason)
        assert.include(reason, "UND_ERR_CONNECT_TIMEOUT")
      }).pipe(Effect.provide(client())))
  }

  for (const [name, client] of clients) {
    const expected = name === "the provider's client" ? "NotSent" : "Uncertain"
    it.live(`is ${expected} over ${name} when the deadline comes first`, () =>
      Effect.gen(function*() {
        const { port } = yield* silentPort
        const { _tag, reason } = yield* submitTo(optionsFor(`http://127.0.0.1:${port}`, { deadlines: { headers: 50 } }))
        assert.strictEqual(_tag, expected, reason)
      }).pipe(Effect.provide(client())))
  }
})
