/**
 * The reconciler reads a success for as long as its provider may reverse it, and records a proven reversal: no state changes. The tests run
 * it against a scripted provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import * as SubmissionMetrics from "../../../../src/metrics/SubmissionMetrics.ts"
import { StatusAnswer, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { decideAfterRead } from "../../../../src/submission/reads/decideAfterRead.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { drive, pathTo } from "../../../fixtures/ledger/Ledger.ts"
import { parseScrape } from "../../../fixtures/metrics/Scrape.ts"
import { operationOf } from "../../../fixtures/submission/HttpProviderServer.ts"
import {
  evidence,
  failed,
  findsById,
  makeWorld,
  neverReceived,
  notFound,
  pending,
  reference,
  type Script,
  succeeded,
  unclear,
  unreachable
} from "../../../fixtures/submission/World.ts"

const threeDays = { ...findsById, reversibleFor: "3 days" } as const
const failures = { account_closed: { message: "The account of the payee is closed." } }
const foreign = StatusAnswer.Proven({
  state: "failed",
  code: "account_closed",
  names: { reference: null, operation_id: "another" },
  evidence
})

/** An operation that a status read proved to have succeeded. The reads after it have the answers of `later`; the last one repeats. */
const worldOf = Effect.fnUntraced(
  function*(later: ReadonlyArray<StatusAnswer>, script: Script = {}, isClaimed = false) {
    const world = yield* makeWorld({
      promises: threeDays,
      failures,
      policy: { pollInterval: Duration.minutes(2) },
      read: (read) => Effect.succeed(read === 1 ? succeeded : later[Math.min(read - 2, later.length - 1)]!),
      ...script
    })
    const id = yield* world.acceptOne
    yield* isClaimed ? world.work : world.inside(drive(yield* world.show(id), pathTo.submitted))
    yield* world.start(Reconciler.layer)
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(yield* world.stateOf(id), "succeeded")
    return { world, id, reversal: () => world.recordOf(id).reversal?.evidence ?? null }
  }
)

