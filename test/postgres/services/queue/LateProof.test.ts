/**
 * A person ends no operation as failed while its worker may wait for the answer, and proof that comes after a final state is kept. The tests
 * run against PostgreSQL and the memory store. Those that only PostgreSQL can hold try its triggers.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import type { OperationState } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import type { LateProof, Proof } from "../../../../src/services/rules/contradictions.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import * as l from "../../../fixtures/ledger/LedgerStories.ts"
import {
  claimedOperation,
  issueAtNewProvider,
  late,
  pass,
  queued,
  recording,
  reference
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { operatorEvidence } from "../../../fixtures/OperatorEvidence.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

/** The evidence of a person who asked so many milliseconds from now. */
const askedIn = (millis: number) =>
  Effect.map(
    Effect.flatMap(Queue, ({ readClock }) => readClock),
    (now) => ({
      by: "operator",
      ...operatorEvidence,
      reference_of: "answer",
      asked_at: DateTime.formatIso(DateTime.add(now, { milliseconds: millis }))
    })
  )

const proof = { state: "succeeded", reference: reference("PAID-1"), evidence: { paid: true } } as const
const kept = { proves: "succeeded", reference: "PAID-1", evidence: { paid: true } }

const ends = (to: "failed" | "indeterminate", ahead = 0): l.Step => ({ ids: [id] }) =>
  OperationLedger.use((ledger) =>
    Effect.gen(function*() {
      const { revision } = yield* ledger.show(id!)
      return yield* ledger.transition(id!, revision, outcome(to), yield* askedIn(ahead))
    })
  )

l.tell("a failure that a person records", {
  "is refused while the worker may wait for the answer, and the refusal says when it can be recorded": [
    [l.inState("accepted"), l.claims([0], { send_within: Duration.seconds(10) }), l.pass("80 seconds")],
    (["failed", "indeterminate"] as const).map((to) => {
      const why = `cannot become ${to} yet: a worker may be sending it, or wait for the answer`
      return l.changesNothing(
        l.refused(ends(to), new RegExp(`${why}.*: not before \\S+Z, and it is \\S+Z now$`, "su"))
      )
    }),
    [l.pass("20 seconds"), ends("failed"), l.is({ state: "failed" })]
  ],
  "is refused if the person asked in the future of the ledger's clock, and the refusal tells the present time": [
    [l.inState("submitted"), l.refused(ends("failed", 30_000), /is in the future: it is \S+Z now/u)],
    [l.pass("5 minutes"), ends("failed"), l.is({ state: "failed" })]
  ]
})

const contradicts = (state: OperationState | null, n: number, given: Proof = proof) =>
  l.call((queue, id) =>
    Effect.map(
      queue.contradict(id, given),
      (found) => state === null ? assert.isNull(found) : assert.deepInclude(found, { state, reference: null })
    ), n)
const keeps = (evidence: unknown, n: number): l.Step => ({ ids }) =>
  Backstage.use(({ reversal }) =>
    Effect.map(reversal(ids[n]!), (stored) => assert.deepStrictEqual(stored.evidence, evidence))
  )
const postpones = (isChanged: boolean) =>
  l.answers(isChanged, (queue, id) => queue.postpone(id, 3, { due_in: Duration.minutes(1), reference: null }))

l.tell("a proof that comes after a final state", {
  "is recorded once, and changes nothing of the operation": (["failed", "cancelled"] as const).map((state, n) => [
    l.inState(state),
    l.changesNothing(contradicts(state, n), contradicts(state, n, { ...proof, reference: null }), keeps(kept, n))
  ]),
  "is none if it agrees with the state, or if that is not final": (
    ["accepted", "submitting", "submitted", "indeterminate", "succeeded"] as const
  ).map((state, n) => [l.inState(state), contradicts(null, n), keeps(null, n)]),
  "is known, and reverses no success, if it names a second payment": [
    [l.inState("submitted"), l.records("succeeded", { reference: reference("PAID-0") })],
    l.changesNothing(
      l.call((queue, id) =>
        Effect.map(
          queue.contradict(id, proof),
          (found) => assert.deepInclude(found, { state: "succeeded", reference: reference("PAID-0") })
        )
      ),
      keeps(null, 0)
    )
  ],
  "is known from a status read that changed nothing": [
    [l.inState("submitted"), postpones(true), l.records("failed"), postpones(false)]
  ]
})

const neverReceived = { code: "provider_never_received", message: "x" }
const found = { state: "failed", failure: neverReceived } as const
const notFound = recording({ fence_started_at: null })
/** A reconciler asks, and its provider does not find the operation. */
const asks: l.Story = [l.inState("indeterminate"), l.pass("1 hour"), l.takeReads()]
const recordsNotFound = (n: number) => l.call((queue, id) => queue.record(id, 3, found, notFound), n)

