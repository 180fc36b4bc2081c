/**
 * A bank of another form is a dialect of the sandbox: record, outcomes and faults are the same. The bank of these tests has the key in
 * the body, refuses a known key, and finds an order by its key or by its own reference.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result } from "effect"
import { type Dialect, jsonAnswer } from "../../../src/sandbox/Dialect.ts"
import { Sandbox, type SandboxOptions } from "../../../src/sandbox/Sandbox.ts"
import { call } from "../../fixtures/sandbox/SandboxHarness.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const orders: Dialect = {
  demandOf: ({ headers, method, path, query }) => {
    if (!path.startsWith("/orders")) return null
    if (headers["api-key"] !== "right") return { _tag: "Answered", answer: jsonAnswer(403, {}) }
    if (method === "POST") return { _tag: "Submit", key: null }
    if (path === "/orders/all") {
      return {
        _tag: "List",
        limit: 2,
        after: query.get("after"),
        matches: ({ status }) => status.status !== "failed",
        answer: (page, hasMore) => jsonAnswer(200, { keys: page.map(({ status }) => status.idempotency_key), hasMore })
      }
    }
    const own = query.get("own_id")
    return own === null
      ? { _tag: "ReadByReference", reference: path.slice("/orders/".length) }
      : { _tag: "ReadByKey", key: own }
  },
  submissionOf: (_, body) => {
    const { own_id: key, qty = 0 } = JSON.parse(body) as { own_id?: string; qty?: number }
    if (key === undefined) return Result.fail("own_id is missing")
    return Result.succeed({
      key,
      type: "order",
      instruction: { outcome: qty > 100 ? "rejected" : "succeeded" },
      sendBefore: Infinity
    })
  },
  write: (saying) => {
    if (saying._tag === "Status" || saying._tag === "Taken" && saying.isFirst) {
      const { idempotency_key, reference, status } = saying.known.status
      return jsonAnswer(200, { id: reference, own_id: idempotency_key, status })
    }
    return jsonAnswer(saying._tag === "NotFound" ? 404 : 422, { said: saying._tag })
  }
}

const bank = (options: SandboxOptions = {}) =>
  Effect.map(Layer.build(Layer.fresh(Sandbox.layer(options, orders))), (context) => Context.get(context, Sandbox))

const headers = { "api-key": "right" }
const order = ({ url }: Sandbox["Service"], body: object) =>
  call(`${url}/orders`, { method: "POST", headers, body: JSON.stringify(body) })
const get = ({ url }: Sandbox["Service"], path: string) => call(`${url}${path}`, { headers })

describe("A dialect of the sandbox", () => {
  it.effect("reads a key from the body, and carries it out once", () =>
    Effect.gen(function*() {
      const sandbox = yield* bank()
      const first = yield* order(sandbox, { own_id: "a", qty: 1 })
      assert.deepInclude(first.json, { own_id: "a", status: "succeeded" })
      assert.deepStrictEqual((yield* order(sandbox, { own_id: "a", qty: 1 })).json, { said: "Taken" })
      assert.deepStrictEqual((yield* sandbox.record).map(({ key, outcome }) => [key, outcome]), [
        ["a", "accepted"],
        ["a", "repeated"]
      ])
    }))

  it.effect("does not record a request without a key, or without credentials", () =>
    Effect.gen(function*() {
      const sandbox = yield* bank()
      assert.deepStrictEqual((yield* order(sandbox, { qty: 1 })).json, { said: "Invalid" })
      const refused = yield* call(`${sandbox.url}/orders`, { method: "POST", body: JSON.stringify({ own_id: "a" }) })
      assert.strictEqual(refused.status, 403)
      assert.deepStrictEqual(yield* sandbox.record, [])
    }))

  it.effect("lists in pages what it carries out, the newest first, and hides what a fault hides", () =>
    Effect.gen(function*() {
      const sandbox = yield* bank()
      const references = new Map<string, string>()
      for (const own_id of ["a", "b", "c", "d"]) {
        const { json } = yield* order(sandbox, { own_id, qty: own_id === "b" ? 200 : 1 })
        references.set(own_id, (json as { readonly id: string }).id)
      }
      const list = (after = "") => Effect.map(get(sandbox, `/orders/all${after}`), ({ json }) => json)
      assert.deepStrictEqual(yield* list(), { keys: ["d", "c"], hasMore: true })
      assert.deepStrictEqual(yield* list(`?after=${references.get("c")}`), { keys: ["a"], hasMore: false })
      assert.deepStrictEqual(yield* list("?after=unknown"), { keys: ["d", "c"], hasMore: true })
      yield* sandbox.setFaults({ not_found_for: { rate: 1, ms: 60_000 } })
      assert.deepStrictEqual(yield* list(), { keys: [], hasMore: false })
      yield* sandbox.setFaults({ bad_gateway: { rate: 1 } })
      assert.strictEqual((yield* get(sandbox, "/orders/all")).status, 502)
    }))

  it.effect("finds a submission by its key and by its reference, also after a restart", () =>
    Effect.gen(function*() {
      const record = `${yield* temporaryDirectory}/record.jsonl`
      const known = yield* Effect.scoped(Effect.gen(function*() {
        const sandbox = yield* bank({ record })
        const { json } = yield* order(sandbox, { own_id: "a", qty: 1 })
        assert.deepStrictEqual((yield* get(sandbox, `/orders/${(json as { id: string }).id}`)).json, json)
        return json as { readonly id: string }
      }))
      const sandbox = yield* bank({ record })
      assert.deepStrictEqual((yield* get(sandbox, `/orders/${known.id}`)).json, known)
      assert.deepStrictEqual((yield* get(sandbox, "/orders?own_id=a")).json, known)
      assert.strictEqual((yield* get(sandbox, "/orders/unknown")).status, 404)
    }))

  it.effect("has the faults of the sandbox: an order whose answer is lost is carried out", () =>
    Effect.gen(function*() {
      const sandbox = yield* bank({ faults: { drop_response: { rate: 1, on: "submission" } } })
      assert.strictEqual((yield* order(sandbox, { own_id: "a", qty: 1 })).error, "ECONNRESET")
      assert.strictEqual((yield* get(sandbox, "/orders?own_id=a")).status, 200)
    }))
})
