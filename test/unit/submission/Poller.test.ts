/**
 * A poller takes due rows within its capacity, and shares capacity with other pollers of its process. The tests use a queue
 * of numbers and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, FiberSet, Latch, Scope } from "effect"
import { TestClock } from "effect/testing"
import { makeCapacity, type PollerOptions, runPoller } from "../../../src/submission/Poller.ts"

/** A queue of numbers. The handling of each continues until the test ends it. */
const makeLine = () => {
  const waiting: Array<number> = []
  const running = new Map<number, Latch.Latch>()
  const takes: Array<{ readonly at: number; readonly limit: number }> = []
  let most = 0
  return {
    waiting,
    running,
    takes,
    /** Highest number that was handled at once. */
    most: () => most,
    add: (count: number) => {
      for (let n = 0; n < count; n++) waiting.push(n)
    },
    take: (limit: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        takes.push({ at, limit })
        // A store needs time to answer.
        return Effect.as(Effect.sleep("5 millis"), waiting.splice(0, limit))
      }),
    handle: () =>
      Effect.suspend(() => {
        const latch = Latch.makeUnsafe(false)
        const key = running.size + Math.random()
        running.set(key, latch)
        most = Math.max(most, running.size)
        return Effect.ensuring(latch.await, Effect.sync(() => running.delete(key)))
      }),
    /** Ends this number of running handlers. */
    finish: (count: number) =>
      Effect.forEach([...running.values()].slice(0, count), (latch) => latch.open, { discard: true })
  }
}

type Line = ReturnType<typeof makeLine>

const start = Effect.fnUntraced(function*(line: Line, options: Partial<PollerOptions<number, never>> = {}) {
  const running = yield* FiberSet.make<void, never>()
  const scope = yield* Scope.make()
  // A poll is never interrupted, and the store of a test answers only while the clock moves.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      while (closing.pollUnsafe() === undefined) yield* TestClock.adjust("5 millis")
    })
  )
  const poller = yield* Scope.provide(
    runPoller({
      capacity: makeCapacity(64, 1),
      limit: 8,
      pollInterval: Duration.seconds(10),
      allowance: (free) => Effect.succeed(free),
      take: line.take,
      handle: line.handle,
      ...options
    }, running),
    scope
  )
  return { running, wake: poller.wake, stop: Scope.close(scope, Exit.void) }
})

