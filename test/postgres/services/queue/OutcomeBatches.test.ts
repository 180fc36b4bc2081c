/**
 * A batch of outcomes has the results of its outcomes one by one, all or none of them is recorded, and none delays or ends the
 * others. The tests run against PostgreSQL, the rules of one statement also against the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, DateTime, Duration, Effect, Exit, Fiber, Layer, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import type { OperationId, OperationState, Outcome } from "../../../../src/domain/Operation.ts"
import type { OutcomeRecord } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../../src/services/queue/SubmissionQueue.ts"
import { makeOutcomeRecorder } from "../../../../src/submission/attempts/OutcomeRecorder.ts"
import { defaultPolicy, SubmissionPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { fillQueue } from "../../../fixtures/ledger/FilledQueue.ts"
import { accept, conformance, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimIds,
  claimTerms,
  inspect,
  isAbout,
  issueAtNewProvider,
  recording,
  reference,
  returnTerms
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { boundedScans, planModes, recorded, rowsOf } from "../../../fixtures/postgres/Plans.ts"
import { anotherProcess, inTime, openTransaction, terminate, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { Statements } from "../../../fixtures/postgres/Statements.ts"

const unknown = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f" as OperationId

/** Unsettled operations before the batch. The claim of the last kind was returned. */
const conditions = ["submitting", "submitted", "indeterminate", "returned"] as const
type Condition = (typeof conditions)[number]

/** Outcomes that every unsettled condition permits. */
const outcomes: ReadonlyArray<Outcome> = [
  outcome("succeeded"),
  outcome("failed"),
  { state: "failed", failure: { code: "e_51", message: "\"Zu wenig Guthaben\" \\u0000 'für' 💶" } }
]

/** A record of the n-th operation, or of one that does not exist. */
interface Draft {
  readonly operation: number | null
  readonly lag: number
  readonly outcome: Outcome
  readonly claim: "own" | "foreign" | "any"
  readonly reference: string | null
  readonly evidence: Schema.Json
  readonly minutes: number
}

const mostly = <A>(usual: A, ...others: ReadonlyArray<A>) => fc.constantFrom(usual, usual, usual, ...others)
const draft: fc.Arbitrary<Draft> = fc.record({
  operation: fc.oneof({ weight: 9, arbitrary: fc.nat({ max: 3 }) }, { weight: 1, arbitrary: fc.constant(null) }),
  lag: mostly(0, -1, 1),
  outcome: fc.constantFrom(...outcomes),
  claim: mostly<Draft["claim"]>("own", "foreign", "any"),
  reference: fc.constantFrom(null, "first", "\"second' \\ ü"),
  evidence: fc.oneof(
    fc.jsonValue() as fc.Arbitrary<Schema.Json>,
    fc.constantFrom("\u0000", "\ud800", { nested: ["\u0000"] })
  ),
  minutes: fc.nat({ max: 6 })
})
interface Batch {
  readonly conditions: ReadonlyArray<Condition>
  readonly hasReference: boolean
  readonly drafts: ReadonlyArray<Draft>
}
const batch: fc.Arbitrary<Batch> = fc.record({
  conditions: fc.array(fc.constantFrom(...conditions), { minLength: 4, maxLength: 4 }),
  hasReference: fc.boolean(),
  drafts: fc.array(draft, { maxLength: 10 })
})

interface Prepared {
  readonly id: OperationId
  readonly revision: number
  readonly send_before: DateTime.Utc | null
}

/** An operation in this condition. */
const prepare = Effect.fnUntraced(function*(condition: Condition, first: string | null) {
  const queue = yield* Queue
  const { grant, identity } = yield* issueAtNewProvider()
  yield* accept(identity)
  const [claim] = yield* queue.claim(grant.provider, 1, claimTerms)
  const { operation: { id, send_before }, revision } = claim!
  const prepared: Prepared = { id, revision, send_before }
  if (condition === "submitting") return prepared
  if (condition === "returned") {
    yield* queue.returnClaim(claim!, returnTerms)
    return prepared
  }
  const given = first === null ? null : reference(first)
  yield* queue.record(id, revision, outcome(condition), recording({ reference: given }))
  return { ...prepared, revision: revision + 1 }
})

