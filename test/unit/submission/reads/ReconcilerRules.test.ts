/**
 * A status read leads to the transition of the specification's table, and the schedule keeps to its bounds. The tests
 * try every answer in every state.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Random } from "effect"
import { StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { decideAfterRead } from "../../../../src/submission/reads/decideAfterRead.ts"
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
  succeeded,
  unclear,
  unreachable
} from "../../../fixtures/submission/World.ts"

/** As the claim left it: without an acknowledgement. */
const unacknowledged = {
  operation: operationOf({ send_before: DateTime.makeUnsafe("2026-01-01T00:00:30Z") }),
  created_at: DateTime.makeUnsafe("2026-01-01T00:00:00Z"),
  acknowledged: false,
  reference: null,
  taken_at: DateTime.makeUnsafe("9999-01-01T00:00:00Z"),
  askedAt: { wall: Date.UTC(9999, 0), monotonic: 0n },
  sent_as: null,
  fence_started_at: null
}

describe("The decision after a status read", () => {
  // From the specification, "States and transitions". `stays` is nothing.
  type Row = readonly [answer: StatusAnswer | null, submitted: string, indeterminate: string, held: string]
  const table: ReadonlyArray<Row> = [
    [pending, "stays", "submitted", "submitted"],
    [succeeded, "succeeded", "succeeded", "succeeded"],
    [failed, "failed", "failed", "failed"],
    [neverReceived, "stays", "failed", "stays"],
    [unreachable, "indeterminate", "stays", "stays"],
    [notFound, "stays", "stays", "stays"],
    [unclear, "stays", "stays", "stays"],
    [null, "stays", "stays", "stays"]
  ]
  const states = ["submitted", "indeterminate", "accepted"] as const
  const rows = table.flatMap(([answer, ...expected]) =>
    states.map((state, n) => [answer, state, expected[n]!] as const)
  )

  const name = (answer: StatusAnswer | null) =>
    answer === null
      ? "no read"
      : `${answer._tag} ${"state" in answer ? answer.state : ""}${"reason" in answer ? answer.reason : ""}`

  it.each(rows.map(([answer, state, expected]) => [name(answer).trim(), state, expected, answer] as const))(
    "after %s of an operation that is %s: %s",
    (_, state, expected, answer) => {
      const decision = decideAfterRead({ ...unacknowledged, state }, answer, { promises: findsById })
      const actual = decision._tag === "Record" ? decision.outcome.state : decision._tag
      assert.strictEqual(actual, expected === "stays" ? "Postpone" : expected)
    }
  )

  it("never treats an operation as unreceived that the provider has acknowledged or once had", () => {
    for (const state of ["indeterminate", "accepted"] as const) {
      assert.strictEqual(
        decideAfterRead({ ...unacknowledged, state, acknowledged: true }, neverReceived, { promises: findsById })._tag,
        "Postpone"
      )
    }
  })

  it("includes the evidence", () => {
    const decision = decideAfterRead({ ...unacknowledged, state: "indeterminate" }, succeeded)
    assert.deepInclude(decision, { evidence: { by: "status_read", answer: evidence } })
  })

  it("says of an operation that was never received until when it could be sent, and when the provider was asked", () => {
    const decision = decideAfterRead({ ...unacknowledged, state: "indeterminate" }, neverReceived, {
      promises: findsById
    })
    const { operation: { send_before }, taken_at } = unacknowledged
    assert.deepInclude("evidence" in decision ? { ...decision.evidence } : {}, {
      send_before: DateTime.formatIso(send_before!),
      asked_at: DateTime.formatIso(taken_at)
    })
  })

  it("asks a person about an order of which the provider tells neither a result nor a reference", () => {
    const ordered = StatusAnswer.NotProven({ reason: "ordered", detail: "the consent is used" })
    const promises = { ...findsById, question: () => "Which payment is it?" }
    const decision = decideAfterRead({ ...unacknowledged, state: "indeterminate" }, ordered, { promises })
    assert.deepInclude(decision, { _tag: "Postpone", question: "Which payment is it?" })
  })

  it("keeps the reference from a read, even without a transition", () => {
    for (const state of ["submitted", "indeterminate"] as const) {
      assert.deepInclude(decideAfterRead({ ...unacknowledged, state }, pending), { reference })
    }
  })

  it("takes the question to a person back once the provider has the operation, and not before", () => {
    const questionAfter = (answer: StatusAnswer) => {
      const decision = decideAfterRead({ ...unacknowledged, state: "submitted" }, answer, { promises: findsById })
      return "question" in decision ? decision.question : "stays"
    }
    assert.deepStrictEqual([pending, notFound, unclear].map(questionAfter), [null, "stays", "stays"])
  })
})

describe("The schedule of status reads", () => {
  it.effect("spreads operations that failed at the same time", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      yield* world.acceptMany(50)
      yield* world.work
      const dues = [...world.memory.operations.values()].map(({ due_at }) => due_at!)
      assert.isAbove(new Set(dues).size, 30)
      assert.isTrue(dues.every((due) => due >= 800 && due <= 1200))
    }).pipe(Random.withSeed("spread")))
})
