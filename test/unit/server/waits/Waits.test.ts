/**
 * A read that waits answers with what is true at the answer, and misses no change. The tests run it over a ledger in memory whose
 * statements take time, under a test clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Logger, Schema } from "effect"
import { TestClock } from "effect/testing"
import type { Grant, GrantIdentity } from "../../../../src/domain/Grant.ts"
import { isOverdue } from "../../../../src/server/gate/Lifecycle.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import { assertFreeSlots } from "../../../fixtures/http/BothWays.ts"
import { atOnce, openProcess } from "../../../fixtures/http/WaitingProcess.ts"
import { accept, drive, InMemoryLedger, issue, issueAgain } from "../../../fixtures/ledger/Ledger.ts"
import { skewedClock } from "../../../fixtures/SkewedClock.ts"

const start = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })

const exitOf = (fiber: Fiber.Fiber<unknown, unknown>) => fiber.pollUnsafe()

/** The token of the feed from which on a grant waits for changes. */
const tokenOf = (grant: GrantIdentity) =>
  OperationFeed.use(({ since }) =>
    Effect.map(since(grant, { states: [], type: null, page_size: 100, after: null }), ({ next }) => next)
  )

/** A grant with an accepted operation. */
const scene = Effect.gen(function*() {
  const { grant, identity } = yield* issue()
  const { operation } = yield* accept(identity)
  return { grant, identity, operation }
})

const millis = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const latencyUpTo = (maximum: number) => Schema.Struct({ before: millis(maximum), after: millis(maximum) })

/** Ways to a final state, by their length. */
const ways = [["submitting"], ["submitting", "submitted"], ["submitting", "submitted", "indeterminate"]] as const