describe("A read after success", () => {
  const due = {
    operation: operationOf({}),
    state: "succeeded" as const,
    created_at: DateTime.makeUnsafe("2026-01-01T00:00:00Z"),
    taken_at: DateTime.makeUnsafe("9999-01-01T00:00:00Z"),
    acknowledged: true,
    fence_started_at: null,
    reference
  }

  it.each<readonly [string, StatusAnswer | null, string]>([
    ["a proven failure", failed, "Reversed"],
    ["a failure of another operation", foreign, "Contradicted"],
    ["success", succeeded, "Postpone"],
    ["pending", pending, "Postpone"],
    ["never received", neverReceived, "Postpone"],
    ["not found", notFound, "Postpone"],
    ["an unclear answer", unclear, "Postpone"],
    ["no connection", unreachable, "Postpone"],
    ["no read", null, "Postpone"]
  ])("that gets %s", (_, answer, expected) => {
    assert.strictEqual(decideAfterRead(due, answer, { promises: threeDays })._tag, expected)
  })

  it.effect("is daily, ends with the time in which it may be reversed, and records nothing without a proof", () =>
    Effect.gen(function*() {
      const { id, reversal, world } = yield* worldOf([pending, unclear, succeeded])
      yield* TestClock.adjust("10 days")
      assert.lengthOf(world.reads, 4, "one proved the success, and three followed it")
      const hours = world.reads.map(({ at }) => Math.round(at / 3_600_000))
      assert.deepStrictEqual(hours.slice(1), [24, 48, 72])
      assert.isNull(reversal())
      assert.isNull(world.recordOf(id).reversal_read)
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted", "succeeded"])
    }))

  it.effect.each<readonly [type: string, reads: number]>([["payment", 4], ["transfer", 1]])(
    "follows a success only of a type that may be reversed: %s",
    ([type, reads]) =>
      Effect.gen(function*() {
        const { id, world } = yield* worldOf([pending], {
          promises: { ...findsById, reversibleFor: { byType: { [type]: "3 days" } } }
        })
        const { reversible_for } = (yield* world.evidenceOf(id)) as { readonly reversible_for?: string }
        assert.strictEqual(reversible_for, type === "payment" ? "3d" : undefined)
        yield* TestClock.adjust("10 days")
        assert.lengthOf(world.reads, reads)
      })
  )

  it.effect("that proves a failure records it once, is counted, and changes nothing of the operation", () =>
    Effect.gen(function*() {
      const { id, reversal, world } = yield* worldOf([succeeded, failed])
      const before = yield* world.show(id)
      yield* TestClock.adjust("10 days")
      assert.deepStrictEqual(yield* world.show(id), before)
      const failure = { code: "account_closed", message: failures.account_closed.message }
      assert.deepStrictEqual(reversal(), { by: "status_read", answer: evidence, failure })
      assert.lengthOf(world.reads, 3)
      const lines = world.logs.filter(({ message }) => String(message).startsWith("A succeeded operation was reversed"))
      assert.deepStrictEqual(lines.map(({ annotations, level }) => [level, annotations["operation_id"]]), [[
        "WARN",
        id
      ]])
      const { total } = parseScrape(yield* PrometheusMetrics.format())
      assert.strictEqual(total("gateway_reversals_total", { provider: "bank" }), 1)
    }).pipe(Effect.provide(SubmissionMetrics.layer), Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("is repeated after an hour while the provider does not answer, also the last one", () =>
    Effect.gen(function*() {
      const { reversal, world } = yield* worldOf([succeeded, succeeded, unreachable, unreachable, failed])
      yield* TestClock.adjust("4 days")
      const hours = world.reads.map(({ at }) => Math.round(at / 3_600_000))
      assert.deepStrictEqual(hours.slice(1), [24, 48, 72, 73, 74])
      assert.isNotNull(reversal())
    }))

  it.effect("whose answers are not clear is followed by others, for 30 days after the time of its reversal", () =>
    Effect.gen(function*() {
      const unauthorized = StatusAnswer.NotProven({ reason: "unclear", detail: "status 401" })
      const repaired = yield* worldOf([...Array(9).fill(unauthorized), failed])
      yield* TestClock.adjust("20 days")
      assert.lengthOf(repaired.world.reads, 11)
      assert.isNotNull(repaired.reversal())
      const { id, world } = yield* worldOf([unauthorized])
      yield* TestClock.adjust("90 days")
      assert.isAtMost(world.reads.length, 1 + 34)
      assert.isNull(world.recordOf(id).reversal_read)
    }))

  it.effect("is not asked while the settings name another account, and is asked afterwards", () =>
    Effect.gen(function*() {
      let account = "first"
      const { reversal, world } = yield* worldOf([failed], {
        account: () => account,
        submit: () => Effect.fail(new Uncertain({ reason: "lost" }))
      }, true)
      account = "second"
      yield* TestClock.adjust("10 days")
      assert.lengthOf(world.reads, 1)
      assert.isNull(reversal())
      account = "first"
      yield* TestClock.adjust("1 day")
      assert.isNotNull(reversal())
    }))

  it.effect("takes half of what the reads of open outcomes leave", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ promises: threeDays, read: () => Effect.succeed(succeeded) })
      const settled = yield* world.acceptMany(9)
      for (const id of settled) yield* world.inside(drive(yield* world.show(id), pathTo.submitted))
      yield* world.reconcile
      yield* TestClock.adjust("2 days")
      const open = yield* world.acceptMany(3)
      for (const id of open) yield* world.inside(drive(yield* world.show(id), pathTo.indeterminate))
      yield* TestClock.adjust("1 minute")
      const ran = world.reads.length
      const run = (limit: number) => world.inside(world.reconciler.runOnce(world.grant.provider, limit))
      assert.strictEqual(yield* run(3), 3)
      assert.sameMembers(world.reads.slice(ran).map(({ id }) => id), [...open])
      assert.strictEqual(yield* run(8), 4)
    }))
})

describe("A success that its provider does not reverse", () => {
  it.effect("is never read again", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldOf([failed], { promises: findsById })
      yield* TestClock.adjust("10 days")
      assert.lengthOf(world.reads, 1)
      assert.isNull(world.recordOf(id).reversal)
    }))
})