const toRecord = (operations: ReadonlyArray<Prepared>, { claim, lag, ...draft }: Draft): OutcomeRecord => {
  const { id, revision, send_before } = draft.operation === null
    ? { id: unknown, revision: 2, send_before: null }
    : operations[draft.operation]!
  // A later claim has a later one.
  const foreign = send_before === null ? null : DateTime.add(send_before, { milliseconds: 1 })
  return {
    id,
    revision: revision + lag,
    outcome: draft.outcome,
    recording: recording({
      evidence: { answer: draft.evidence },
      reference: draft.reference === null ? null : reference(draft.reference),
      due_in: Duration.minutes(draft.minutes),
      send_before: claim === "any" ? null : claim === "own" ? send_before : foreign
    })
  }
}

/** The stored form of an operation, without its id and its times. */
const stored = Effect.fnUntraced(function*({ id }: Prepared) {
  const ledger = yield* OperationLedger
  const { failure, revision, state } = yield* ledger.show(id)
  const history = (yield* ledger.history(id)).map(({ evidence, from, revision, to }) => ({
    evidence,
    from,
    to,
    revision
  }))
  const { acknowledged, claimed_by, reads, reference, return_reason } = yield* inspect(id)
  return { failure, revision, state, history, acknowledged, claimed_by, reads, reference, return_reason }
})

/** Records outcomes one by one. Of several records of one operation only the first. */
const oneByOne = Effect.fnUntraced(function*(records: ReadonlyArray<OutcomeRecord>) {
  const queue = yield* Queue
  const seen = new Set<OperationId>()
  return yield* Effect.forEach(records, ({ id, outcome, recording, revision }) => {
    if (seen.has(id)) return Effect.succeed(false)
    seen.add(id)
    return Effect.map(
      Effect.result(queue.record(id, revision, outcome, recording)),
      (result) => result._tag === "Success"
    )
  })
})

const submitting = Effect.fnUntraced(function*(count: number) {
  const { grant, identity } = yield* issueAtNewProvider()
  const ids = yield* acceptSeveral(identity, count)
  yield* claimIds(grant.provider)
  return ids
})

const records = (ids: ReadonlyArray<OperationId>, to: OperationState = "succeeded"): ReadonlyArray<OutcomeRecord> =>
  ids.map((id, n) => ({ id, revision: 2, outcome: outcome(to), recording: recording({ evidence: { n } }) }))

const tooLong: Outcome = { state: "failed", failure: { code: "declined", message: "x".repeat(1025) } }

const statesOf = (ids: ReadonlyArray<OperationId>) =>
  OperationLedger.use((ledger) => Effect.forEach(ids, (id) => Effect.map(ledger.show(id), ({ state }) => state)))

