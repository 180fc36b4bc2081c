import { assert, describe, it } from "@effect/vitest"
import { SubmissionKey } from "../../../src/sandbox/Protocol.ts"
import type { Receipt } from "../../../src/sandbox/Record.ts"
import type { Evidence, FinalOperation, Step } from "./Evidence.ts"
import { isAcquitted, judge } from "./Judge.ts"
import { crashPoints } from "./Plan.ts"

const at = (milliseconds: number) => new Date(1_700_000_000_000 + milliseconds)

const operation = (id: string, last: Partial<FinalOperation>): FinalOperation => ({
  id,
  key: `key-of-${id}`,
  provider: "careful",
  state: "succeeded",
  revision: 3,
  failure_code: null,
  due_at: null,
  ...last
})

/** The history of an operation that went this way, a second for each step. */
const steps = (operation_id: string, ...states: ReadonlyArray<Step["to_state"]>): ReadonlyArray<Step> =>
  states.map((to_state, index) => ({
    operation_id,
    revision: index + 1,
    from_state: states[index - 1] ?? null,
    to_state,
    at: at(index * 1000),
    evidence: { by: "test" }
  }))

const receipt = (key: string, last: Partial<Receipt> = {}): Receipt => ({
  key: SubmissionKey.make(key),
  receipt: 1,
  at: at(0).getTime(),
  outcome: "accepted",
  faults: [],
  ...last
})

/** One operation succeeded, and nobody knows what became of the other, because it was lost on its way. */
const honest: Evidence = {
  asked: { operations: 2, faults: crashPoints.length },
  acceptances: ["a", "b"].map((id) => ({ key: `key-of-${id}`, ids: new Set([id]), created: 1 })),
  operations: [operation("a", {}), operation("b", { state: "indeterminate", due_at: at(9000) })],
  history: [
    ...steps("a", "accepted", "submitting", "succeeded"),
    ...steps("b", "accepted", "submitting", "indeterminate")
  ],
  receipts: [receipt("a")],
  truths: [{ key: "a", receipts: 1, status: "succeeded", final: true }],
  sent: new Map([["a", 1]]),
  injected: crashPoints.map((point) => ({ at: 0, fault: { kind: "crash_point", point, blow: "kill" } })),
  samples: [],
  outages: [],
  deaths: [],
  workerStarts: 4
}

const [a, b] = honest.operations as [FinalOperation, FinalOperation]

