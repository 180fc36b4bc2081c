/**
 * The sandbox sends signed webhooks for accepted submissions and their outcomes, disturbed by its faults, and never waits for the
 * receiver. The tests use a receiver on loopback and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import { Webhook } from "standardwebhooks"
import type { SandboxWebhook } from "../../../src/sandbox/Protocol.ts"
import type { SandboxOptions } from "../../../src/sandbox/Sandbox.ts"
import { serving } from "../../fixtures/http/listening.ts"
import { start, submit, told } from "../../fixtures/sandbox/SandboxHarness.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"
import { until } from "../../fixtures/until.ts"

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
const signer = new Webhook(secret)

interface Received {
  readonly id: string
  /** Seconds of the test's clock. */
  readonly seconds: number
  readonly isSigned: boolean
  readonly body: SandboxWebhook
}

/** A receiver that answers with this status; 0 never answers. */
const receiver = Effect.fnUntraced(function*(status = 204) {
  const received: Array<Received> = []
  const url = yield* serving(async (request, response) => {
    const body = await text(request)
    const [id, seconds, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
      String(request.headers[name])
    ) as [string, string, string]
    received.push({
      id,
      seconds: Number(seconds),
      // Not `verify`: the test's clock is decades behind.
      isSigned: signer.sign(id, new Date(Number(seconds) * 1000), body) === signature,
      body: JSON.parse(body) as SandboxWebhook
    })
    if (status > 0) response.writeHead(status).end()
  })
  return { received, webhooks: { url: `${url}/hook`, secret: Redacted.make(secret) } }
})

const later = (faults: unknown = {}) => told({ outcome: "succeeded", settle_after_ms: 60_000, faults })

/** Waits for this number of webhooks. */
const arrive = (received: ReadonlyArray<Received>, count: number) => until(() => received.length >= count)

