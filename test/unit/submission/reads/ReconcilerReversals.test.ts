/**
 * The reconciler reads a success for as long as its provider may reverse it, and records a proven reversal: no state changes. The tests run
 * it against a scripted provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { type ProviderPromises, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { decideAfterRead } from "../../../../src/submission/reads/decideAfterRead.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { operationOf } from "../../../fixtures/submission/HttpProviderServer.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import {
  bank,
  evidence,
  failed,
  findsById,
  neverReceived,
  notFound,
  pending,
  reference,
  succeeded,
  unclear,
  unreachable
} from "../../../fixtures/submission/World.ts"

const threeDays = { ...findsById, reversibleFor: "3 days" } as const
const message = "The account of the payee is closed."
const foreign = StatusAnswer.Proven({
  state: "failed",
  code: "account_closed",
  names: { reference: null, operation_id: "another" },
  evidence
})
const unauthorized = StatusAnswer.NotProven({ reason: "unclear", detail: "status 401" })
const reads = w.start(Reconciler.layer)
const often = w.policy({ pollInterval: Duration.minutes(2) })

/** An operation that a status read proved to have succeeded. The reads after it have these answers; the last one repeats. */
const success = (later: ReadonlyArray<StatusAnswer>, promises: ProviderPromises = threeDays) => [
  often,
  w.given({ promises, failures: { account_closed: { message } } }),
  [w.finds(succeeded, ...later), w.accept(), w.move("submitted"), reads, w.pass("1 hour"), w.is("succeeded")]
]
const reversed = (expected: boolean) =>
  w.check(({ ids, world }) => assert.strictEqual((world.recordOf(ids[0]!).reversal ?? null) !== null, expected))
/** The hours of the reads after the one that proved the success. */
const hours = (...expected: ReadonlyArray<number>) =>
  w.check(({ world }) =>
    assert.deepStrictEqual(world.reads.slice(1).map(({ at }) => Math.round(at / 3_600_000)), expected)
  )

describe("A read after success", () => {
  const due = {
    operation: operationOf({}),
    state: "succeeded" as const,
    created_at: DateTime.makeUnsafe("2026-01-01T00:00:00Z"),
    taken_at: DateTime.makeUnsafe("9999-01-01T00:00:00Z"),
    askedAt: { wall: Date.UTC(9999, 0), monotonic: 0n },
    acknowledged: true,
    sent_as: null,
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

  it("that is indirect proves a failure only with the provider's reference", () => {
    const answers = [{ ...failed, names: { ...failed.names, reference: null } }, failed]
    assert.deepStrictEqual(
      answers.map((answer) =>
        decideAfterRead({ ...due, reference: null }, answer, { promises: { readByOperationId: "indirectly" } })._tag
      ),
      ["Postpone", "Reversed"]
    )
  })
})

w.tell("A read after success", {
  "is daily, ends with the time in which it may be reversed, and records nothing without a proof": [
    [success([pending, unclear, succeeded]), w.pass("10 days"), hours(24, 48, 72), reversed(false)],
    [w.stored({ reversal_read: null }), w.went("submitting submitted succeeded")]
  ],
  ...w.each(
    [["payment", 4], ["transfer", 1]] as const,
    ([type]) => `follows a success only of a type that may be reversed: ${type}`,
    ([type, count]) => [
      success([pending], { ...findsById, reversibleFor: { byType: { [type]: "3 days" } } }),
      w.act(({ ids, world }) =>
        Effect.map(world.evidenceOf(ids[0]!), (evidence) => {
          const { reversible_for } = evidence as { readonly reversible_for?: string }
          assert.strictEqual(reversible_for, type === "payment" ? "3d" : undefined)
        })
      ),
      [w.pass("10 days"), w.read(count)]
    ]
  ),
  "that proves a failure records it once, is counted, and changes nothing of the operation": [
    [success([succeeded, failed]), w.unchanged(w.pass("10 days")), w.read(3)],
    w.check(({ ids, world }) =>
      assert.deepStrictEqual<unknown>(world.recordOf(ids[0]!).reversal?.evidence, {
        by: "status_read",
        answer: evidence,
        failure: { code: "account_closed", message }
      })
    ),
    w.logged("A succeeded operation was reversed", 1),
    w.check(({ ids, world }) => {
      const line = world.logs.find(({ message }) => String(message).startsWith("A succeeded operation was reversed"))!
      assert.deepStrictEqual([line.level, line.annotations["operation_id"]], ["WARN", ids[0]])
    }),
    w.measured("gateway_reversals_total", 1, { provider: bank })
  ],
  "is repeated after an hour while the provider does not answer, also the last one": [
    [success([succeeded, succeeded, unreachable, unreachable, failed]), w.pass("4 days"), hours(24, 48, 72, 73, 74)],
    reversed(true)
  ],
  "whose answers are not clear is followed by others, for 30 days after the time of its reversal": [
    [success([...Array(9).fill(unauthorized), failed]), w.pass("20 days"), w.read(11), reversed(true)]
  ],
  "whose answers are not clear ends 30 days after the time of its reversal": [
    [
      success([unauthorized]),
      w.policy({ pollInterval: Duration.hours(1) }),
      w.pass("90 days"),
      w.stored({ reversal_read: null })
    ],
    w.check(({ world }) => assert.isAtMost(world.reads.length, 1 + 34))
  ],
  "is not asked while the settings name another account, and is asked afterwards": [
    [w.given({ promises: threeDays }), often, w.account("first"), w.answers(w.reset), w.finds(succeeded, failed)],
    [w.accept(), w.work(), reads, w.pass("1 hour"), w.is("succeeded"), w.account("second"), w.pass("10 days")],
    [w.read(1), reversed(false), w.account("first"), w.pass("1 day"), reversed(true)]
  ],
  "takes half of what the reads of open outcomes leave": [
    [w.given({ promises: threeDays }), w.finds(succeeded)],
    [Array.from({ length: 9 }, () => [w.accept(), w.move("submitted")]), w.reconcile(), w.pass("2 days")],
    [[1, 2, 3].map(() => [w.accept(), w.move("indeterminate")]), w.pass("1 minute"), w.mark],
    [w.reconcileUpTo(3), w.readSince(3), w.is("succeeded"), w.reconcileUpTo(8, 4)]
  ]
})

w.tell("A success that its provider does not reverse", {
  "is never read again": [[success([failed], findsById), w.pass("10 days"), w.read(1), reversed(false)]]
})
