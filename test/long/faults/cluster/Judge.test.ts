/**
 * The judge of a run on a cluster reports every broken rule, and nothing else. The tests give it the evidence of a correct run and
 * plant one fact each.
 */
import { assert, describe, it } from "@effect/vitest"
import { SubmissionKey } from "../../../../src/sandbox/Protocol.ts"
import type { Receipt } from "../../../../src/sandbox/Record.ts"
import { brokenIn } from "../kit/Figure.ts"
import type { Evidence, Exchange, Injected, RunFacts, Told } from "./History.ts"
import { type FigureName, judge } from "./Judge.ts"

const told = (id: string, revision: number, state: string, last: Partial<Told> = {}): Told => ({
  id,
  revision,
  state,
  under_review: false,
  body: `${id} ${revision}`,
  ...last
})

/** An exchange of one second that begins at this second. */
const exchange = (kind: Exchange["kind"], second: number, last: Partial<Exchange> = {}): Exchange => ({
  kind,
  port: 3000,
  from: second * 1000,
  to: second * 1000 + 1000,
  status: 200,
  grant: "grant",
  told: [],
  ...last
})

const accept = (second: number, key: string, id: string) =>
  exchange("accept", second, { key, status: 202, told: [told(id, 1, "accepted")] })

const read = (second: number, id: string, revision: number, state: string, last: Partial<Told> = {}) =>
  exchange("read", second, { id, told: [told(id, revision, state, last)] })

const unknown = (second: number, id: string) => exchange("read", second, { id, status: 404 })

const receipt = (key: string, second: number, last: Partial<Receipt> = {}): Receipt => ({
  key: SubmissionKey.make(key),
  receipt: 1,
  // The wall clock is a thousand seconds ahead.
  at: (second + 1000) * 1000,
  outcome: "accepted",
  faults: [],
  ...last
})

const fault = (second: number, last: Partial<Injected> = {}): Injected => ({
  name: "cut",
  details: "",
  from: second * 1000,
  healed: (second + 10) * 1000,
  whole: (second + 15) * 1000,
  leavesMajority: true,
  held: 0,
  ...last
})

const facts: RunFacts = {
  seed: "test",
  clock: { wall: 1_000_000, monotonic: 0 },
  resumes: true,
  faults: [fault(5)],
  deaths: [],
  sent: { a: 1, b: 1 }
}

/** Two payments. One key was repeated, because its first answer was lost. One grant was issued and revoked. */
const history: ReadonlyArray<Exchange> = [
  exchange("issue", 0, { status: 201, grant: "guest" }),
  accept(1, "key-a", "a"),
  exchange("accept", 2, { key: "key-b", status: null, problem: "timeout" }),
  accept(4, "key-b", "b"),
  exchange("list", 5, { grant: "guest", told: [told("a", 1, "accepted"), told("b", 1, "accepted")] }),
  exchange("feed", 6, { told: [told("b", 2, "submitting")] }),
  // It began before the answer above was complete, and may be older.
  { ...exchange("list", 6, { told: [told("b", 1, "accepted")] }), to: 8000 },
  exchange("read", 7, { id: "a", status: 503 }),
  exchange("revoke", 8, { status: null, grant: "guest" }),
  exchange("list", 8, { grant: "guest", status: 401 }),
  exchange("revoke", 10, { status: 204, grant: "guest" }),
  exchange("list", 12, { grant: "guest", status: 401 }),
  read(200, "a", 3, "succeeded"),
  read(200, "b", 2, "submitting")
]

const correct: Evidence = { history, receipts: [receipt("a", 20), receipt("b", 20)], facts }

const withHistory = (...more: ReadonlyArray<Exchange>): Evidence => ({ ...correct, history: [...history, ...more] })

const neverSent = withHistory(accept(3, "key-c", "c"), read(200, "c", 1, "accepted"))

