/**
 * Each fault of the sandbox changes what a client sees in exactly its documented way. The tests use a sandbox on
 * loopback and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { call, dial, read, start, submissionBytes, submit, told } from "../../fixtures/sandbox/SandboxHarness.ts"
import { until } from "../../fixtures/until.ts"

const succeeded = (faults: unknown) => told({ outcome: "succeeded", faults })
const later = (faults: unknown) => told({ outcome: "succeeded", settle_after_ms: 60_000, faults })

/** Waits until the sandbox has recorded this number of receipts. */
const recorded = (sandbox: { readonly record: Effect.Effect<ReadonlyArray<unknown>, unknown> }, count: number) =>
  until(() => Effect.runPromise(Effect.map(sandbox.record, (receipts) => receipts.length === count)))

describe("Faults of the sandbox", () => {
  it.effect("slow: the submission takes effect and is answered only after the delay, or is too late by then", () =>
    Effect.gen(function*() {
      const sandbox = yield* start()
      const slow = succeeded({ slow: { ms: 5000 } })
      const [inTime, late] = [
        yield* Effect.forkChild(submit(sandbox.url, "a", slow), { startImmediately: true }),
        yield* Effect.forkChild(submit(sandbox.url, "b", slow, { "send-before": "1970-01-01T00:00:04.999Z" }), {
          startImmediately: true
        })
      ]
      yield* recorded(sandbox, 2)
      for (const key of ["a", "b"]) assert.strictEqual((yield* read(sandbox.url, key)).status, 404)
      assert.strictEqual((yield* sandbox.truth("a")).status, "absent")
      yield* TestClock.adjust(4999)
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 404)
      assert.isUndefined(inTime.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual((yield* Fiber.join(inTime)).status, 200)
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 200)
      const { json, status } = yield* Fiber.join(late)
      assert.deepInclude(json, { code: "too_late" })
      assert.strictEqual(status, 409)
      assert.strictEqual((yield* sandbox.truth("b")).status, "refused")
    }))

  it.effect("refuse_connection at rate 1: nothing listens on the port until the fault ends", () =>
    Effect.gen(function*() {
      const sandbox = yield* start()
      yield* sandbox.setFaults({ refuse_connection: { rate: 1 } })
      assert.strictEqual((yield* submit(sandbox.url, "a")).error, "ECONNREFUSED")
      assert.strictEqual((yield* call(`${sandbox.controlUrl}/record`)).text, "")
      const { status } = yield* call(`${sandbox.controlUrl}/faults`, { method: "PUT", body: "{}" })
      assert.strictEqual(status, 200)
      assert.strictEqual((yield* submit(sandbox.url, "a", succeeded({}))).status, 200)
      assert.strictEqual((yield* sandbox.truth("a")).receipts, 1)
    }))

  it.effect("refuse_connection at rate 1: a kept-alive connection is closed, too", () =>
    Effect.gen(function*() {
      const sandbox = yield* start()
      const kept = yield* Effect.forkChild(dial(sandbox.url, submissionBytes("a", succeeded({}))), {
        startImmediately: true
      })
      yield* recorded(sandbox, 1)
      // The receipt is recorded before the answer. Only a connection that has answered is idle.
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 200)
      yield* sandbox.setFaults({ refuse_connection: { rate: 1 } })
      const { end, text } = yield* Fiber.join(kept)
      assert.match(text, /^HTTP\/1\.1 200 /)
      assert.strictEqual(end, "end")
    }))

  it.effect("unauthorized: requests of both kinds get 401, and nothing is carried out or recorded", () =>
    Effect.gen(function*() {
      const sandbox = yield* start({ faults: { unauthorized: { rate: 1 } } })
      const refused = yield* submit(sandbox.url, "a", succeeded({}))
      assert.strictEqual(refused.status, 401)
      assert.deepInclude(refused.json, { code: "unauthorized" })
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 401)
      assert.deepStrictEqual(yield* sandbox.record, [])
      yield* sandbox.setFaults({})
      assert.strictEqual((yield* submit(sandbox.url, "a", succeeded({}))).status, 200)
      assert.strictEqual((yield* sandbox.truth("a")).receipts, 1)
    }))

  it.effect("too_many_requests: requests of both kinds beyond the limit get 429 with Retry-After, and do nothing", () =>
    Effect.gen(function*() {
      const sandbox = yield* start()
      yield* sandbox.setFaults({ too_many_requests: { rate: 1, requests: 3, ms: 4000 } })
      assert.strictEqual((yield* submit(sandbox.url, "a", succeeded({}))).status, 200)
      yield* TestClock.adjust(1500)
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 200)
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 200)
      const refused = yield* submit(sandbox.url, "b", succeeded({}))
      assert.deepStrictEqual([refused.status, refused.retryAfter], [429, "3"])
      assert.deepInclude(refused.json, { code: "too_many_requests" })
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 429)
      assert.strictEqual((yield* sandbox.truth("b")).status, "absent")
      assert.strictEqual((yield* sandbox.record).length, 1)
      // The first request leaves the window.
      yield* TestClock.adjust(2500)
      assert.strictEqual((yield* submit(sandbox.url, "b", succeeded({}))).status, 200)
      assert.deepStrictEqual(
        (yield* sandbox.arrivals).map(({ at, isTurnedAway, kind }) => [kind, at, isTurnedAway]),
        [
          ["submission", 0, false],
          ["status", 1500, false],
          ["status", 1500, false],
          ["submission", 1500, true],
          ["status", 1500, true],
          ["submission", 4000, false]
        ]
      )
      const { text } = yield* call(`${sandbox.controlUrl}/arrivals`)
      assert.strictEqual(text.trim().split("\n").length, 6)
    }))

  it.effect("refuse_connection below rate 1: some connections are reset before anything is read", () =>
    Effect.gen(function*() {
      const seen = yield* Effect.forEach(["x", "x", "y"], (seed) =>
        Effect.scoped(Effect.gen(function*() {
          const sandbox = yield* start({ seed, faults: { refuse_connection: { rate: 0.5 } } })
          const ends = yield* Effect.forEach(Array.from({ length: 24 }, (_, n) => `k${n}`), (key) =>
            Effect.map(submit(sandbox.url, key, succeeded({})), ({ error, status }) => error ?? status))
          const receipts = yield* sandbox.record
          assert.strictEqual(
            receipts.length,
            ends.filter((end) =>
              end === 200
            ).length
          )
          return ends
        })))
      assert.sameMembers([...new Set(seen[0])], ["ECONNRESET", 200])
      assert.deepStrictEqual(seen[0], seen[1])
      assert.notDeepEqual(seen[0], seen[2])
    }))

  it.effect("drop_response: executed, and the connection is closed without a byte", () =>
    Effect.gen(function*() {
      const { record, truth, url } = yield* start()
      const { end, text } = yield* dial(url, submissionBytes("a", succeeded({ drop_response: true })))
      assert.deepStrictEqual({ end, text }, { end: "end", text: "" })
      assert.deepInclude((yield* record)[0], { outcome: "accepted", faults: ["drop_response"] })
      assert.strictEqual((yield* truth("a")).status, "succeeded")
      assert.strictEqual((yield* read(url, "a")).status, 200)
    }))

  it.effect("reset_mid_body: executed; head and half of the body arrive, then a reset", () =>
    Effect.gen(function*() {
      const { truth, url } = yield* start()
      const { end, text } = yield* dial(url, submissionBytes("a", succeeded({ reset_mid_body: true })))
      const [head, half] = text.split("\r\n\r\n")
      const promised = Number(/content-length: (\d+)/.exec(head ?? "")?.[1])
      assert.strictEqual(end, "ECONNRESET")
      assert.match(head ?? "", /^HTTP\/1\.1 200 /)
      assert.strictEqual(half?.length, Math.floor(promised / 2))
      assert.strictEqual((yield* truth("a")).status, "succeeded")
    }))

  it.effect("bad_gateway, garbage_body, wrong_content_type: executed, and answered with no JSON, or as if it were none", () =>
    Effect.gen(function*() {
      const { truth, url } = yield* start()
      const gateway = yield* submit(url, "a", succeeded({ bad_gateway: true }))
      assert.deepInclude(gateway, { status: 502, type: "text/html" })
      assert.match(gateway.text, /^<html>/)
      assert.strictEqual((yield* truth("a")).status, "succeeded")
      const garbage = yield* submit(url, "b", later({ garbage_body: true }))
      assert.deepInclude(garbage, { status: 202, type: "application/json", json: undefined })
      assert.isNotEmpty(garbage.text)
      assert.strictEqual((yield* truth("b")).status, "pending")
      const page = yield* submit(url, "c", later({ wrong_content_type: true }))
      assert.deepInclude(page, { status: 202, type: "text/html" })
      assert.deepInclude(page.json, { status: "pending" })
    }))

  it.effect("late: executed at once, and answered minutes later", () =>
    Effect.gen(function*() {
      const sandbox = yield* start()
      const answer = yield* Effect.forkChild(submit(sandbox.url, "a", succeeded({ late: { ms: 600_000 } })), {
        startImmediately: true
      })
      yield* recorded(sandbox, 1)
      assert.deepInclude((yield* read(sandbox.url, "a")).json, { status: "succeeded" })
      yield* TestClock.adjust(599_999)
      assert.isUndefined(answer.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepInclude((yield* Fiber.join(answer)).json, { status: "succeeded" })
    }))

  it.effect("not_found_for: accepted, and not found for a while", () =>
    Effect.gen(function*() {
      const { truth, url } = yield* start()
      assert.strictEqual((yield* submit(url, "a", succeeded({ not_found_for: { ms: 3000 } }))).status, 200)
      assert.deepInclude((yield* read(url, "a")).json, { code: "not_found" })
      assert.strictEqual((yield* truth("a")).status, "succeeded")
      yield* TestClock.adjust(2999)
      assert.strictEqual((yield* read(url, "a")).status, 404)
      yield* TestClock.adjust(1)
      assert.strictEqual((yield* read(url, "a")).status, 200)
    }))

  it.effect("duplicate_key_rejected: a key that was received before gets 409; without the fault, its first answer", () =>
    Effect.gen(function*() {
      const { record, setFaults, url } = yield* start()
      const payload = told({ outcome: "succeeded", settle_after_ms: 1000 })
      const first = yield* submit(url, "a", payload)
      yield* TestClock.adjust(1000)
      assert.deepStrictEqual(yield* submit(url, "a", payload), first)
      yield* setFaults({ duplicate_key_rejected: { rate: 1 } })
      const { json, status } = yield* submit(url, "a", payload)
      assert.deepInclude(json, { code: "duplicate_key" })
      assert.strictEqual(status, 409)
      assert.strictEqual((yield* submit(url, "b", payload)).status, 202)
      assert.deepStrictEqual(
        (yield* record).map(({ key, outcome, receipt }) => [key, receipt, outcome]),
        [["a", 1, "accepted"], ["a", 2, "repeated"], ["a", 3, "duplicate_key"], ["b", 1, "accepted"]]
      )
    }))

  it.effect("flapping_status: pending, the truth, 404 and 502 in turn, until the number of reads is reached", () =>
    Effect.gen(function*() {
      const { url } = yield* start()
      yield* submit(url, "a", told({ outcome: "failed", code: "no", faults: { flapping_status: { reads: 8 } } }))
      const seen = yield* Effect.forEach(Array.from({ length: 11 }), () => read(url, "a"))
      const round = ["pending", "failed", 404, 502]
      assert.deepStrictEqual(
        seen.map(({ json, status }) => status === 200 ? (json as { readonly status: string }).status : status),
        [...round, ...round, "failed", "failed", "failed"]
      )
    }))

  it.effect("foreign_answer: executed, and answered with the status of another submission, with its key and reference", () =>
    Effect.gen(function*() {
      const { record, setFaults, truth, url } = yield* start()
      const payload = told({ outcome: "failed", code: "no", faults: { foreign_answer: { on: "both", times: 1 } } })
      const own = "a"
      const seen = [yield* submit(url, own, payload), yield* read(url, own)]
      for (const { json, status } of seen) {
        assert.strictEqual(status, 200)
        assert.deepInclude(json, { status: "succeeded" })
        assert.notDeepInclude(json, { idempotency_key: own })
      }
      assert.deepStrictEqual(seen[0]!.json, seen[1]!.json)
      assert.deepInclude((yield* record)[0], { outcome: "accepted", faults: ["foreign_answer"] })
      assert.deepInclude(yield* truth(own), { receipts: 1, status: "failed" })
      const after = yield* read(url, own)
      assert.deepInclude(after.json, { status: "failed", idempotency_key: own })
      assert.notStrictEqual(
        (after.json as { readonly reference: string }).reference,
        (seen[0]!.json as { readonly reference: string }).reference
      )
      yield* setFaults({ foreign_answer: { rate: 1, on: "status" } })
      assert.deepInclude((yield* read(url, "unknown")).json, { status: "succeeded" })
    }))

  it.effect("without foreign_answer: every answer about a submission names its key", () =>
    Effect.gen(function*() {
      const { setFaults, url } = yield* start()
      yield* setFaults({ duplicate_key_rejected: { rate: 1 } })
      const past = { "send-before": "1969-12-31T23:59:59Z" }
      const answers = [
        yield* submit(url, "a", told({ outcome: "succeeded" })),
        yield* submit(url, "a"),
        yield* submit(url, "b", told({ outcome: "pending" })),
        yield* submit(url, "c", told({ outcome: "rejected" })),
        yield* submit(url, "d", {}, past),
        yield* submit(url, "e", told({ outcome: "unheard of" })),
        ...yield* Effect.forEach(["a", "b", "c", "d"], (key) => read(url, key))
      ]
      assert.deepStrictEqual(
        answers.map(({ json, status }) => [status, (json as { readonly idempotency_key: string }).idempotency_key]),
        [[200, "a"], [409, "a"], [202, "b"], [422, "c"], [409, "d"], [400, "e"], [200, "a"], [200, "b"], [200, "c"], [
          404,
          "d"
        ]]
      )
    }))

  it.effect("lose: the connection is closed, nothing is executed, and the status is always 404", () =>
    Effect.gen(function*() {
      const { record, setFaults, truth, url } = yield* start({ faults: { lose: { rate: 1 } } })
      const { end, text } = yield* dial(url, submissionBytes("a"))
      assert.deepStrictEqual({ end, text }, { end: "end", text: "" })
      assert.deepStrictEqual(yield* truth("a"), { key: "a", receipts: 1, status: "refused", final: true })
      yield* setFaults({})
      // Not even if the submission is repeated after the fault has ended.
      assert.strictEqual((yield* submit(url, "a")).error, "ECONNRESET")
      yield* TestClock.adjust("400 days")
      assert.strictEqual((yield* read(url, "a")).status, 404)
      assert.deepStrictEqual((yield* record).map(({ outcome }) => outcome), ["lost", "lost"])
    }))

  it.effect("transport faults also affect status reads, each read separately", () =>
    Effect.gen(function*() {
      const { setFaults, url } = yield* start()
      yield* submit(url, "a", succeeded({}))
      yield* setFaults({
        drop_response: { rate: 0.3 },
        bad_gateway: { rate: 0.3, on: "status" },
        reset_mid_body: { rate: 0.3 },
        garbage_body: { rate: 0.3 }
      })
      const seen = yield* Effect.forEach(Array.from({ length: 60 }), () => read(url, "a"))
      const kinds = seen.map(({ error, json, status }) => error ?? (json === undefined ? `spoilt ${status}` : status))
      assert.sameMembers([...new Set(kinds)], ["ECONNRESET", "spoilt 502", "spoilt 200", 200])
      yield* setFaults({ drop_response: { rate: 1, on: "submission" } })
      assert.strictEqual((yield* read(url, "a")).status, 200)
    }))

  it.effect("an instruction applies a fault to the first attempts, or excludes the submission from it", () =>
    Effect.gen(function*() {
      const { url } = yield* start({ faults: { garbage_body: { rate: 1 } } })
      const faults = { bad_gateway: { on: "status", times: 2 }, garbage_body: false }
      assert.strictEqual((yield* submit(url, "a", succeeded(faults))).status, 200)
      const seen = yield* Effect.forEach([1, 2, 3], () => read(url, "a"))
      assert.deepStrictEqual(seen.map(({ status }) => status), [502, 502, 200])
    }))

  it.effect("a client that disconnects does not undo its submission", () =>
    Effect.gen(function*() {
      const sandbox = yield* start()
      const payload = succeeded({ slow: { ms: 5000 } })
      const answer = yield* Effect.forkChild(submit(sandbox.url, "a", payload), { startImmediately: true })
      yield* recorded(sandbox, 1)
      yield* Fiber.interrupt(answer)
      yield* TestClock.adjust(5000)
      assert.strictEqual((yield* read(sandbox.url, "a")).status, 200)
    }))
})
