/**
 * A batch of outcomes has the rules of its outcomes one by one, all or none of them is recorded, and none delays or ends the
 * others. The tests run against PostgreSQL, the rules of one statement also against the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, DateTime, Duration, Effect, Exit, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId, OperationState, Outcome } from "../../../../src/domain/Operation.ts"
import type { OutcomeRecord } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../../src/services/SubmissionQueue.ts"
import { makeOutcomeRecorder } from "../../../../src/submission/attempts/OutcomeRecorder.ts"
import { defaultPolicy, SubmissionPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { fillQueue } from "../../../fixtures/ledger/FilledQueue.ts"
import { conformance, outcome, PostgresLedger, unknownId } from "../../../fixtures/ledger/Ledger.ts"
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
  it.effect("records each outcome by the rules of a single one, and of several for one operation the first", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { grant, identity } = yield* issueAtNewProvider()
      yield* acceptSeveral(identity, 6)
      const claims = yield* queue.claim(grant.provider, 6, claimTerms)
      const records = claims.map(({ operation: { id, send_before }, revision }): OutcomeRecord => ({
        id,
        revision,
        outcome: outcome("succeeded"),
        recording: recording({ send_before })
      }))
      const [own, later, foreign, returned, other, unsent] = records as [
        OutcomeRecord,
        OutcomeRecord,
        OutcomeRecord,
        OutcomeRecord,
        OutcomeRecord,
        OutcomeRecord
      ]
      yield* queue.returnClaim(claims[3]!, returnTerms)
      yield* queue.record(other.id, 2, outcome("submitted"), recording({ reference: reference("first") }))
      const send_before = DateTime.add(foreign.recording.send_before!, { milliseconds: 1 })
      const batch: ReadonlyArray<readonly [OutcomeRecord, isRecorded: boolean]> = [
        [own, true],
        [{ ...own, outcome: outcome("failed") }, false],
        [{ ...later, revision: 3 }, false],
        [{ ...later, revision: 2 }, false],
        [{ ...foreign, recording: recording({ send_before }) }, false],
        [returned, false],
        [{ ...other, revision: 3, recording: recording({ reference: reference("second") }) }, false],
        [{ ...unsent, recording: recording() }, true],
        [{ ...own, id: unknownId }, false]
      ]
      const results = yield* queue.recordAll(batch.map(([record]) => record))
      assert.deepStrictEqual(results, batch.map(([, isRecorded]) => isRecorded))
      const states = yield* Effect.forEach(records, ({ id }) => Effect.map(ledger.show(id), ({ state }) => state))
      assert.deepStrictEqual(states, [
        "succeeded",
        "submitting",
        "submitting",
        "submitting",
        "submitted",
        "succeeded"
      ])
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