l.tell("the not found of a status read", {
  "ends no operation that the provider has acknowledged meanwhile, alone or in a batch": [
    [asks, l.report(0, reference("theirs"))],
    l.changesNothing(
      l.refused(recordsNotFound(0), "StaleOperation"),
      l.answers([false], (queue, id) => queue.recordAll([{ id, revision: 3, outcome: found, recording: notFound }]))
    ),
    [asks, recordsNotFound(1), l.is({ state: "failed", failure: neverReceived }, 1)]
  ]
})

const paid = { state: "succeeded" } as const
/** A report, and what it finds. */
const reports = (as: string, isKept: boolean, name: string | null, given: Partial<LateProof> = {}) =>
  l.call((queue, id) =>
    Effect.map(
      queue.report(id, late(name === null ? null : reference(name), given)),
      (reported) => assert.deepStrictEqual<object>(reported, { as, isKept })
    )
  )
/** The same of a claim whose statement began this long ago. */
const reportsSince = (isKept: boolean, seconds: number): l.Step => (scene) =>
  Effect.gen(function*() {
    const claimed_at = DateTime.add(yield* (yield* Queue).readClock, { seconds: -seconds })
    yield* reports("read", isKept, "r1", { claimed_at })(scene)
  })

l.tell("a late report", {
  "tells whether the row holds the proof": [
    [l.inState("indeterminate"), reports("read", true, null), reports("read", false, null, paid)],
    [reports("read", false, null, { state: "failed" }), reports("read", true, "r1", paid), reports("read", true, "r1")],
    [reports("read", false, "r2"), reports("read", true, null, { state: "submitted" })]
  ],
  "of another claim than the stored one puts the operation under review": [
    [l.inState("indeterminate"), reportsSince(true, 3), l.is({ under_review: false })],
    [reportsSince(false, 60), l.is({ under_review: true })]
  ],
  "of a claim that a failover lost begins no review, if a status read has found the order since": [
    [l.inState("accepted"), l.failOver],
    l.call((queue, id) =>
      queue.recordHeld(
        id,
        1,
        outcome("submitted"),
        recording({ reference: reference("r1"), evidence: { by: "status_read", answer: "\0" } })
      )
    ),
    [reportsSince(true, 60), l.is({ state: "submitted", under_review: false })]
  ],
  "of a success without a reference lets no not found end the operation": [
    [l.inState("accepted"), l.claims([0], { sent_as: "by key" }), l.records("indeterminate"), l.pass("1 hour")],
    [l.takeReads([0]), reports("read", true, null)],
    l.changesNothing(
      reports("read", false, null, paid),
      l.refused(
        l.call((queue, id) => queue.record(id, 3, found, recording({ fence_started_at: null, sent_as: "by key" }))),
        "StaleOperation"
      )
    )
  ]
})

const Operators = Layer.merge(OperationSearch.layer, LedgerFigures.layer).pipe(Layer.provideMerge(PostgresLedger))

layer(Operators, { excludeTestServices: true })("in PostgreSQL, a late proof", (it) => {
  it.effect("tells operators of a failed operation that needs them", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const search = yield* OperationSearch
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const { id } = yield* queued(issued, "failed")
      assert.strictEqual((yield* search.detail(id)).next.by, "none")
      yield* queue.contradict(id, proof)
      const { next, operation, reversal } = yield* search.detail(id)
      assert.deepStrictEqual([operation.state, reversal?.evidence, next.by], ["failed", kept, "operator"])
      const listed = yield* search.list({ queue: "reversed", provider, order: "newest", limit: 10 })
      assert.deepStrictEqual(listed.operations.map(({ next }) => next), [next])
      const { reversed } = yield* LedgerFigures.use(({ now }) => now)
      assert.deepInclude(reversed, { provider, state: "failed", count: 1 })
    }))

  it.effect("and a failure of a person while an answer may come, are held to their rules in the database too", () =>
    Effect.gen(function*() {
      const move = (id: string, to: string, evidence: unknown) =>
        attempt(
          "origin",
          `UPDATE operations SET state = '${to}', revision = revision + 1, evidence = '${JSON.stringify(evidence)}'${
            to === "failed" ? ", failure_code = 'x', failure_message = 'x'" : ""
          } WHERE id = '${id}'`
        )
      const { id } = yield* claimedOperation({}, { send_within: Duration.millis(1) })
      const { id: sent } = yield* queued(yield* issueAtNewProvider(), "submitted")
      yield* pass(Duration.seconds(80))
      for (const to of ["failed", "indeterminate"]) {
        assert.strictEqual(yield* move(id, to, yield* askedIn(0)), "23001", to)
      }
      assert.strictEqual(yield* move(sent, "failed", yield* askedIn(30_000)), "23001")
      yield* pass(Duration.seconds(20))
      for (const operation of [id, sent]) assert.isArray(yield* move(operation, "failed", yield* askedIn(0)))
    }))
})