describe("A poller", () => {
  it.effect("handles at most its limit at a time, and takes more as capacity becomes free", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(20)
      yield* start(line)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(line.running.size, 8)
      for (let n = 0; n < 20; n++) {
        yield* line.finish(1)
        yield* TestClock.adjust("20 millis")
      }
      assert.isEmpty(line.waiting)
      assert.strictEqual(line.running.size, 0)
      assert.strictEqual(line.most(), 8)
      // The backlog was never empty, so it never waited for the next poll.
      assert.isBelow(line.takes.at(-1)!.at, 2000)
    }))

  it.effect("shares the capacity of its process: together, pollers handle no more than that", () =>
    Effect.gen(function*() {
      const capacity = makeCapacity(10, 3)
      const lines = [makeLine(), makeLine(), makeLine()]
      for (const line of lines) {
        line.add(8)
        yield* start(line, { capacity })
      }
      yield* TestClock.adjust("1 second")
      const running = () => lines.reduce((sum, line) => sum + line.running.size, 0)
      assert.strictEqual(running(), 10)
      for (let n = 0; n < 24; n++) {
        yield* Effect.forEach(lines, (line) => line.finish(1))
        yield* TestClock.adjust("11 seconds")
        assert.isAtMost(running(), 10)
      }
      assert.strictEqual(capacity.sharedUsed, 0)
      assert.deepStrictEqual(lines.map(({ waiting }) => waiting.length), [0, 0, 0])
    }))

  it.effect("never takes capacity that is reserved for others, and can use its own at once", () =>
    Effect.gen(function*() {
      for (const [total, pollers, reserved] of [[64, 3, 10], [8, 2, 2], [5, 4, 1], [3, 3, 1], [1, 1, 1]] as const) {
        const capacity = makeCapacity(total, pollers)
        assert.strictEqual(capacity.reserved, reserved)
        const [late, ...greedy] = Array.from({ length: pollers }, makeLine)
        // No poll at an interval of its own: a wake during one would wait for its end.
        const options = { capacity, limit: 100, pollInterval: Duration.hours(1) }
        for (const line of greedy) {
          line.add(200)
          yield* start(line, options)
        }
        const { wake } = yield* start(late!, options)
        yield* TestClock.adjust("1 minute")
        const taken = greedy.reduce((sum, line) => sum + line.running.size, 0)
        assert.strictEqual(taken, pollers === 1 ? 0 : total - reserved, `${pollers} pollers on ${total} items`)
        late!.add(200)
        yield* wake
        yield* TestClock.adjust("5 millis")
        assert.strictEqual(late!.running.size, reserved)
      }
    }))

  it.effect("continues at once on its own capacity while others hold all that is shared", () =>
    Effect.gen(function*() {
      const capacity = makeCapacity(16, 4)
      const [slow, quick] = [makeLine(), makeLine()]
      slow.add(100)
      yield* start(slow, { capacity, limit: 16 })
      yield* TestClock.adjust("1 second")
      assert.strictEqual(slow.running.size, 10)
      quick.add(20)
      yield* start(quick, { capacity, limit: 16 })
      for (let n = 0; n < 20; n++) {
        yield* TestClock.adjust("10 millis")
        yield* quick.finish(1)
      }
      assert.isEmpty(quick.waiting, "the next poll did not wait for the poll interval")
    }))

  it.effect("continues as soon as capacity is free, even if its process has far fewer than it could use", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(5)
      yield* start(line, { capacity: makeCapacity(1, 1), limit: 32 })
      yield* TestClock.adjust("1 second")
      for (let n = 0; n < 4; n++) {
        yield* line.finish(1)
        yield* TestClock.adjust("10 millis")
      }
      assert.isEmpty(line.waiting)
    }))

  it.effect("uses capacity that became free during a poll, without the wait for the next interval", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(4)
      const { wake } = yield* start(line)
      yield* TestClock.adjust("1 second")
      line.add(20)
      yield* wake
      yield* TestClock.adjust("1 millis")
      yield* line.finish(1)
      yield* TestClock.adjust("4 millis")
      assert.strictEqual(line.running.size, 7, "the poll asked for four")
      yield* TestClock.adjust("15 millis")
      assert.strictEqual(line.running.size, 8)
    }))

  it.effect("takes the next items when handlers release their capacity, and handles twice its limit at most", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(40)
      let released = 0
      let used = 0
      yield* start(line, {
        handle: (_, release) =>
          Effect.gen(function*() {
            used++
            yield* Effect.sleep("100 millis")
            // The second release of an item frees nothing.
            yield* Effect.andThen(release, release)
            released++
            used--
            yield* line.handle()
          })
      })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([line.running.size, released, used, line.waiting.length], [16, 16, 0, 24])
      yield* line.finish(8)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([line.running.size, released, line.waiting.length], [16, 24, 16])
      for (let n = 0; n < 5; n++) {
        yield* line.finish(16)
        yield* TestClock.adjust("10 seconds")
      }
      assert.deepStrictEqual([line.running.size, released, line.waiting.length], [0, 40, 0])
      assert.strictEqual(line.most(), 16)
    }))

  it.effect("polls at once when it is woken, and at intervals when it is not", () =>
    Effect.gen(function*() {
      const line = makeLine()
      const { wake } = yield* start(line)
      yield* TestClock.adjust("1 second")
      assert.lengthOf(line.takes, 1)
      line.add(1)
      yield* wake
      yield* TestClock.adjust("10 millis")
      assert.strictEqual(line.running.size, 1)
      assert.deepStrictEqual(line.takes.map(({ at }) => at), [0, 1000])
      line.add(1)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(line.running.size, 2)
      // Between half of the interval and all of it, so that many processes do not poll in the same moment.
      yield* TestClock.adjust("10 minutes")
      const pauses = line.takes.slice(2).map(({ at }, n) => at - line.takes[n + 1]!.at)
      for (const pause of pauses) assert.isTrue(pause >= 5000 && pause <= 10_005, String(pause))
      assert.isAbove(new Set(pauses).size, 10)
    }))

  it.effect("polls again when it is woken during a poll, so that later rows are found by the next poll", () =>
    Effect.gen(function*() {
      const line = makeLine()
      const { wake } = yield* start(line)
      yield* TestClock.adjust("1 second")
      yield* wake
      yield* TestClock.adjust("2 millis")
      line.add(1)
      yield* wake
      yield* TestClock.adjust("20 millis")
      assert.strictEqual(line.running.size + line.waiting.length, 1)
      assert.isEmpty(line.waiting)
    }))

  it.effect("takes no more than its allowance, and nothing when that is zero", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(8)
      let allowed = 0
      const { wake } = yield* start(line, { allowance: (free) => Effect.succeed(Math.min(free, allowed)) })
      yield* TestClock.adjust("1 second")
      assert.isEmpty(line.takes)
      allowed = 1
      yield* wake
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(line.takes.map(({ limit }) => limit), [1])
      assert.strictEqual(line.running.size, 1)
    }))

  it.effect("polls again when its allowance grows, if it used all of the last one", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(3)
      yield* start(line, { allowance: () => Effect.succeed(1), reopensIn: () => 100 })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(line.takes.map(({ at }) => at), [0, 105, 210, 315])
    }))

  it.effect("handles the rows of a poll that runs when it is stopped, and does not poll again", () =>
    Effect.gen(function*() {
      const line = makeLine()
      line.add(20)
      const { running, stop } = yield* start(line)
      yield* TestClock.adjust("2 millis")
      assert.strictEqual(line.running.size, 0)
      yield* Effect.forkChild(stop)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(line.running.size, 8)
      yield* line.finish(8)
      yield* FiberSet.awaitEmpty(running)
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(line.takes, 1)
      assert.lengthOf(line.waiting, 12)
    }))
})
