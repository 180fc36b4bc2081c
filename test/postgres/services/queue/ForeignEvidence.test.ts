/**
 * An answer about another operation is no evidence for this one. The tests run worker and reconciler against a sandbox
 * over HTTP, check the rules by property, and call the ledger.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Exit } from "effect"
import * as fc from "fast-check"
import { OperationId, type OperationState, OperationType } from "../../../../src/domain/Operation.ts"
import { isProviderReference, type ProviderReference } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { type Settlement, settlementOf } from "../../../../src/submission/attempts/Settlement.ts"
import {
  type AnswerNames,
  namesNothing,
  StatusAnswer,
  type SubmissionAnswer
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import { decideAfterRead } from "../../../../src/submission/reads/decideAfterRead.ts"
import type { TimedRead } from "../../../../src/submission/reads/fences.ts"
import { accept, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import * as l from "../../../fixtures/ledger/LedgerStories.ts"
import { inspect, pass, recording, reference } from "../../../fixtures/ledger/Queue.ts"
import { submissionScene } from "./SubmissionScene.ts"

const soon = Duration.minutes(10)

layer(PostgresLedger, { excludeTestServices: true })("a provider that answers for another operation", (it) => {
  it.effect("settles nothing by a status read, and a review begins", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity, logs, reconcile, sandbox, work } = yield* submissionScene
      const { operation: { id } } = yield* accept(identity, {
        payload: { sandbox: { outcome: "failed", settle_after_ms: 1 } }
      })
      yield* work
      const submitted = yield* ledger.show(id)
      const stored = (yield* inspect(id)).reference
      assert.strictEqual(submitted.state, "submitted")
      yield* sandbox.setFaults({ foreign_answer: { rate: 1 } })
      yield* pass(soon)
      assert.strictEqual(yield* reconcile, 1)
      const read = yield* ledger.show(id)
      assert.deepInclude(read, { state: "submitted", revision: submitted.revision, under_review: true })
      assert.strictEqual((yield* inspect(id)).reference, stored)

      const warning = JSON.parse(logs.find((line) => line.includes("another operation"))!)
      assert.deepInclude(warning, { level: "WARN" })
      assert.deepInclude(warning.annotations, { operation_id: id, member: "operation_id", expected: id })
      assert.match(String(warning.annotations["named"]), /^[0-9a-f]{64}$/)

      yield* sandbox.setFaults({})
      yield* pass(soon)
      yield* reconcile
      assert.strictEqual((yield* ledger.show(id)).state, "failed", "the next answer, about itself, counts")
    }))
})

const [own, another] = ["019aa4f0-5c00-7b1e-8d2f-000000000001", "019aa4f0-5c00-7b1e-8d2f-000000000002"].map((id) =>
  OperationId.make(id)
) as [OperationId, OperationId]
const submitted = { id: own, type: OperationType.make("payment") }

const evidence = { said: "so" }
const references = ["r1", "r2"].map(reference)

const anyNames: fc.Arbitrary<AnswerNames> = fc.record({
  reference: fc.constantFrom(null, ...references, "" as ProviderReference),
  operation_id: fc.constantFrom(null, own, another, own.toUpperCase(), "")
})

const anyStatusAnswer: fc.Arbitrary<StatusAnswer> = anyNames.chain((names) =>
  fc.constantFrom(
    StatusAnswer.Proven({ state: "submitted", names, evidence }),
    StatusAnswer.Proven({ state: "succeeded", names, evidence }),
    StatusAnswer.Proven({ state: "failed", code: "no", names, evidence }),
    StatusAnswer.NotFound({ names, evidence }),
    StatusAnswer.NotFound({ names, evidence: null }),
    StatusAnswer.NotProven({ reason: "unreachable", detail: "reset" }),
    StatusAnswer.NotProven({ reason: "unclear", detail: "500" })
  )
)

const anyDue: fc.Arbitrary<Parameters<typeof decideAfterRead>[0]> = fc
  .record({
    created_at: fc.constant(DateTime.makeUnsafe(0)),
    taken_at: fc.constant(DateTime.makeUnsafe(0)),
    askedAt: fc.constant({ wall: 0, monotonic: 0n }),
    fence_started_at: fc.constant(null),
    sent_as: fc.constant(null),
    operation: fc.constant({ id: own, send_before: null } as TimedRead["operation"]),
    state: fc.constantFrom<OperationState>("accepted", "submitted", "indeterminate"),
    acknowledged: fc.boolean(),
    reference: fc.constantFrom(null, ...references)
  })

const dueRead = (state: OperationState, reference: ProviderReference | null) =>
  ({
    operation: { id: own, send_before: null },
    state,
    revision: 3,
    reference,
    fence_started_at: null,
    sent_as: null
  }) as TimedRead

const contradicts = (names: AnswerNames, stored: ProviderReference | null) =>
  (names.operation_id !== null && names.operation_id !== own)
  || (names.reference !== null && stored !== null && names.reference !== stored)

describe("The decision about an answer", () => {
  it("is only a review if a status read names another operation id or another reference than the stored one", () => {
    fc.assert(
      fc.property(anyDue, anyStatusAnswer, (due, answer) => {
        const decision = decideAfterRead(due, answer)
        const isContradicted = "names" in answer && contradicts(answer.names, due.reference)
        assert.strictEqual(decision._tag === "Contradicted", isContradicted)
        if (decision._tag !== "Postpone" && decision._tag !== "Record") return
        // The reference to store is the one in the answer, and it never replaces another reference.
        const { reference } = decision
        const named = "names" in answer && isProviderReference(answer.names.reference) ? answer.names.reference : null
        assert.isTrue(reference === null || (reference === named && (due.reference ?? reference) === reference))
      }),
      { numRuns: 5000 }
    )
  })

  it("follows the answer if it names nothing, because the read was for this operation alone", () => {
    for (const stored of [null, ...references]) {
      const due = dueRead("indeterminate", stored)
      const answer = StatusAnswer.Proven({ state: "succeeded", names: namesNothing, evidence })
      assert.deepInclude(decideAfterRead(due, answer), { _tag: "Record", outcome: { state: "succeeded" } })
    }
  })

  it("is indeterminate if an untyped adapter omits the names of the answer", () => {
    const due = dueRead("indeterminate", null)
    // Casts past `unknown`: these answers contradict the types, as those of an adapter in JavaScript may.
    for (const names of [undefined, null, {}, { reference: null }, { operation_id: null }]) {
      const status = { _tag: "Proven", state: "succeeded", evidence, names } as unknown as StatusAnswer
      assert.strictEqual(decideAfterRead(due, status)._tag, "Contradicted")
      const answer = { _tag: "Succeeded", evidence, names } as unknown as SubmissionAnswer
      const end = settlementOf(submitted, Exit.succeed(answer), true) as Settlement
      assert.strictEqual(end.outcome.state, "indeterminate")
    }
  })

  it("is indeterminate if the answer to a submission names another operation id", () => {
    fc.assert(
      fc.property(anyNames, fc.constantFrom("Acknowledged", "Succeeded", "Rejected"), (names, _tag) => {
        const answer = { _tag, names, code: "no", evidence } as SubmissionAnswer
        const { evidence: kept, outcome, reference } = settlementOf(submitted, Exit.succeed(answer), true) as Settlement
        const states = { Acknowledged: "submitted", Succeeded: "succeeded", Rejected: "failed" }
        const isContradicted = contradicts(names, null)
        assert.strictEqual(outcome.state, isContradicted ? "indeterminate" : states[_tag])
        assert.strictEqual(reference, isContradicted || names.reference === "" ? null : names.reference)
        assert.deepInclude(kept, { answer: evidence })
      })
    )
  })

  it("is logged with the expected and the named value: printable, and at most 64 characters of it", () => {
    const due = dueRead("submitted", references[0])
    const named = `\u001b[31mline\n${"x".repeat(1000)}` as ProviderReference
    const names = { reference: named, operation_id: null }
    const decision = decideAfterRead(due, StatusAnswer.Proven({ state: "succeeded", names, evidence }))
    assert.deepStrictEqual(decision, {
      _tag: "Contradicted",
      contradiction: { member: "reference", expected: "r1", named: `?[31mline?${"x".repeat(54)}` }
    })
  })
})

const recordsHeld = (name: string) =>
  l.call((queue, id) => queue.recordHeld(id, 1, outcome("succeeded"), recording({ reference: reference(name) })))
/** A status read, and whether the operation is under review after it. */
const reads = (revision: number, review: boolean | undefined, isReviewed: boolean) => [
  l.call((queue, id) =>
    queue.postpone(id, revision, { due_in: soon, reference: null, ...review === undefined ? {} : { review } })
  ),
  l.is({ under_review: isReviewed })
]

l.tell("the ledger", {
  "records nothing of a held operation under another reference than the stored one": [
    [l.inState("accepted"), l.failOver, l.report(0, reference("r1")), l.refused(recordsHeld("r2"), "StaleOperation")],
    [l.is({ state: "accepted", revision: 1 }), recordsHeld("r1"), l.is({ state: "succeeded" })]
  ],
  "puts an operation under review that a worker reports under another reference than the stored one": [
    l.inState("indeterminate"),
    ([[null, false], ["r1", false], ["r1", false], [null, false], ["r2", true]] as const).map(([name, isReviewed]) => [
      l.report(0, name === null ? null : reference(name)),
      l.is({ under_review: isReviewed })
    ]),
    l.stores({ reference: "r1" })
  ],
  "begins a review with a status read on request, unless an operator ended one in this state": [
    [l.inState("submitted"), reads(3, undefined, false), reads(3, false, false), reads(3, true, true)],
    // A later read does not end the review.
    reads(3, false, true),
    // The millisecond must differ from that of the last change of the state.
    [l.pass("1 second"), l.review(false), reads(3, true, false)],
    // The next state is reviewed again.
    [l.pass("1 second"), l.records("indeterminate"), reads(4, true, true)]
  ]
})
