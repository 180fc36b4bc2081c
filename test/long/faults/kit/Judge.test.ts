/**
 * The judge of a chaos run reports every broken rule, and nothing else. The tests give it evidence of a correct run and
 * change one fact each.
 */
import { assert, describe, it } from "@effect/vitest"
import { SubmissionKey } from "../../../../src/sandbox/Protocol.ts"
import type { Receipt } from "../../../../src/sandbox/Record.ts"
import type { Evidence, FinalOperation, Sample, Step } from "./Evidence.ts"
import { brokenIn } from "./Figure.ts"
import { forPeople, judge } from "./Judge.ts"
import { crashPoints } from "./Plan.ts"
import { SentKeys } from "./SentKeys.ts"

const at = (milliseconds: number) => new Date(1_700_000_000_000 + milliseconds)

const operation = (id: string, last: Partial<FinalOperation>): FinalOperation => ({
  id,
  key: `key-of-${id}`,
  provider: "careful",
  state: "succeeded",
  revision: 3,
  failure_code: null,
  reference: null,
  due_at: null,
  grant_id: "grant",
  created_at: at(0),
  limit_amount: null,
  limit_currency: null,
  ...last
})

/** The history of an operation through these states, a second for each step. */
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

/** A correct run: one operation succeeded, and the other is indeterminate, because its request was lost. */
const correct: Evidence = {
  asked: { operations: 2, faults: crashPoints.length },
  acceptances: ["a", "b"].map((id) => ({ key: `key-of-${id}`, ids: new Set([id]), created: 1 })),
  operations: [operation("a", {}), operation("b", { state: "indeterminate", due_at: at(9000) })],
  history: [
    ...steps("a", "accepted", "submitting", "succeeded"),
    ...steps("b", "accepted", "submitting", "indeterminate")
  ],
  returned: new Set(),
  receipts: [receipt("a")],
  truths: [{ key: "a", receipts: 1, status: "succeeded", final: true }],
  turnedAway: 0,
  fenced: new Set(),
  sent: new Map([["a", 1]]),
  injected: crashPoints.map((point) => ({ at: 0, name: `kill ${point}` })),
  samples: [],
  outages: [],
  deaths: [],
  workerStarts: 4
}

const [a, b] = correct.operations as [FinalOperation, FinalOperation]

/** Evidence that breaks a rule, by the rule. */
const violations: ReadonlyArray<
  readonly [rule: string, figure: keyof ReturnType<typeof judge>, violation: Partial<Evidence>]
> = [
  ["the provider receives an operation once", "doubles", {
    receipts: [receipt("a"), receipt("a", { receipt: 2, outcome: "repeated" })]
  }],
  ["the workers send an operation once, also if it does not arrive", "doubleSends", {
    sent: new Map([["a", 1], ["b", 2]])
  }],
  ["an accepted key has an operation", "lost", {
    acceptances: [...correct.acceptances, { key: "gone", ids: new Set(["c"]), created: 1 }]
  }],
  ["a key is answered with one operation", "lost", {
    acceptances: [correct.acceptances[0]!, { key: "key-of-b", ids: new Set(["b", "c"]), created: 1 }]
  }],
  ["a key creates one operation", "lost", {
    acceptances: [correct.acceptances[0]!, { key: "key-of-b", ids: new Set(["b"]), created: 2 }]
  }],
  ["every received submission belongs to an accepted operation", "unknown", {
    receipts: [...correct.receipts, receipt("c")]
  }],
  ["an unsettled operation is scheduled", "abandoned", {
    operations: [a, { ...b, due_at: null }]
  }],
  ["a final status at the provider settles the operation", "abandoned", {
    truths: [...correct.truths, { key: "b", receipts: 1, status: "succeeded", final: true }]
  }],
  ["the end of a consistency window settles the operation", "abandoned", {
    operations: [a, { ...b, provider: "windowed" }]
  }],
  ["a succeeded operation succeeded at the provider", "contradictions", {
    truths: [{ key: "a", receipts: 1, status: "failed", final: true }]
  }],
  ["an operation is not settled before the provider has decided", "contradictions", {
    truths: [{ key: "a", receipts: 1, status: "pending", final: false }]
  }],
  ["a cancelled operation was never sent", "contradictions", {
    operations: [a, { ...b, state: "cancelled", revision: 2 }],
    history: [...steps("a", "accepted", "submitting", "succeeded"), ...steps("b", "accepted", "cancelled")],
    sent: new Map([["a", 1], ["b", 1]])
  }],
  ["an operation that failed as unreachable was never sent", "contradictions", {
    operations: [a, { ...b, state: "failed", failure_code: "provider_unreachable", due_at: null }],
    history: [...steps("a", "accepted", "submitting", "succeeded"), ...steps("b", "accepted", "submitting", "failed")],
    sent: new Map([["a", 1], ["b", 1]])
  }],
  ["an operation makes only permitted transitions", "illegal", {
    history: [...steps("a", "accepted", "succeeded", "succeeded"), ...correct.history.slice(3)]
  }],
  ["revisions have no gaps", "illegal", {
    history: [...correct.history.slice(0, 2), { ...correct.history[2]!, revision: 4 }, ...correct.history.slice(3)]
  }],
  ["an operation leaves indeterminate only with evidence", "illegal", {
    operations: [a, { ...b, state: "submitted", revision: 4 }],
    history: [
      ...correct.history.slice(0, 3),
      ...steps("b", "accepted", "submitting", "indeterminate", "submitted").map((step) => ({ ...step, evidence: null }))
    ],
    truths: [...correct.truths, { key: "b", receipts: 1, status: "pending", final: false }]
  }],
  ["the state of an operation is the last one in its history", "illegal", {
    history: correct.history.slice(0, -1)
  }],
  ["an operation is claimed once", "claims", {
    history: [
      ...correct.history.slice(0, 3),
      ...steps("b", "accepted", "submitting", "submitting", "indeterminate")
    ]
  }],
  ["a worker ends only by an order", "deaths", { deaths: ["worker-1"] }],
  ["every crash point is hit", "unvisited", { injected: correct.injected.slice(1) }]
]