conformance("a batch of outcomes", (it) => {
  it.effect("has the results of its outcomes one by one, in the ledger and for the caller", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const context = yield* Effect.context<
        Effect.Services<ReturnType<typeof prepare>> | Effect.Services<ReturnType<typeof stored>>
      >()
      const recorded = { yes: 0, no: 0 }
      const check = Effect.fnUntraced(function*({ conditions, drafts, hasReference }: Batch) {
        const first = hasReference ? "first" : null
        const together = yield* Effect.forEach(conditions, (condition) => prepare(condition, first))
        const apart = yield* Effect.forEach(conditions, (condition) => prepare(condition, first))
        const results = yield* queue.recordAll(drafts.map((draft) => toRecord(together, draft)))
        assert.deepStrictEqual(results, yield* oneByOne(drafts.map((draft) => toRecord(apart, draft))))
        assert.deepStrictEqual(yield* Effect.forEach(together, stored), yield* Effect.forEach(apart, stored))
        for (const result of results) recorded[result ? "yes" : "no"]++
      })
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(batch, (given) => Effect.runPromiseWith(context)(check(given))),
          { numRuns: rounds(12, 300) }
        )
      )
      assert.isAbove(recorded.yes, 0)
      assert.isAbove(recorded.no, 0)
    }))

  it.effect("gives each operation its own evidence, reference, failure and due time", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const ids = yield* submitting(30)
      const batch = ids.map((id, n): OutcomeRecord => ({
        id,
        revision: 2,
        outcome: outcome(n % 2 === 0 ? "submitted" : "indeterminate"),
        recording: recording({
          evidence: { n, text: `"${n}' \u0000` },
          reference: reference(`reference ${n}`),
          due_in: Duration.minutes(n + 1)
        })
      }))
      assert.deepStrictEqual(yield* queue.recordAll(batch), ids.map(() => true))
      for (const [n, id] of ids.entries()) {
        const { due_in, reference } = yield* inspect(id)
        isAbout(due_in, Duration.minutes(n + 1))
        assert.strictEqual(reference, `reference ${n}`)
        const last = (yield* ledger.history(id)).at(-1)!
        assert.deepStrictEqual(last.evidence, { n, text: `"${n}' \u0000` })
        assert.strictEqual(last.to, n % 2 === 0 ? "submitted" : "indeterminate")
      }
    }))

  it.effect("with a transition against the table dies, and nothing is recorded", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const ids = yield* submitting(3)
      const [first, second, third] = records(ids)
      const exit = yield* Effect.exit(queue.recordAll([first!, { ...second!, outcome: outcome("cancelled") }, third!]))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.deepStrictEqual(yield* statesOf(ids), ["submitting", "submitting", "submitting"])
    }))
})

/** A recorder on these services. No statement exceeds its time on a busy machine. */
const recorderOn = (queue: Queue) =>
  Effect.provideService(makeOutcomeRecorder(queue), SubmissionPolicy, {
    ...defaultPolicy,
    storeTimeout: Duration.minutes(5)
  })

const recordEach = Effect.fnUntraced(function*(batch: ReadonlyArray<OutcomeRecord>) {
  const { record } = yield* recorderOn(yield* Queue)
  return yield* Effect.forEach(batch, (one) => Effect.forkChild(record(one), { startImmediately: true }))
})

