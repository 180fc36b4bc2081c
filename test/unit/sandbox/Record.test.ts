/**
 * The record of the sandbox counts every complete request, and survives restarts and torn lines. The tests use real
 * files.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger } from "effect"
import * as fs from "node:fs"
import { Agent } from "node:http"
import * as net from "node:net"
import * as path from "node:path"
import { rounds } from "../../fixtures/Effort.ts"
import { call, dial, read, start, submissionBytes, submit, told } from "../../fixtures/sandbox/SandboxHarness.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"
import { until } from "../../fixtures/until.ts"

const done = told({ outcome: "succeeded" })

const linesOf = (file: string) => fs.readFileSync(file, "utf8").split("\n").slice(0, -1)

/** The reason why a sandbox does not start on a record. */
const refusal = (record: string) => Effect.flip(Effect.scoped(start({ record }))).pipe(Effect.map(String))

describe("The record", () => {
  it.effect("counts every complete request of a key, including refused, faulted and repeated ones", () =>
    Effect.gen(function*() {
      const { record, setFaults, truth, url } = yield* start()
      yield* submit(url, "a", told({ outcome: "succeeded", faults: { drop_response: true } }))
      yield* submit(url, "a", done)
      yield* call(`${url}/mutations`, { method: "POST", headers: { "idempotency-key": "a" }, body: "{" })
      yield* submit(url, "b", told({ outcome: "rejected" }))
      yield* setFaults({ lose: { rate: 1 } })
      yield* submit(url, "c", done)
      assert.deepStrictEqual(
        (yield* record).map(({ faults, key, outcome, receipt }) => [key, receipt, outcome, faults]),
        [
          ["a", 1, "accepted", ["drop_response"]],
          ["a", 2, "repeated", ["drop_response"]],
          ["a", 3, "invalid", ["drop_response"]],
          ["b", 1, "rejected", []],
          ["c", 1, "lost", ["lose"]]
        ]
      )
      assert.strictEqual((yield* truth("a")).receipts, 3)
    }))

  it.effect("distinguishes two bodies of one key, and stores neither payload nor credentials", () =>
    Effect.gen(function*() {
      const { controlUrl, record, url } = yield* start()
      const headers = { "idempotency-key": "a", authorization: "Bearer hush-hush" }
      for (const amount of [1, 1, 2]) {
        const body = JSON.stringify({ type: "payment", payload: { secret: "sesame", amount } })
        yield* call(`${url}/mutations`, { method: "POST", headers, body })
      }
      const [first, second, third] = (yield* record).map(({ body_sha256 }) => body_sha256)
      assert.strictEqual(first, second)
      assert.notStrictEqual(first, third)
      assert.notMatch((yield* call(`${controlUrl}/record`)).text, /hush-hush|sesame/)
    }))

  it.effect("marks a request that never ended as incomplete, and does not count it", () =>
    Effect.gen(function*() {
      const { record, truth, url } = yield* start()
      const socket = net.connect(Number(new URL(url).port), "127.0.0.1")
      socket.end(submissionBytes("a", done).slice(0, -3))
      yield* until(() => Effect.runPromise(Effect.map(record, (receipts) => receipts.length === 1)))
      assert.deepInclude((yield* record)[0], { key: "a", receipt: 0, outcome: "incomplete" })
      assert.deepStrictEqual(yield* truth("a"), { key: "a", receipts: 0, status: "absent", final: false })
      yield* submit(url, "a", done)
      assert.deepInclude((yield* record)[1], { key: "a", receipt: 1, outcome: "accepted" })
    }))

  it.effect("marks a body above 1 MiB as incomplete, and answers with the limit", () =>
    Effect.gen(function*() {
      const { record, url } = yield* start()
      const { json, status } = yield* submit(url, "a", "x".repeat(1_048_576))
      assert.strictEqual(status, 413)
      assert.deepInclude(json, { code: "body_too_large" })
      assert.deepInclude((yield* record)[0], { receipt: 0, outcome: "incomplete" })
    }))

  it.effect("has each receipt on disk before the answer, also for many concurrent submissions", () =>
    Effect.gen(function*() {
      const file = path.join(yield* temporaryDirectory, "made/on/the/way/record.jsonl")
      const { url } = yield* start({ record: file })
      const agent = new Agent({ keepAlive: true, maxSockets: 64 })
      const keys = Array.from({ length: rounds(300, 1000) }, (_, n) => `key-${n}`)
      yield* Effect.forEach(keys, (key) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* submit(url, key, done, { agent })).status, 200)
          assert.include(fs.readFileSync(file, "utf8"), `"${key}"`)
        }), { concurrency: 64 })
      agent.destroy()
      const recorded = linesOf(file).map((line) => JSON.parse(line) as { readonly key: string })
      assert.sameMembers(recorded.map(({ key }) => key), keys)
    }))

  it.effect("continues after a restart with the same statuses, counts and chosen faults", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      const before = yield* Effect.scoped(Effect.gen(function*() {
        const { url } = yield* start({ record, seed: "x" })
        yield* submit(url, "hidden", told({ outcome: "succeeded", faults: { not_found_for: { ms: 60_000 } } }))
        yield* submit(url, "lost", told({ faults: { lose: true } }))
        yield* submit(url, "seeded")
        return yield* submit(url, "seeded")
      }))
      // Even with another seed, recorded decisions stay.
      const { record: receipts, truth, url } = yield* start({ record, seed: "y" })
      assert.deepStrictEqual(yield* submit(url, "seeded"), before)
      assert.strictEqual((yield* truth("seeded")).receipts, 3)
      assert.strictEqual((yield* truth("hidden")).status, "succeeded")
      assert.strictEqual((yield* read(url, "hidden")).status, 404)
      assert.strictEqual((yield* submit(url, "lost")).error, "ECONNRESET")
      assert.lengthOf(yield* receipts, 6)
    }))

  it.effect("removes a torn last line with a warning, and continues after the line before", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      yield* Effect.scoped(Effect.flatMap(start({ record }), ({ url }) => submit(url, "a", done)))
      const whole = fs.readFileSync(record, "utf8")
      for (const torn of [whole.slice(0, 40), whole.slice(0, -1), "x".repeat(200_000)]) {
        fs.writeFileSync(record, whole + torn)
        const warnings: Array<unknown> = []
        const logger = Logger.make(({ message }) => void warnings.push(message))
        yield* Effect.scoped(
          Effect.flatMap(start({ record }), ({ record }) => Effect.map(record, (all) => assert.lengthOf(all, 1)))
        ).pipe(Effect.provide(Logger.layer([logger])))
        assert.match(String(warnings[0]), /incomplete last line/)
        assert.strictEqual(fs.readFileSync(record, "utf8"), whole)
      }
    }))

  it.effect("stops the sandbox from starting when a line is not a receipt, or does not continue its key", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      yield* Effect.scoped(Effect.flatMap(start({ record }), ({ url }) => submit(url, "a", done)))
      const whole = fs.readFileSync(record, "utf8")
      fs.writeFileSync(record, `${whole}{"key":"b"}\n`)
      assert.match(yield* refusal(record), /line 2 of the record is not a receipt/)
      fs.writeFileSync(record, whole + whole)
      assert.match(yield* refusal(record), /line 2 of the record does not continue its key/)
    }))

  it.effect("is no link, which another user may have put there to have a file of this one changed", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const [record, elsewhere] = [path.join(directory, "record.jsonl"), path.join(directory, "elsewhere")]
      fs.writeFileSync(elsewhere, "no record")
      fs.symlinkSync(elsewhere, record)
      assert.match(yield* refusal(record), /Could not open the record/)
      assert.strictEqual(fs.readFileSync(elsewhere, "utf8"), "no record")
    }))

  it.effect("can hold any text that JSON can hold", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      const type = "a\u2028b\r\nc\u0000😀"
      yield* Effect.scoped(Effect.flatMap(start({ record }), ({ url }) =>
        call(`${url}/mutations`, {
          method: "POST",
          headers: { "idempotency-key": "\"a\"/%41" },
          body: JSON.stringify({ type, payload: done })
        })))
      const sandbox = yield* start({ record })
      assert.deepInclude((yield* sandbox.record)[0], { key: "\"a\"/%41", type })
      assert.strictEqual((yield* read(sandbox.url, "\"a\"/%41")).status, 200)
    }))

  it.effect.skipIf(process.platform !== "linux")(
    "lets no submission take effect while it cannot be written",
    () =>
      Effect.gen(function*() {
        const { truth, url } = yield* start({ record: "/dev/full" }).pipe(Effect.provide(Logger.layer([])))
        const { json, status } = yield* submit(url, "a", done)
        assert.strictEqual(status, 500)
        assert.deepInclude(json, { code: "sandbox_failed" })
        assert.strictEqual((yield* read(url, "a")).status, 404)
        assert.strictEqual((yield* truth("a")).status, "absent")
        assert.strictEqual((yield* submit(url, "a", done)).status, 500)
      })
  )

  // The timeout is shorter than the time that the sandbox gives to stalled clients.
  it.effect(
    "is complete once the sandbox has stopped, and the stop does not wait for late answers",
    () =>
      Effect.gen(function*() {
        const record = path.join(yield* temporaryDirectory, "record.jsonl")
        const late = told({ outcome: "succeeded", faults: { late: { ms: 600_000 } } })
        const waiting = yield* Effect.scoped(Effect.gen(function*() {
          const { url } = yield* start({ record })
          const waiting = yield* Effect.forkDetach(dial(url, submissionBytes("a", late)), { startImmediately: true })
          yield* until(() => fs.existsSync(record) && linesOf(record).length === 1)
          return waiting
        }))
        assert.strictEqual((yield* Fiber.join(waiting)).text, "")
        assert.lengthOf(linesOf(record), 1)
      }),
    4000
  )
})
