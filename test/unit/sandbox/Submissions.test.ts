/**
 * The sandbox applies and answers a submission only after its own receipt is durable. The tests hold the record back.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { Readable } from "node:stream"
import type { Receipt, SubmissionRecord } from "../../../src/sandbox/Record.ts"
import { sandboxDialect } from "../../../src/sandbox/SandboxDialect.ts"
import { defaultMix } from "../../../src/sandbox/SandboxOutcome.ts"
import { makeSubmissions } from "../../../src/sandbox/Submissions.ts"
import { told } from "../../fixtures/sandbox/SandboxHarness.ts"

const body = (payload: unknown) => Buffer.from(JSON.stringify({ type: "payment", payload }))
const done = body(told({ outcome: "succeeded" }))

const head = { method: "POST", path: "/mutations", query: new URLSearchParams(), headers: {}, now: 0 }

const submissionsOn = (record: SubmissionRecord) =>
  makeSubmissions({ dialect: sandboxDialect, seed: "x", mix: defaultMix, record, faults: () => ({}) })

/** A record that makes a receipt durable only when the test releases it. */
const heldRecord = () => {
  const appended: Array<{ readonly receipt: Receipt; readonly durable: Deferred.Deferred<void> }> = []
  const record: SubmissionRecord = {
    append: (receipt) => {
      const durable = Deferred.makeUnsafe<void>()
      appended.push({ receipt, durable })
      return Deferred.await(durable)
    },
    receipts: Effect.succeed([]),
    lines: () => Readable.from([])
  }
  return { record, appended, release: (position: number) => Deferred.succeed(appended[position]!.durable, undefined) }
}

describe("A submission", () => {
  it.effect("takes effect and is answered when its own receipt is durable, not an earlier receipt of its key", () =>
    Effect.gen(function*() {
      const { appended, record, release } = heldRecord()
      const submissions = yield* submissionsOn(record)
      const receive = (body: Buffer) =>
        Effect.forkChild(submissions.receive({ key: "a", head, body }), { startImmediately: true })
      const seen = Effect.map(
        submissions.read({ _tag: "ReadByKey", key: "a" }, head),
        (reply) => reply.answer()?.status
      )
      const fibers = [yield* receive(Buffer.from("{")), yield* receive(done), yield* receive(done)] as const
      assert.deepStrictEqual(appended.map(({ receipt }) => [receipt.receipt, receipt.outcome]), [
        [1, "invalid"],
        [2, "accepted"],
        [3, "repeated"]
      ])
      yield* release(0)
      yield* Fiber.join(fibers[0])
      assert.strictEqual(yield* seen, 404)
      assert.isUndefined(fibers[1].pollUnsafe())
      yield* release(1)
      assert.strictEqual((yield* Fiber.join(fibers[1])).answer()?.status, 200)
      assert.strictEqual(yield* seen, 200)
      assert.isUndefined(fibers[2].pollUnsafe())
      yield* release(2)
      assert.strictEqual((yield* Fiber.join(fibers[2])).answer()?.status, 200)
    }))

  it.effect("gets the same answer twice when it arrives twice at once: one is accepted, the other repeated", () =>
    Effect.gen(function*() {
      const { appended, record, release } = heldRecord()
      const submissions = yield* submissionsOn(record)
      const answers = yield* Effect.forkChild(
        Effect.forEach(
          [done, body(told({ outcome: "rejected" }))],
          (body) => Effect.map(submissions.receive({ key: "a", head, body }), ({ answer }) => answer()),
          { concurrency: "unbounded" }
        ),
        { startImmediately: true }
      )
      while (appended.length < 2) yield* Effect.yieldNow
      yield* release(0)
      yield* release(1)
      const [first, second] = yield* Fiber.join(answers)
      assert.strictEqual(first?.status, 200)
      assert.deepStrictEqual(first, second)
    }))
})