layer(PostgresLedger, { excludeTestServices: true })("a batch of outcomes in PostgreSQL", (it) => {
  it.effect("is recorded without the rows that another transaction has locked, and those after the lock", () =>
    inTime(Effect.gen(function*() {
      const ids = yield* submitting(5)
      const [locked, ...others] = ids
      // As the pool of workers: no statement waits behind another on its connection.
      const process = yield* Layer.build(anotherProcess({ multiplex: false }))
      const fibers = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("SELECT 1 FROM operations WHERE id = $1 FOR UPDATE", [locked])
        const [waiting, ...free] = yield* Effect.provideContext(recordEach(records(ids)), process)
        yield* Fiber.joinAll(free)
        assert.deepStrictEqual(yield* statesOf(others), others.map(() => "succeeded"))
        yield* untilWaiting(1)
        assert.isUndefined(waiting!.pollUnsafe())
        assert.deepStrictEqual(yield* statesOf([locked!]), ["submitting"])
        return [waiting!]
      }))
      yield* Fiber.joinAll(fibers)
      assert.deepStrictEqual(yield* statesOf([locked!]), ["succeeded"])
    })))

  it.effect("is recorded without the row that breaks a rule of the database, which dies alone", () =>
    inTime(Effect.gen(function*() {
      const ids = yield* submitting(4)
      const batch = records(ids).map((record, n) => n === 2 ? { ...record, outcome: tooLong } : record)
      const fibers = yield* recordEach(batch)
      const exits = yield* Effect.forEach(fibers, (fiber) => Fiber.await(fiber))
      assert.deepStrictEqual(exits.map((exit) => Exit.isSuccess(exit)), [true, true, false, true])
      assert.isTrue(Exit.hasDies(exits[2]!))
      assert.deepStrictEqual(yield* statesOf(ids), ["succeeded", "succeeded", "submitting", "succeeded"])
    })))

  it.effect("is recorded as a whole or not at all when its backend is terminated; recording again completes it", () =>
    inTime(Effect.gen(function*() {
      const ids = yield* submitting(20)
      const process = yield* Layer.build(anotherProcess({ maxConnections: 1, applicationName: "batch" }))
      const failures = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        // The first row is written, and its trigger waits.
        yield* run("LOCK TABLE operation_history IN ACCESS EXCLUSIVE MODE")
        const fibers = yield* Effect.provideContext(recordEach(records(ids)), process)
        yield* untilWaiting(1)
        assert.strictEqual(yield* terminate("batch"), 1)
        return yield* Effect.forEach(fibers, (fiber) => Effect.flip(Fiber.join(fiber)))
      }))
      assert.deepStrictEqual(failures.map(({ _tag }) => _tag), ids.map(() => "StoreUnavailable"))
      assert.deepStrictEqual(yield* statesOf(ids), ids.map(() => "submitting"))
      yield* Fiber.joinAll(yield* Effect.provideContext(recordEach(records(ids)), process))
      assert.deepStrictEqual(yield* statesOf(ids), ids.map(() => "succeeded"))
    })))

  it.effect("of another process with the same rows in the opposite order: one records each row, and none fails", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const processes = yield* Effect.all(
        Array.from({ length: 2 }, () => Layer.build(anotherProcess({ maxConnections: 4 })))
      )
      for (let round = 0; round < rounds(5, 100); round++) {
        const ids = yield* submitting(40)
        const orders = [records(ids, "succeeded"), records(ids, "failed").toReversed()]
        const fibers = yield* Effect.forEach(
          orders,
          (batch, n) => Effect.provideContext(recordEach(batch), processes[n]!)
        )
        const [succeeded, failed] = yield* Effect.forEach(
          fibers,
          (batch) => inTime(Effect.forEach(batch, (fiber) => Effect.result(Fiber.join(fiber))))
        )
        for (const [n, first] of succeeded!.entries()) {
          const second = failed!.at(-1 - n)!
          const loser = first._tag === "Failure" ? first : second
          assert.isTrue(
            first._tag !== second._tag && loser._tag === "Failure" && loser.failure._tag === "StaleOperation"
          )
          const { state } = yield* ledger.show(ids[n]!)
          assert.strictEqual(state, first._tag === "Success" ? "succeeded" : "failed")
          assert.lengthOf(yield* ledger.history(ids[n]!), 3)
        }
      }
    }))

  it.effect("finds its operations by their primary key, also with stale statistics", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant } = yield* issueAtNewProvider()
      yield* sql`ALTER TABLE operations SET (autovacuum_enabled = off)`
      yield* sql`ANALYZE operations`.unprepared
      yield* fillQueue(grant, { count: 20_000, state: "submitting" })
      const rows = yield* sql<{ readonly id: OperationId }>`
        SELECT id FROM operations WHERE client_id = ${grant.client_id} LIMIT 100`
      yield* Effect.gen(function*() {
        const queue = yield* Queue
        const statements = yield* Statements
        const before = statements.length
        const batch = rows.map(({ id }) => ({ ...records([id])[0]!, revision: 99 }))
        assert.notInclude(yield* queue.recordAll(batch), true)
        const [statement, ...others] = statements.slice(before)
        assert.isEmpty(others)
        for (const mode of planModes) {
          const scans = yield* boundedScans(statement!, mode, { rows: rows.length }, mode)
          assert.deepStrictEqual(scans.map((scan) => scan["Index Name"]), ["operations_pkey", "operations_pkey"])
          assert.strictEqual(scans.reduce((sum, scan) => sum + rowsOf(scan), 0), rows.length)
        }
      }).pipe(Effect.provide(recorded(SubmissionQueue.layer)))
    }))
})