describe("Webhooks of the sandbox", () => {
  it.effect("tell the acceptance and the outcome when they happen, with the status and a signature", () =>
    Effect.gen(function*() {
      const { received, webhooks } = yield* receiver()
      const sandbox = yield* start({ webhooks })
      yield* submit(sandbox.url, "a", later())
      yield* arrive(received, 1)
      yield* TestClock.adjust("59 seconds")
      assert.lengthOf(received, 1)
      yield* TestClock.adjust("1 second")
      yield* arrive(received, 2)
      assert.deepStrictEqual(received.map(({ isSigned }) => isSigned), [true, true])
      assert.deepStrictEqual(received.map(({ seconds }) => seconds), [0, 60])
      const reference = (received[0]!.body.data as { readonly reference: string }).reference
      assert.deepStrictEqual(received.map(({ body }) => body), [
        {
          type: "mutation.accepted",
          timestamp: "1970-01-01T00:00:00.000Z",
          data: { reference, idempotency_key: "a", status: "pending" }
        },
        {
          type: "mutation.settled",
          timestamp: "1970-01-01T00:01:00.000Z",
          data: { reference, idempotency_key: "a", status: "succeeded" }
        }
      ])
      assert.notStrictEqual(received[0]!.id, received[1]!.id)
    }))

  it.effect("tell an outcome that comes at once alone, and neither a refusal nor a repetition", () =>
    Effect.gen(function*() {
      const { received, webhooks } = yield* receiver()
      const sandbox = yield* start({ webhooks })
      yield* submit(sandbox.url, "refused", told({ outcome: "rejected" }))
      yield* submit(sandbox.url, "lost", told({ faults: { lose: true } }))
      yield* submit(sandbox.url, "late", later(), { "send-before": "1969-12-31T23:59:59Z" })
      for (let n = 0; n < 3; n++) yield* submit(sandbox.url, "done", told({ outcome: "succeeded" }))
      yield* arrive(received, 1)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(received.map(({ body }) => [body.type, body.data.idempotency_key, body.data.status]), [
        ["mutation.settled", "done", "succeeded"]
      ])
    }))

  it.effect.each([302, 500])("are tried five times, and then given up: status %d", (status) =>
    Effect.gen(function*() {
      const { received, webhooks } = yield* receiver(status)
      const sandbox = yield* start({ webhooks })
      yield* submit(sandbox.url, "a", told({ outcome: "succeeded" }))
      for (const [n, pause] of [500, 1000, 2000, 4000].entries()) {
        yield* arrive(received, n + 1)
        // The pause begins when the response reaches the sandbox, some turns of the event loop later.
        const before = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
        while (received.length === n + 1) {
          yield* TestClock.adjust(100)
          yield* until(() => new Promise<boolean>((resolve) => setImmediate(() => resolve(true))))
        }
        assert.isAtLeast((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) - before, pause)
      }
      yield* arrive(received, 5)
      yield* TestClock.adjust("1 day")
      assert.lengthOf(received, 5)
      assert.lengthOf(new Set(received.map(({ id }) => id)), 1)
      assert.isTrue(received.every(({ isSigned }) => isSigned))
    }))

  it.effect("never delay an answer or the end of the sandbox, also if the receiver does not answer", () =>
    Effect.gen(function*() {
      const { received, webhooks } = yield* receiver(0)
      const scope = yield* Scope.make()
      const sandbox = yield* Scope.provide(start({ webhooks }), scope)
      for (let n = 0; n < 40; n++) {
        assert.strictEqual((yield* submit(sandbox.url, `k${n}`, told({ outcome: "succeeded" }))).status, 200)
      }
      yield* arrive(received, 16)
      yield* Scope.close(scope, Exit.void)
      assert.lengthOf(received, 16)
    }))

  it.effect("that are still to come survive a restart, by the record", () =>
    Effect.gen(function*() {
      const { received, webhooks } = yield* receiver()
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      const options: SandboxOptions = { webhooks, record }
      yield* Effect.scoped(Effect.flatMap(start(options), ({ url }) => submit(url, "a", later())))
      const told = received.length
      yield* TestClock.adjust("30 seconds")
      yield* start(options)
      yield* TestClock.adjust("30 seconds")
      yield* arrive(received, told + 1)
      assert.strictEqual(received.at(-1)!.body.type, "mutation.settled")
      assert.strictEqual(received.at(-1)!.seconds, 60)
    }))

  const disturbed: ReadonlyArray<
    readonly [fault: string, expected: ReadonlyArray<readonly [type: string, seconds: number, isSigned: boolean]>]
  > = [
    ["webhook_duplicate", [
      ["mutation.accepted", 0, true],
      ["mutation.accepted", 0, true],
      ["mutation.settled", 60, true],
      ["mutation.settled", 60, true]
    ]],
    ["webhook_reorder", [["mutation.settled", 60, true], ["mutation.accepted", 60, true]]],
    ["webhook_delay", [["mutation.accepted", 2, true], ["mutation.settled", 62, true]]],
    ["webhook_forge", [
      ["mutation.settled", 0, false],
      ["mutation.accepted", 0, true],
      ["mutation.settled", 60, false],
      ["mutation.settled", 60, true]
    ]],
    ["webhook_lose", []]
  ]
  for (const [fault, expected] of disturbed) {
    it.effect(`${fault}: ${expected.map(([type, seconds]) => `${type} at ${seconds} s`).join(", ") || "none"}`, () =>
      Effect.gen(function*() {
        for (const way of ["switched", "instructed"] as const) {
          const { received, webhooks } = yield* receiver()
          const begin = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
          const sandbox = yield* start({ webhooks, faults: way === "switched" ? { [fault]: { rate: 1 } } : {} })
          yield* submit(sandbox.url, "a", later(way === "switched" ? {} : { [fault]: true }))
          for (const pause of [0, 2000, 58_000, 2000]) {
            yield* TestClock.adjust(pause)
            const now = (yield* Effect.clockWith((clock) => clock.currentTimeMillis)) - begin
            yield* arrive(received, expected.filter(([, seconds]) => seconds * 1000 <= now).length)
          }
          yield* TestClock.adjust("1 hour")
          assert.deepStrictEqual(
            received.map(({ body, isSigned, seconds }) => [body.type, seconds - begin / 1000, isSigned]),
            expected.map((entry) => [...entry]),
            way
          )
          // A duplicate has the id of its first, so that receivers can tell.
          if (fault === "webhook_duplicate") assert.lengthOf(new Set(received.map(({ id }) => id)), 2)
        }
      }))
  }

  it.effect("refuse a secret or a URL of another form, without a word of the secret", () =>
    Effect.gen(function*() {
      const good = "http://127.0.0.1/hook"
      for (
        const [url, given] of [
          [good, "hunter2"],
          [good, "whsec_aHVudGVyMg=="],
          ["ftp://127.0.0.1/", secret],
          ["hunter2", secret]
        ] as const
      ) {
        const exit = yield* Effect.exit(start({ webhooks: { url, secret: Redacted.make(given) } }))
        assert.isTrue(Exit.isFailure(exit))
        const text = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
        for (const word of [secret, "aHVudGVyMg"]) assert.notInclude(text, word)
        if (given === "hunter2") assert.notInclude(text, "hunter2")
      }
    }))
})