/** Evidence that breaks a rule, by the rule. */
const violations: ReadonlyArray<readonly [rule: string, figure: FigureName, violation: Evidence]> = [
  ["the provider receives an operation once", "doubles", {
    ...correct,
    receipts: [...correct.receipts, receipt("a", 30, { receipt: 2, outcome: "repeated" })]
  }],
  ["the provider receives an operation once, also if its record begins anew", "doubles", {
    ...correct,
    receipts: [...correct.receipts, receipt("b", 30)]
  }],
  ["the workers send an operation once, also if it does not arrive", "doubleSends", {
    ...correct,
    facts: { ...facts, sent: { a: 1, b: 2 } }
  }],
  ["every submission belongs to an operation that a client knows", "orphans", {
    ...correct,
    receipts: [...correct.receipts, receipt("c", 20)]
  }],
  ["an acknowledged operation is known at the end", "lost", withHistory(unknown(210, "a"))],
  [
    "a key is answered with one operation",
    "lost",
    withHistory(accept(150, "key-a", "c"), read(200, "c", 1, "accepted"))
  ],
  ["every key is answered in the end", "open", withHistory(exchange("accept", 150, { key: "key-c", status: 503 }))],
  ["every acknowledged operation is read in the end", "open", {
    ...withHistory(accept(201, "key-c", "c")),
    receipts: [...correct.receipts, receipt("c", 202)]
  }],
  ["a revision has one body", "unsaid", withHistory(read(150, "a", 3, "succeeded", { body: "another" }))],
  ["a told revision is reached in the end", "unsaid", withHistory(read(150, "b", 3, "succeeded"))],
  [
    "an operation that any answer told is known in the end",
    "unsaid",
    withHistory(
      exchange("feed", 150, { told: [told("c", 1, "accepted")] }),
      unknown(201, "c")
    )
  ],
  [
    "sequential reads do not go back",
    "back",
    withHistory(read(150, "a", 2, "submitting"), read(152, "a", 1, "accepted"))
  ],
  [
    "sequential reads do not go back, of whichever kind they are",
    "back",
    withHistory(
      exchange("feed", 150, { told: [told("a", 2, "submitting")] }),
      exchange("list", 152, { port: 3001, told: [told("a", 1, "accepted")] })
    )
  ],
  ["what was told as sent was received", "unsent", { ...correct, receipts: [receipt("b", 20)] }],
  ["a revoked grant reads nothing", "revoked", withHistory(exchange("list", 13, { grant: "guest" }))],
  [
    "a revoked grant pays nothing",
    "revoked",
    withHistory(
      { ...accept(13, "key-c", "c"), grant: "guest" },
      read(200, "c", 1, "accepted")
    )
  ],
  ["an acknowledged grant reads", "refused", withHistory(exchange("list", 3, { grant: "guest", status: 401 }))],
  ["an operation is submitted within a minute of a fault", "late", {
    ...correct,
    receipts: [receipt("a", 20), receipt("b", 66)]
  }],
  ["an operation that stays accepted is submitted", "late", neverSent],
  ["a correct request has a declared answer", "invalid", withHistory(exchange("list", 13, { status: 500 }))],
  [
    "the operations of a grant exceed no limit, unless they failed",
    "overspent",
    withHistory(
      exchange("issue", 12, { status: 201, grant: "spender", budget: 1 }),
      { ...accept(13, "key-c", "c"), grant: "spender" },
      { ...accept(14, "key-d", "d"), grant: "spender" },
      { ...accept(15, "key-e", "e"), grant: "spender" },
      read(200, "c", 1, "accepted"),
      read(200, "d", 2, "indeterminate"),
      read(200, "e", 2, "failed")
    )
  ],
  ["a process ends only by a fault", "deaths", { ...correct, facts: { ...facts, deaths: ["work1"] } }]
]

const broken = (evidence: Evidence): ReadonlyArray<string> => brokenIn(judge(evidence))

describe("the judge of a cluster", () => {
  it("accepts a run that kept every rule", () => {
    assert.deepStrictEqual(broken(correct), [])
  })

  for (const [rule, figure, violation] of violations) {
    it(`requires that ${rule}`, () => {
      assert.include(broken(violation), figure)
    })
  }

  it("has a planted violation for every figure", () => {
    assert.sameMembers([...new Set(violations.map(([, figure]) => figure))], Object.keys(judge(correct)))
  })

  it("lets concurrent reads overtake each other", () => {
    const slow = { ...read(150, "a", 1, "accepted"), to: 160_000 }
    assert.deepStrictEqual(broken(withHistory(slow, read(152, "a", 2, "submitting"))), [])
  })

  it("lets the body of a revision change with its review", () => {
    const reviewed = read(150, "b", 2, "submitting", { under_review: true, body: "another" })
    assert.deepStrictEqual(broken(withHistory(reviewed)), [])
  })

  it("lets a limit refuse an acceptance", () => {
    const issued = exchange("issue", 12, { status: 201, grant: "spender", budget: 0 })
    const refused = exchange("accept", 13, { key: "key-c", grant: "spender", status: 403, problem: "limit_exceeded" })
    assert.deepStrictEqual(broken(withHistory(issued, refused)), [])
  })

  it("lets a grant be refused once its revocation was sent", () => {
    assert.deepStrictEqual(broken(withHistory(exchange("list", 9, { grant: "guest", status: 401 }))), [])
  })

  it("does not count the time of a fault that leaves no majority", () => {
    const late = { ...correct, receipts: [receipt("a", 20), receipt("b", 66)] }
    const faults = [fault(5, { leavesMajority: false })]
    assert.deepStrictEqual(broken({ ...late, facts: { ...facts, faults } }), [])
  })

  it("counts the minute anew with each fault", () => {
    const late = { ...correct, receipts: [receipt("a", 20), receipt("b", 66)] }
    assert.deepStrictEqual(broken({ ...late, facts: { ...facts, faults: [fault(5), fault(25)] } }), [])
  })

  it("does not require submissions to resume without a witness", () => {
    assert.deepStrictEqual(broken({ ...neverSent, facts: { ...facts, resumes: false } }), [])
  })

  it("lets an operation whose claim may be lost stay unsent", () => {
    const uncertain = [...history.slice(0, -1), read(200, "b", 3, "indeterminate")]
    assert.deepStrictEqual(broken({ ...correct, history: uncertain, receipts: [receipt("a", 20)] }), [])
  })

  it("does not count a request that arrived in part", () => {
    const partial = receipt("a", 21, { receipt: 0, outcome: "incomplete" })
    assert.deepStrictEqual(broken({ ...correct, receipts: [...correct.receipts, partial] }), [])
  })
})