describe("A wait", () => {
  it.effect.prop(
    "misses no change, at any moment of its reads and of the watcher",
    [
      latencyUpTo(200),
      latencyUpTo(200),
      Schema.Array(millis(200)).check(Schema.isMinLength(1), Schema.isMaxLength(4)),
      Schema.NullOr(millis(200))
    ],
    ([feed, read, pauses, before]) =>
      Effect.gen(function*() {
        const { change, changes, end, watcher } = yield* openProcess({ deadline: 60_000 }, { feed, read })
        const { identity, operation } = yield* scene
        const next = yield* tokenOf(identity)
        const honoured = <E>(wait: Effect.Effect<{ readonly isHonoured: boolean }, E>) =>
          start(Effect.map(wait, ({ isHonoured }) => isHonoured))
        const waits: Array<Fiber.Fiber<boolean, unknown>> = []
        // In most runs the watcher runs for another request already, at any moment of its interval.
        if (before !== null) {
          waits.push(yield* honoured(change(identity, operation, 60)))
          yield* TestClock.adjust(before)
        }
        waits.push(yield* honoured(change(identity, operation, 60)))
        waits.push(yield* honoured(end(identity, operation, 60)))
        waits.push(yield* honoured(changes(identity, next, 60)))
        let moved = operation
        const states = [...ways[pauses.length - 2] ?? [], "failed"] as const
        for (const [at, pause] of pauses.entries()) {
          yield* TestClock.adjust(pause)
          moved = yield* drive(moved, [states[at]!])
        }
        // An interval of the watcher, the statement that may have begun before the change, the next one, and two reads.
        yield* TestClock.adjust(2 * (50 + feed.before + feed.after + read.before + read.after))
        assert.isTrue(waits.every((fiber) => exitOf(fiber) !== undefined), "a wake-up was lost")
        for (const fiber of waits) assert.isTrue(yield* Fiber.join(fiber))
        assert.strictEqual(watcher.count(), 0)
      }).pipe(Effect.provide(InMemoryLedger))
  )

  it.effect("is woken again by a change during its read", () =>
    Effect.gen(function*() {
      const { end } = yield* openProcess({}, { ...atOnce, read: { before: 0, after: 500 } })
      const { identity, operation } = yield* scene
      const waiting = yield* start(end(identity, operation, 60))
      yield* TestClock.adjust(1500)
      const submitting = yield* drive(operation, ["submitting"])
      yield* TestClock.adjust(100)
      // The read after the first change is under way, with a snapshot from before the second one.
      yield* drive(submitting, ["failed"])
      yield* TestClock.adjust(1000)
      assert.isDefined(exitOf(waiting))
      assert.strictEqual((yield* Fiber.join(waiting)).answer.revision, 3)
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("ends after its time with what is true then", () =>
    Effect.gen(function*() {
      const { change, changes } = yield* openProcess()
      const { identity, operation } = yield* scene
      const one = yield* start(change(identity, operation, 3))
      const other = yield* scene
      const all = yield* start(changes(other.identity, yield* tokenOf(other.identity), 3))
      yield* TestClock.adjust(2999)
      assert.deepStrictEqual([exitOf(one), exitOf(all)], [undefined, undefined])
      yield* TestClock.adjust(1)
      const { answer, isHonoured } = yield* Fiber.join(one)
      assert.deepStrictEqual([answer.revision, isHonoured], [operation.revision, true])
      const page = yield* Fiber.join(all)
      assert.deepStrictEqual([page.answer.operations, page.isHonoured], [[], true])
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("ends after its time also while the wall clock steps back", () =>
    Effect.gen(function*() {
      const clock = skewedClock()
      const { change } = yield* Effect.updateService(openProcess(), Clock.Clock, clock.over)
      const { identity, operation } = yield* scene
      const waiting = yield* start(change(identity, operation, 3))
      yield* TestClock.adjust(1000)
      clock.skew = -3_600_000
      yield* TestClock.adjust(2000)
      assert.isDefined(exitOf(waiting))
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("answers at once if its condition holds, with one read", () =>
    Effect.gen(function*() {
      const { change, counts } = yield* openProcess()
      const { identity, operation } = yield* scene
      yield* drive(operation, ["submitting"])
      const { answer, isHonoured } = yield* change(identity, operation, 60)
      assert.deepStrictEqual([answer.revision, isHonoured, counts.reads], [2, true, 1])
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("does not read again for changes of other operations", () =>
    Effect.gen(function*() {
      const { change, counts } = yield* openProcess()
      const { identity, operation } = yield* scene
      const { operation: other } = yield* accept(identity)
      const waiting = yield* start(change(identity, operation, 60))
      yield* TestClock.adjust(100)
      const { reads } = counts
      yield* drive(other, ["submitting"])
      yield* TestClock.adjust(1000)
      assert.strictEqual(counts.reads, reads)
      yield* Fiber.interrupt(waiting)
    }).pipe(Effect.provide(InMemoryLedger)))

  const endings: Readonly<Record<string, (grant: Grant) => Effect.Effect<unknown, unknown, Grants>>> = {
    GrantRevoked: ({ grant_id }) => Grants.use((grants) => grants.revoke(grant_id)),
    ClientInactive: ({ client_id }) => Grants.use((grants) => grants.setClientActive(client_id, false)),
    ProviderDisconnected: ({ provider_connection_id }) =>
      Grants.use((grants) => grants.setProviderConnected(provider_connection_id, false))
  }

  it.effect.each(Object.keys(endings))(
    "ends with the refusal of its grant within a second: %s",
    (tag) =>
      Effect.gen(function*() {
        const { change } = yield* openProcess()
        const { grant, identity, operation } = yield* scene
        const waiting = yield* start(change(identity, operation, 60))
        yield* TestClock.adjust(1234)
        yield* endings[tag]!(grant)
        assert.isUndefined(exitOf(waiting))
        yield* TestClock.adjust(1000)
        assert.isDefined(exitOf(waiting))
        const refusal = yield* Effect.flip(Fiber.join(waiting))
        assert.strictEqual(refusal === "refused" ? refusal : refusal._tag, tag)
      }).pipe(Effect.provide(InMemoryLedger))
  )

  it.effect("ends within a second after its grant expires", () =>
    Effect.gen(function*() {
      const { change } = yield* openProcess()
      const { grant } = yield* scene
      const { identity } = yield* issueAgain(grant, { expires_in: Duration.seconds(10) })
      const { operation } = yield* accept(identity)
      const waiting = yield* start(change(identity, operation, 60))
      yield* TestClock.adjust(9_999)
      assert.isUndefined(exitOf(waiting))
      yield* TestClock.adjust(1001)
      assert.isDefined(exitOf(waiting))
      const refusal = yield* Effect.flip(Fiber.join(waiting))
      assert.deepInclude(refusal, { _tag: "GrantRevoked", reason: "expired" })
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("that is interrupted at any moment leaves no slot and no waiter behind", () =>
    Effect.gen(function*() {
      const slow = { before: 30, after: 30 }
      const limits = { maxInFlight: 2, maxInFlightPerClient: 2, maxWaiting: 2, maxWaitingPerClient: 2 }
      const { end, lifecycle, watcher } = yield* openProcess({ ...limits, deadline: 60_000 }, {
        feed: slow,
        read: slow
      })
      const { identity } = yield* scene
      for (let moment = 0; moment < 400; moment += 10) {
        const { operation } = yield* accept(identity)
        const waiting = yield* start(end(identity, operation, 60))
        // After 150 ms it is woken, reads, and waits again.
        yield* TestClock.adjust(Math.min(moment, 150))
        yield* drive(operation, ["submitting"])
        yield* TestClock.adjust(Math.max(0, moment - 150))
        yield* Fiber.interrupt(waiting)
        assert.strictEqual(watcher.count(), 0)
        yield* assertFreeSlots(lifecycle, identity.client_id, 2)
      }
      // As many may wait as at the beginning.
      const { operation } = yield* accept(identity)
      const waiting = [yield* start(end(identity, operation, 60)), yield* start(end(identity, operation, 60))]
      yield* TestClock.adjust(1000)
      assert.isTrue(waiting.every((fiber) => exitOf(fiber) === undefined))
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("takes no slot: as many requests wait as may, and others run", () =>
    Effect.gen(function*() {
      const limits = { maxInFlight: 1, maxInFlightPerClient: 1, maxWaiting: 5, maxWaitingPerClient: 3 }
      const { change } = yield* openProcess(limits)
      const [one, two, three] = [yield* scene, yield* scene, yield* scene]
      const waiting = []
      for (const { identity, operation } of [one, one, one, two, two]) {
        waiting.push(yield* start(change(identity, operation, 60)))
        yield* TestClock.adjust(1)
      }
      assert.isTrue(waiting.every((fiber) => exitOf(fiber) === undefined))
      // The client has as many as it may; then the process has.
      for (const { identity, operation } of [one, three]) {
        const { answer, isHonoured } = yield* change(identity, operation, 60)
        assert.deepStrictEqual([answer.revision, isHonoured], [operation.revision, false])
      }
      yield* drive(two.operation, ["submitting"])
      yield* TestClock.adjust(50)
      assert.deepStrictEqual(waiting.map((fiber) => exitOf(fiber) === undefined), [true, true, true, false, false])
      const late = yield* start(change(three.identity, three.operation, 60))
      yield* TestClock.adjust(1)
      assert.isUndefined(exitOf(late))
      for (const fiber of [...waiting, late]) yield* Fiber.interrupt(fiber)
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect.each([[1, 16], [8, 64]] as const)(
    "shares the pool: of many woken requests of %i clients, %i read at once, and all are answered",
    ([clients, most]) =>
      Effect.gen(function*() {
        const latencies = { feed: atOnce.feed, read: { before: 5, after: 5 } }
        const { change, counts } = yield* openProcess({}, latencies)
        const scenes = yield* Effect.forEach(Array.from({ length: clients }), () => scene)
        const waiting = []
        for (const { identity, operation } of scenes) {
          for (let n = 0; n < 200 / clients; n++) waiting.push(yield* start(change(identity, operation, 60)))
        }
        yield* TestClock.adjust(1000)
        counts.most = 0
        for (const { operation } of scenes) yield* drive(operation, ["submitting"])
        yield* TestClock.adjust(1000)
        assert.strictEqual(counts.most, most)
        for (const fiber of waiting) assert.strictEqual((yield* Fiber.join(fiber)).answer.revision, 2)
      }).pipe(Effect.provide(InMemoryLedger))
  )

  it.effect("with slow reads runs few of a client at once, and the others hold no place of other clients", () =>
    Effect.gen(function*() {
      const latencies = { feed: atOnce.feed, read: { before: 500, after: 0 } }
      const { counts, end, endSlowly } = yield* openProcess({ maxListsPerClient: 4 }, latencies)
      const greedy = yield* Effect.forEach(Array.from({ length: 4 }), () => scene)
      const other = yield* scene
      for (const { identity, operation } of greedy) {
        for (let n = 0; n < 16; n++) yield* start(endSlowly(identity, operation, 60))
      }
      const waiting = yield* start(end(other.identity, other.operation, 60))
      yield* TestClock.adjust(10_000)
      const before = counts.reads
      for (const { operation } of greedy) yield* drive(operation, ["submitting"])
      yield* drive(other.operation, ["submitting"])
      // All are woken, and no read has ended.
      yield* TestClock.adjust(400)
      assert.deepStrictEqual([counts.reads - before, counts.running], [17, 17])
      yield* Fiber.interrupt(waiting)
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("ends when the shutdown begins, with what is true then, and the drain waits for it", () =>
    Effect.gen(function*() {
      const { change, lifecycle } = yield* openProcess({ drainTimeout: 10_000 }, {
        ...atOnce,
        read: { before: 20, after: 20 }
      })
      const { identity, operation } = yield* scene
      const waiting = [yield* start(change(identity, operation, 60)), yield* start(change(identity, operation, 60))]
      yield* TestClock.adjust(1000)
      const reading = yield* start(change(identity, operation, 60))
      yield* TestClock.adjust(10)
      const drain = yield* start(lifecycle.drain)
      assert.strictEqual(yield* Effect.flip(change(identity, operation, 60)), "refused")
      yield* TestClock.adjust(39)
      assert.isUndefined(exitOf(drain))
      yield* TestClock.adjust(40)
      assert.isDefined(exitOf(drain))
      for (const fiber of [...waiting, reading]) {
        const { answer, isHonoured } = yield* Fiber.join(fiber)
        assert.deepStrictEqual([answer.revision, isHonoured], [operation.revision, true])
      }
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("ends when the shutdown begins, also if the request waited before", () =>
    Effect.gen(function*() {
      const { lifecycle, twoChanges } = yield* openProcess()
      const { identity, operation } = yield* scene
      const waiting = yield* start(twoChanges(identity, operation, 60))
      yield* TestClock.adjust(1000)
      yield* drive(operation, ["submitting"])
      yield* TestClock.adjust(1000)
      const drain = yield* start(lifecycle.drain)
      yield* TestClock.adjust(100)
      assert.isDefined(exitOf(drain))
      assert.strictEqual((yield* Fiber.join(waiting)).answer.revision, 2)
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("reads each time with a whole deadline, which ends the request if the store hangs", () =>
    Effect.gen(function*() {
      const read = { before: 0, after: 1500 }
      const { change } = yield* openProcess({ deadline: 1800 }, { ...atOnce, read })
      const { identity, operation } = yield* scene
      const slow = yield* start(change(identity, operation, 10))
      // Two reads together take longer than the deadline.
      yield* TestClock.adjust(11_500)
      assert.isTrue((yield* Fiber.join(slow)).isHonoured)
      const hanging = yield* start(change(identity, operation, 10))
      yield* TestClock.adjust(5000)
      read.after = 60_000
      yield* TestClock.adjust(5000 + 1799)
      assert.isUndefined(exitOf(hanging))
      yield* TestClock.adjust(1)
      const exit = exitOf(hanging)
      assert(exit !== undefined && Exit.isFailure(exit) && isOverdue(exit.cause))
    }).pipe(Effect.provide([InMemoryLedger, Logger.layer([])])))
})
