/**
 * Outcomes are recorded together while the store is busy, and the fault of one is no fault of the others. The tests delay the
 * statements on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, type Schema } from "effect"
import { TestClock } from "effect/testing"
import { type Operation, OperationId, StaleOperation } from "../../../../src/domain/Operation.ts"
import type { OutcomeRecord } from "../../../../src/domain/Submission.ts"
import type { Outcomes } from "../../../../src/services/queue/Outcomes.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { makeOutcomeRecorder } from "../../../../src/submission/attempts/OutcomeRecorder.ts"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"

const recordOf = (n: number): OutcomeRecord => ({
  id: OperationId.make(`019aa4f0-5c00-7b1e-8d2f-${String(n).padStart(12, "0")}`),
  revision: 2,
  outcome: { state: "submitted" },
  recording: { evidence: { n }, reference: null, due_in: Duration.zero, send_before: null }
})
const numberOf = ({ id }: Pick<OutcomeRecord, "id">) => Number(id.slice(-12))
const range = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n)

interface Line {
  /** Milliseconds from the start of the test. */
  readonly at: number
  readonly kind: "alone" | "together"
  readonly records: ReadonlyArray<number>
}

interface Answers {
  readonly together?: (records: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<boolean>, StoreUnavailable>
  readonly alone?: (n: number) => Effect.Effect<void, StaleOperation | StoreUnavailable>
}

const all = (records: ReadonlyArray<number>) => Effect.succeed(records.map(() => true))
const away = Effect.fail(new StoreUnavailable({ cause: "away" }))

/** A recorder whose statements answer as given, and the statements in their order. */
const makeBook = Effect.fnUntraced(function*({ alone = () => Effect.void, together = all }: Answers = {}) {
  const lines: Array<Line> = []
  const note = (kind: Line["kind"], records: ReadonlyArray<number>) =>
    Effect.clockWith((clock) => Effect.sync(() => lines.push({ at: clock.currentTimeMillisUnsafe(), kind, records })))
  const outcomes: Pick<Outcomes["Service"], "record" | "recordAll"> = {
    record: (id) =>
      Effect.andThen(note("alone", [numberOf({ id })]), Effect.as(alone(numberOf({ id })), {} as Operation)),
    recordAll: (records) => Effect.andThen(note("together", records.map(numberOf)), together(records.map(numberOf)))
  }
  // The cast: the recorder calls nothing else.
  const { record } = yield* makeOutcomeRecorder(outcomes as Outcomes["Service"])
  /** Records outcomes at the same time, each in a fiber of its own. */
  const recordAll = (numbers: ReadonlyArray<number>) =>
    Effect.forEach(numbers, (n) => Effect.forkChild(record(recordOf(n)), { startImmediately: true }))
  return { lines, record: (n: number) => record(recordOf(n)), recordAll, recorder: record }
})

/** Lets all fibers run that need no time. */
const settle = TestClock.adjust(0)
const after = Effect.delay("30 millis")
const isSuccess = (fiber: Fiber.Fiber<void, unknown>) => {
  const exit = fiber.pollUnsafe()
  return exit !== undefined && Exit.isSuccess(exit)
}

describe("An outcome", () => {
  it.effect("that comes alone does not wait", () =>
    Effect.gen(function*() {
      const { lines, recordAll } = yield* makeBook()
      for (const n of [1, 2]) {
        const [fiber] = yield* recordAll([n])
        yield* settle
        assert.isTrue(isSuccess(fiber!))
      }
      assert.deepStrictEqual(lines, [{ at: 0, kind: "alone", records: [1] }, { at: 0, kind: "alone", records: [2] }])
    }))

  it.effect("that comes while a statement is under way goes into the next one, with all others that came", () =>
    Effect.gen(function*() {
      const { lines, recordAll } = yield* makeBook({
        together: (records) => after(all(records)),
        alone: () => after(Effect.void)
      })
      const first = yield* recordAll([1])
      yield* TestClock.adjust("10 millis")
      const second = [...yield* recordAll([2]), ...yield* recordAll([3])]
      yield* TestClock.adjust("19 millis")
      assert.lengthOf(lines, 1)
      const late = yield* recordAll([4])
      yield* TestClock.adjust("1 millis")
      assert.isTrue(isSuccess(first[0]!))
      assert.deepStrictEqual(lines.slice(1), [{ at: 30, kind: "together", records: [2, 3, 4] }])
      yield* TestClock.adjust("30 millis")
      assert.isTrue([...second, ...late].every(isSuccess))
      assert.lengthOf(lines, 2)
    }))

  it.effect("shares a statement with at most 99 others, in the order in which they came", () =>
    Effect.gen(function*() {
      const { lines, recordAll } = yield* makeBook({ together: (records) => after(all(records)) })
      const fibers = yield* recordAll(range(1, 250))
      yield* TestClock.adjust("90 millis")
      assert.deepStrictEqual(lines.map(({ at, records }) => ({ at, records })), [
        { at: 0, records: range(1, 100) },
        { at: 30, records: range(101, 100) },
        { at: 60, records: range(201, 50) }
      ])
      assert.isTrue(fibers.every(isSuccess))
    }))

  it.effect("with large evidence shares a statement with few others, so that none takes longer than a statement may", () =>
    Effect.gen(function*() {
      const { lines, recorder } = yield* makeBook({ together: (records) => after(all(records)) })
      const circular: Record<string, unknown> = {}
      circular["self"] = circular
      const bodies = [
        "x".repeat(2_000_000),
        "x".repeat(400_000),
        "x".repeat(400_000),
        "x".repeat(400_000),
        "",
        circular
      ]
      const fibers = yield* Effect.forEach(bodies, (body, n) => {
        const record = recordOf(n)
        // As an adapter without type checks may give it.
        const evidence = { body: body as Schema.Json }
        return Effect.forkChild(recorder({ ...record, recording: { ...record.recording, evidence } }), {
          startImmediately: true
        })
      })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(lines.map(({ records }) => records), [[0], [1, 2], [3, 4], [5]])
      assert.isTrue(fibers.every(isSuccess))
    }))

  it.effect("waits at most 100 ms for a statement that hangs, and 100 ms for each further one", () =>
    Effect.gen(function*() {
      const { lines, recordAll } = yield* makeBook({
        together: (records) => records.includes(5) ? all(records) : Effect.never
      })
      const hanging = yield* recordAll([1, 2])
      yield* TestClock.adjust("1 millis")
      const hangingToo = yield* recordAll([3, 4])
      yield* TestClock.adjust("98 millis")
      assert.lengthOf(lines, 1)
      yield* TestClock.adjust("1 millis")
      const others = yield* recordAll([5, 6])
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(lines.map(({ at, records }) => [at, ...records]), [[0, 1, 2], [100, 3, 4], [200, 5, 6]])
      assert.isTrue(others.every(isSuccess))
      assert.isFalse([...hanging, ...hangingToo].some((fiber) => fiber.pollUnsafe() !== undefined))
    }))

  it.effect("fails with StoreUnavailable, as all others of its statement, when that fails or exceeds storeTimeout", () =>
    Effect.gen(function*() {
      for (const [failure, within] of [[away, Duration.zero], [Effect.never, defaultPolicy.storeTimeout]] as const) {
        let calls = 0
        const { lines, recordAll } = yield* makeBook({
          together: (records) => ++calls === 1 ? failure : all(records)
        })
        const fibers = yield* recordAll([1, 2, 3])
        yield* TestClock.adjust(within)
        for (const fiber of fibers) {
          assert.strictEqual((yield* Effect.flip(Fiber.join(fiber)))._tag, "StoreUnavailable")
        }
        const again = yield* recordAll([1, 2, 3])
        yield* settle
        assert.isTrue(again.every(isSuccess))
        assert.deepStrictEqual(lines.map(({ records }) => records), [[1, 2, 3], [1, 2, 3]])
      }
    }))

  it.effect("that the statement left out is recorded alone, with an end of its own", () =>
    Effect.gen(function*() {
      const stale = new StaleOperation({ id: recordOf(2).id, expected: 2, actual: 3 })
      const { lines, recordAll } = yield* makeBook({
        together: (records) => Effect.succeed(records.map((n) => n === 1)),
        alone: (n) => n === 2 ? Effect.fail(stale) : n === 3 ? away : n === 4 ? Effect.never : Effect.void
      })
      const fibers = yield* recordAll([1, 2, 3, 4, 5])
      yield* settle
      assert.deepStrictEqual(lines.map(({ records }) => records), [[1, 2, 3, 4, 5], [2], [3], [4], [5]])
      assert.deepStrictEqual(fibers.map(isSuccess), [true, false, false, false, true])
      assert.strictEqual(yield* Effect.flip(Fiber.join(fibers[1]!)), stale)
      assert.strictEqual((yield* Effect.flip(Fiber.join(fibers[2]!)))._tag, "StoreUnavailable")
      assert.isUndefined(fibers[3]!.pollUnsafe(), "it waits for the lock of its row")
      yield* TestClock.adjust(defaultPolicy.storeTimeout)
      assert.strictEqual((yield* Effect.flip(Fiber.join(fibers[3]!)))._tag, "StoreUnavailable")
    }))

  const thrown = () => {
    throw new Error("a rule")
  }
  for (const [how, die] of [["dies", () => Effect.die("a rule")], ["throws", thrown]] as const) {
    it.effect(`dies alone if its statement ${how}, and the recorder goes on`, () =>
      Effect.gen(function*() {
        const { record, recordAll } = yield* makeBook({
          together: (records) => records.includes(2) ? die() : all(records),
          alone: (n) => n === 2 ? die() : Effect.void
        })
        const fibers = yield* recordAll([1, 2, 3])
        yield* settle
        assert.deepStrictEqual(fibers.map(isSuccess), [true, false, true])
        assert.isTrue(Exit.hasDies(yield* Fiber.await(fibers[1]!)))
        yield* record(4)
        yield* Effect.all([record(5), record(6)], { concurrency: "unbounded" })
      }))
  }

  it.effect("is recorded also if its caller is interrupted, and so are the others", () =>
    Effect.gen(function*() {
      const { lines, recordAll } = yield* makeBook({
        together: (records) => after(all(records)),
        alone: () => after(Effect.void)
      })
      // The first caller begins the statements of all. It is interrupted before it, and later ones at any time.
      const [first] = yield* recordAll([1])
      yield* Fiber.interrupt(first!)
      yield* settle
      const [second, third] = yield* recordAll([2, 3])
      yield* Fiber.interrupt(second!)
      yield* TestClock.adjust("30 millis")
      assert.deepStrictEqual(lines.map(({ records }) => records), [[1], [2, 3]])
      yield* TestClock.adjust("30 millis")
      assert.isTrue(isSuccess(third!))
      const [fourth] = yield* recordAll([4])
      yield* TestClock.adjust("30 millis")
      assert.isTrue(isSuccess(fourth!))
    }))

  it.effect("of many callers is recorded once each, and none waits for ever", () =>
    Effect.gen(function*() {
      const open = yield* Deferred.make<void>()
      const recorded: Array<number> = []
      const note = (records: ReadonlyArray<number>) =>
        Effect.andThen(Deferred.await(open), Effect.sync(() => void recorded.push(...records)))
      const { recordAll } = yield* makeBook({
        together: (records) => Effect.andThen(note(records), all(records)),
        alone: (n) => note([n])
      })
      const fibers = []
      for (let round = 0; round < 40; round++) {
        fibers.push(...yield* recordAll(range(round * 10, 1 + (round * 7) % 10)))
        yield* TestClock.adjust(Duration.millis((round * 37) % 150))
        if (round === 20) yield* Deferred.succeed(open, undefined)
      }
      yield* TestClock.adjust("1 second")
      assert.isTrue(fibers.every((fiber) => fiber.pollUnsafe() !== undefined))
      assert.strictEqual(recorded.length, fibers.length)
      assert.strictEqual(new Set(recorded).size, fibers.length)
    }))
})
