/**
 * The control endpoints of the sandbox show its record and set its faults, and refuse bad input. The tests use a
 * sandbox on loopback.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { isLoopback } from "../../../src/sandbox/SandboxServer.ts"
import { call, read, start, submit, told } from "../../fixtures/sandbox/SandboxHarness.ts"

const done = told({ outcome: "succeeded" })
const put = (url: string, body: string) => call(`${url}/faults`, { method: "PUT", body })
const jsonLines = (text: string) => text.split("\n").slice(0, -1).map((line) => JSON.parse(line) as unknown)

describe("The control plane", () => {
  it.effect("shows the record and the truth on both ports", () =>
    Effect.gen(function*() {
      const { controlUrl, url } = yield* start()
      yield* submit(url, "a", done)
      yield* submit(url, "a", done)
      for (const at of [url, controlUrl]) {
        const record = jsonLines((yield* call(`${at}/record`)).text)
        assert.lengthOf(record, 2)
        assert.deepInclude(record[0], { key: "a", receipt: 1, at: "1970-01-01T00:00:00.000Z", outcome: "accepted" })
        assert.deepInclude(record[1], { key: "a", receipt: 2, outcome: "repeated" })
        const truth = { key: "a", receipts: 2, status: "succeeded", final: true }
        assert.deepStrictEqual(jsonLines((yield* call(`${at}/truth`)).text), [truth])
        assert.deepStrictEqual((yield* call(`${at}/truth/a`)).json, truth)
        assert.deepInclude((yield* call(`${at}/truth/c`)).json, { receipts: 0, status: "absent" })
      }
      assert.strictEqual((yield* call(`${controlUrl}/mutations/a`)).status, 404)
    }))

  it.effect("replaces all fault settings at once, from the next request on", () =>
    Effect.gen(function*() {
      const { faults, url } = yield* start({ faults: { lose: { rate: 1 } } })
      const settings = { bad_gateway: { rate: 1, on: "submission" }, late: { rate: 0, ms: 60_000 } }
      const { json, status } = yield* put(url, JSON.stringify(settings))
      assert.deepStrictEqual([status, json], [200, settings])
      assert.deepStrictEqual((yield* call(`${url}/faults`)).json, settings)
      assert.deepEqual<unknown>(yield* faults, settings)
      assert.strictEqual((yield* submit(url, "a", done)).status, 502)
      assert.strictEqual((yield* read(url, "a")).status, 200)
    }))

  it.effect("changes nothing on bad input, and describes the error in one line", () =>
    Effect.gen(function*() {
      const { faults, url } = yield* start({ faults: { slow: { rate: 0 } } })
      const bad = [
        ["{", 400, /./],
        ["", 400, /./],
        ["[]", 422, /./],
        [`{"slow":{"rate":1.5}}`, 422, /^slow: rate: /],
        [`{"slow":{"rate":-0.1}}`, 422, /^slow: rate: /],
        [`{"slow":{"rate":"1"}}`, 422, /^slow: rate: /],
        [`{"slow":{"ms":1}}`, 422, /^slow: rate: /],
        [`{"slow":{"rate":1,"ms":0.5}}`, 422, /^slow: ms: /],
        [`{"slow":{"rate":1,"ms":3e9}}`, 422, /^slow: ms: /],
        [`{"slow":{"rate":1,"on":"sundays"}}`, 422, /^slow: on: /],
        [`{"lose":{"rate":1,"ms":1}}`, 422, /^lose: ms: /],
        [`{"sloth":{"rate":1}}`, 422, /^sloth: /]
      ] as const
      for (const [body, expected, reason] of bad) {
        const { json, status } = yield* put(url, body)
        assert.strictEqual(status, expected, body)
        assert.match((json as { readonly message: string }).message, reason)
        assert.notInclude((json as { readonly message: string }).message, "\n")
      }
      assert.deepStrictEqual(yield* faults, { slow: { rate: 0 } })
    }))

  it("listens only on loopback", () => {
    for (const address of ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]) assert.isTrue(isLoopback(address))
    for (const address of ["10.0.0.1", "::", "::ffff:10.0.0.1", "fe80::1", undefined]) {
      assert.isFalse(isLoopback(address))
    }
  })
})

describe("A submission", () => {
  it.effect("without a valid key is answered 400 and not recorded", () =>
    Effect.gen(function*() {
      const { record, url } = yield* start()
      const body = JSON.stringify({ type: "payment", payload: {} })
      for (const key of ["", "two words", "k".repeat(256)]) {
        const headers = { "idempotency-key": key }
        const { json, status } = yield* call(`${url}/mutations`, { method: "POST", headers, body })
        assert.strictEqual(status, 400)
        assert.deepInclude(json, { code: "invalid_key" })
      }
      assert.strictEqual((yield* call(`${url}/mutations`, { method: "POST", body })).status, 400)
      assert.strictEqual((yield* call(`${url}/mutations/%E0%A4%A`)).status, 400)
      assert.deepStrictEqual(yield* record, [])
    }))

  it.effect("with an invalid body is answered 400, and counted", () =>
    Effect.gen(function*() {
      const { truth, url } = yield* start()
      const bodies = ["", "{", "[]", `{"type":"payment"}`, `{"type":"","payload":{}}`, `{"type":7,"payload":{}}`]
      for (const body of bodies) {
        const { json, status } = yield* call(`${url}/mutations`, {
          method: "POST",
          headers: { "idempotency-key": "a" },
          body
        })
        assert.strictEqual(status, 400, body)
        assert.deepInclude(json, { code: "invalid_request" })
      }
      assert.strictEqual((yield* truth("a")).receipts, bodies.length)
    }))
})