const broken = (evidence: Evidence) => brokenIn(judge(evidence))

/** A history in which b was submitting for this many milliseconds. */
const lasting = (milliseconds: number): Pick<Evidence, "history"> => ({
  history: [...correct.history.slice(0, -1), { ...correct.history.at(-1)!, at: at(1000 + milliseconds) }]
})

const tooLong = "stuck"

describe("The keys on the wire", () => {
  /** How often a key counts, when requests with it and the answers pass over one connection. */
  const countOf = (...bytes: ReadonlyArray<"request" | "read" | `${number}`>) => {
    const sent = new SentKeys()
    let see: (bytes: Buffer) => void = () => {}
    const ask = sent.watch((given) => {
      see = given
    })
    for (const item of bytes) {
      if (item === "request") ask(Buffer.from("POST /payments HTTP/1.1\r\nidempotency-key: a\r\n\r\n{}"))
      else if (item === "read") ask(Buffer.from("GET /payments/a HTTP/1.1\r\n\r\n"))
      else see(Buffer.from(`HTTP/1.1 ${item} Answer\r\n\r\n`))
    }
    return sent.counts.get("a")
  }

  it("count each request, unless the provider answered 429 to that very request", () => {
    assert.strictEqual(countOf("request", "429", "request", "200"), 1)
    assert.strictEqual(countOf("request", "503", "request", "200"), 2)
    assert.strictEqual(countOf("request", "request", "429"), 1)
    assert.strictEqual(countOf("request", "200", "read", "429"), 1)
  })
})

describe("the judge", () => {
  it("accepts a run that kept every rule", () => {
    assert.deepStrictEqual(broken(correct), [])
  })

  for (const [rule, figure, violation] of violations) {
    it(`requires that ${rule}`, () => {
      assert.include(broken({ ...correct, ...violation }), figure)
    })
  }

  it("requires that a consent settles what never arrived, and that an order with a reference is read", () => {
    const at = (last: Partial<FinalOperation>) => ({ ...b, provider: "open-banking-uk", ...last })
    const ordered = [...correct.truths, { key: "b", receipts: 1, status: "succeeded", final: true } as const]
    assert.include(broken({ ...correct, operations: [a, at({})] }), "abandoned")
    assert.include(broken({ ...correct, operations: [a, at({ reference: "p-1" })], truths: ordered }), "abandoned")
    const forPerson = { ...correct, operations: [a, at({})], truths: ordered }
    assert.notInclude(broken(forPerson), "abandoned")
    assert.deepStrictEqual(forPeople(forPerson), ["ordered"])
  })

  it("requires that an operation is submitting at most until its rescue is due, and a second", () => {
    assert.notInclude(broken({ ...correct, ...lasting(5000) }), tooLong)
    assert.include(broken({ ...correct, ...lasting(5001) }), tooLong)
  })

  it("lets an operation whose claim was returned wait for its take-over", () => {
    assert.notInclude(broken({ ...correct, ...lasting(60_000), returned: new Set(["b"]) }), tooLong)
    assert.include(broken({ ...correct, ...lasting(60_000), returned: new Set(["a"]) }), tooLong)
  })

  it("requires that a held claim is rescued in time, also that of an operation that was returned before", () => {
    const sample = (heldSince: number) => ({
      at: at(60_000).getTime(),
      counts: {} as Sample["counts"],
      heldSince: at(heldSince).getTime()
    })
    const overdue = "held"
    assert.notInclude(broken({ ...correct, samples: [sample(55_000)] }), overdue)
    assert.include(broken({ ...correct, samples: [sample(54_999)] }), overdue)
  })

  it("does not count the time in which the database was down", () => {
    const down = (from: number, to: number) => [{ from: at(from).getTime(), to: at(to).getTime() }]
    assert.notInclude(broken({ ...correct, ...lasting(6000), outages: down(2000, 3000) }), tooLong)
    assert.include(broken({ ...correct, ...lasting(6000), outages: down(500, 1900) }), tooLong)
    assert.include(broken({ ...correct, ...lasting(6000), outages: down(8000, 9000) }), tooLong)
  })
})