/** Evidence of what must never happen, by the rule that it breaks. */
const crimes: ReadonlyArray<readonly [rule: string, figure: string, crime: Partial<Evidence>]> = [
  ["the provider receives an operation once", "double submissions, by the provider's record", {
    receipts: [receipt("a"), receipt("a", { receipt: 2, outcome: "repeated" })]
  }],
  ["an operation leaves the workers once, also when it does not arrive", "double sends, by the wire", {
    sent: new Map([["a", 1], ["b", 2]])
  }],
  ["an accepted key has an operation", "operations lost", {
    acceptances: [...honest.acceptances, { key: "gone", ids: new Set(["c"]), created: 1 }]
  }],
  ["a key is answered with one operation", "operations lost", {
    acceptances: [honest.acceptances[0]!, { key: "key-of-b", ids: new Set(["b", "c"]), created: 1 }]
  }],
  ["a key creates one operation", "operations lost", {
    acceptances: [honest.acceptances[0]!, { key: "key-of-b", ids: new Set(["b"]), created: 2 }]
  }],
  ["what the provider received was accepted", "submissions without an operation", {
    receipts: [...honest.receipts, receipt("c")]
  }],
  ["an unsettled operation has somebody who acts on it", "operations abandoned", {
    operations: [a, { ...b, due_at: null }]
  }],
  ["what the provider would prove is found out", "operations abandoned", {
    truths: [...honest.truths, { key: "b", receipts: 1, status: "succeeded", final: true }]
  }],
  ["what a window proves is found out", "operations abandoned", {
    operations: [a, { ...b, provider: "windowed" }]
  }],
  ["what succeeded did so at the provider", "settled against the provider's truth", {
    truths: [{ key: "a", receipts: 1, status: "failed", final: true }]
  }],
  ["what the provider has not decided is not settled", "settled against the provider's truth", {
    truths: [{ key: "a", receipts: 1, status: "pending", final: false }]
  }],
  ["what was cancelled was never sent", "settled against the provider's truth", {
    operations: [a, { ...b, state: "cancelled", revision: 2 }],
    history: [...steps("a", "accepted", "submitting", "succeeded"), ...steps("b", "accepted", "cancelled")],
    sent: new Map([["a", 1], ["b", 1]])
  }],
  ["what could not be sent was never sent", "settled against the provider's truth", {
    operations: [a, { ...b, state: "failed", failure_code: "provider_unreachable", due_at: null }],
    history: [...steps("a", "accepted", "submitting", "succeeded"), ...steps("b", "accepted", "submitting", "failed")],
    sent: new Map([["a", 1], ["b", 1]])
  }],
  ["an operation goes the permitted ways alone", "illegal history rows", {
    history: [...steps("a", "accepted", "succeeded", "succeeded"), ...honest.history.slice(3)]
  }],
  ["revisions have no gap", "illegal history rows", {
    history: [...honest.history.slice(0, 2), { ...honest.history[2]!, revision: 4 }, ...honest.history.slice(3)]
  }],
  ["indeterminate is left on proof alone", "illegal history rows", {
    operations: [a, { ...b, state: "submitted", revision: 4 }],
    history: [
      ...honest.history.slice(0, 3),
      ...steps("b", "accepted", "submitting", "indeterminate", "submitted").map((step) => ({ ...step, evidence: null }))
    ],
    truths: [...honest.truths, { key: "b", receipts: 1, status: "pending", final: false }]
  }],
  ["an operation is where its history ends", "illegal history rows", { history: honest.history.slice(0, -1) }],
  ["an operation is claimed once", "claims of one operation", {
    history: [
      ...honest.history.slice(0, 3),
      ...steps("b", "accepted", "submitting", "submitting", "indeterminate")
    ]
  }],
  ["a worker dies only when it is told to", "workers that died by themselves", { deaths: ["worker-1"] }],
  ["every crash point is hit", "crash points not hit", { injected: honest.injected.slice(1) }]
]

const broken = (evidence: Evidence) => judge(evidence).filter(({ holds }) => !holds).map(({ name }) => name)

/** That b was submitting for so many milliseconds. */
const lasting = (milliseconds: number): Pick<Evidence, "history"> => ({
  history: [...honest.history.slice(0, -1), { ...honest.history.at(-1)!, at: at(1000 + milliseconds) }]
})

const tooLong = "operations submitting for longer than 5000 ms"

describe("the judge", () => {
  it("acquits a run that kept every promise", () => {
    assert.deepStrictEqual(broken(honest), [])
    assert.isTrue(isAcquitted(judge(honest)))
  })

  for (const [rule, figure, crime] of crimes) {
    it(`sees to it that ${rule}`, () => {
      assert.include(broken({ ...honest, ...crime }), figure)
    })
  }

  it("sees to it that an operation is submitting no longer than until it is rescued, and a second", () => {
    assert.notInclude(broken({ ...honest, ...lasting(5000) }), tooLong)
    assert.include(broken({ ...honest, ...lasting(5001) }), tooLong)
  })

  it("leaves out the time at which the database was down", () => {
    const down = (from: number, to: number) => [{ from: at(from).getTime(), to: at(to).getTime() }]
    assert.notInclude(broken({ ...honest, ...lasting(6000), outages: down(2000, 3000) }), tooLong)
    assert.include(broken({ ...honest, ...lasting(6000), outages: down(500, 1900) }), tooLong)
    assert.include(broken({ ...honest, ...lasting(6000), outages: down(8000, 9000) }), tooLong)
  })
})
