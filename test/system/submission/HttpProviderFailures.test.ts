/**
 * What a provider that is slow, away or elsewhere proves, over each HTTP client. `unit/submission/http/HttpProviderProperties` has
 * those that misbehave.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as net from "node:net"
import { freePort } from "../../../bench/shared/freePort.ts"
import {
  clients,
  optionsFor,
  rawServer,
  response,
  submitTo,
  succeeded
} from "../../fixtures/submission/HttpProviderServer.ts"

for (const [name, client] of clients) {
  describe(`Over ${name}`, () => {
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

    it.live("a closed port of several addresses proves that nothing was sent", () =>
      Effect.gen(function*() {
        const { _tag, reason } = yield* submitTo(optionsFor(`http://localhost:${yield* freePort}`))
        assert.strictEqual(_tag, "NotSent", reason)
        assert.include(reason, "ECONNREFUSED")
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
