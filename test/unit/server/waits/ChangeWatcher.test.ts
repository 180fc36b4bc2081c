/**
 * One watcher serves all waiting requests of a process. The tests give it a feed and a store that count, hang and fail, and a test
 * clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Schema } from "effect"
import { TestClock } from "effect/testing"
import { type ChangeToken, ChangeTokenExpired, type LedgerChange } from "../../../../src/domain/ChangeFeed.ts"
import type { ClientId, GrantId, GrantIdentity, PairwiseSubject, ResourceOwner } from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { ChangeWatcher } from "../../../../src/server/waits/ChangeWatcher.ts"
import { topicOfOperation, topicOfOwner, type Waiter } from "../../../../src/server/waits/Waiters.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { operationWith } from "../../../fixtures/http/HttpFixed.ts"

const unused = () => Effect.die("unused")

const unavailable = new StoreUnavailable({ cause: new Error("connection refused") })

/** A ledger that tells the watcher what a test wants. */
const makeLedger = () => {
  const ledger = {
    changes: [] as Array<LedgerChange>,
    refused: [] as Array<GrantId>,
    /** The names of the statements, in order. */
    statements: [] as Array<string>,
    /** The grants of the last check. */
    asked: [] as ReadonlyArray<GrantIdentity>,
    failure: null as StoreUnavailable | ChangeTokenExpired | null,
    pageSize: 1000
  }
  const run = <A>(name: string, result: () => A) =>
    Effect.suspend((): Effect.Effect<A, never> => {
      ledger.statements.push(name)
      // The cast: `now` and `refused` fail with the first of these only.
      return ledger.failure === null ? Effect.sync(result) : Effect.fail(ledger.failure) as unknown as Effect.Effect<A>
    })
  const feed: OperationFeed["Service"] = {
    since: unused,
    now: run("now", () => String(ledger.changes.length) as ChangeToken),
    sinceInLedger: (after) =>
      run("since", () => {
        const from = Number(after)
        const changes = ledger.changes.slice(from, from + ledger.pageSize)
        const next = from + changes.length
        return { changes, unfinished: null, next: String(next) as ChangeToken, has_more: next < ledger.changes.length }
      })
  }
  const store: OperationStore["Service"] = {
    find: unused,
    list: unused,
    limits: unused,
    refused: (grants) =>
      run("refused", () => {
        ledger.asked = grants
        return ledger.refused
      })
  }
  return Object.assign(ledger, { feed, store })
}

type FakeLedger = ReturnType<typeof makeLedger>

const watch = Effect.fnUntraced(function*({ feed, store }: FakeLedger) {
  const services = Layer.merge(Layer.succeed(OperationFeed, feed), Layer.succeed(OperationStore, store))
  const context = yield* Layer.build(Layer.provide(ChangeWatcher.layer, services))
  return Context.get(context, ChangeWatcher)
})

const grantOf = (n: number): GrantIdentity => ({
  grant_id: `grant-${n}` as GrantId,
  // The owners share two clients.
  client_id: `client-${n % 2}` as ClientId,
  subject: `subject-${n}` as PairwiseSubject
})

const idOf = (n: number) => `operation-${n}` as OperationId

const changeOf = (operation: number, owner: number): LedgerChange => ({
  operation: operationWith({ id: idOf(operation) }),
  client_id: grantOf(owner).client_id,
  subject: grantOf(owner).subject,
  resource_owner: "owner" as ResourceOwner
})

/** A request that waits until it is interrupted, and counts how often it was woken. */
const enter = Effect.fnUntraced(function*(watcher: ChangeWatcher["Service"], waiter: Omit<Waiter, "wake">) {
  const seen = { woken: 0, started: false }
  const wake = () => void seen.woken++
  const effect = Effect.andThen(
    Effect.sync(() => {
      seen.started = true
    }),
    Effect.never
  )
  const fiber = yield* Effect.forkChild(watcher.during({ ...waiter, wake }, effect), { startImmediately: true })
  return Object.assign(seen, { fiber })
})

const ofOperation = (n: number) => ({ topic: topicOfOperation(idOf(n)), grant: grantOf(n) })
const ofOwner = (n: number) => ({ topic: topicOfOwner(grantOf(n)), grant: grantOf(n) })

describe("The watcher", () => {
  it.effect("runs the same statements for one waiter and for many, and none without a waiter", () =>
    Effect.gen(function*() {
      const counts: Array<ReadonlyArray<number>> = []
      for (const size of [1, 500]) {
        const ledger = makeLedger()
        const watcher = yield* watch(ledger)
        yield* TestClock.adjust(5000)
        assert.deepStrictEqual(ledger.statements, [])
        const waiters = []
        for (let n = 0; n < size; n++) waiters.push(yield* enter(watcher, ofOperation(n)))
        yield* TestClock.adjust(1000)
        const count = (name: string) => ledger.statements.filter((one) => one === name).length
        counts.push([count("now"), count("since"), count("refused")])
        assert.strictEqual(watcher.count(), size)
        yield* Effect.forEach(waiters, ({ fiber }) => Fiber.interrupt(fiber))
        assert.strictEqual(watcher.count(), 0)
        const before = ledger.statements.length
        yield* TestClock.adjust(60_000)
        assert.strictEqual(ledger.statements.length, before)
      }
      assert.deepStrictEqual(counts, [[1, 20, 2], [1, 20, 2]])
    }))

  it.effect("starts with the changes that are not visible yet, each time after it had no waiter", () =>
    Effect.gen(function*() {
      const ledger = makeLedger()
      const watcher = yield* watch(ledger)
      for (let round = 0; round < 3; round++) {
        ledger.changes.push(changeOf(1, 1))
        const waiter = yield* enter(watcher, ofOperation(1))
        yield* TestClock.adjust(200)
        assert.strictEqual(waiter.woken, 0)
        ledger.changes.push(changeOf(1, 1))
        yield* TestClock.adjust(50)
        assert.strictEqual(waiter.woken, 1)
        yield* Fiber.interrupt(waiter.fiber)
      }
    }))

  it.effect("does not wake a waiter for changes that its filters leave out", () =>
    Effect.gen(function*() {
      const ledger = makeLedger()
      const watcher = yield* watch(ledger)
      const filtered = yield* enter(watcher, { ...ofOwner(1), concerns: ({ id }) => id === idOf(2) })
      const other = yield* enter(watcher, ofOwner(1))
      ledger.changes.push(changeOf(1, 1))
      yield* TestClock.adjust(200)
      assert.deepStrictEqual([filtered.woken, other.woken], [0, 1])
      ledger.changes.push(changeOf(3, 1), changeOf(2, 1))
      yield* TestClock.adjust(200)
      assert.deepStrictEqual([filtered.woken, other.woken], [1, 2])
    }))

  it.effect("runs no effect before it knows where to start", () =>
    Effect.gen(function*() {
      const ledger = makeLedger()
      const now = ledger.feed.now
      const watcher = yield* watch(Object.assign(ledger, { feed: { ...ledger.feed, now: Effect.delay(now, 30) } }))
      const waiter = yield* enter(watcher, ofOperation(1))
      yield* TestClock.adjust(29)
      assert.isFalse(waiter.started)
      yield* TestClock.adjust(1)
      assert.isTrue(waiter.started)
    }))

  const changes = Schema.Array(Schema.Struct({
    operation: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
    owner: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))
  })).check(Schema.isMaxLength(10))

  it.effect.prop(
    "wakes the waiters of the changed operations and of their owners, and no other",
    [changes],
    ([changed]) =>
      Effect.gen(function*() {
        const ledger = Object.assign(makeLedger(), { pageSize: 3 })
        const watcher = yield* watch(ledger)
        const operations = []
        const owners = []
        for (let n = 0; n < 4; n++) {
          operations.push(yield* enter(watcher, ofOperation(n)))
          owners.push(yield* enter(watcher, ofOwner(n)))
        }
        yield* TestClock.adjust(1)
        ledger.changes.push(...changed.map(({ operation, owner }) => changeOf(operation, owner)))
        yield* TestClock.adjust(50)
        for (let n = 0; n < 4; n++) {
          assert.strictEqual(operations[n]!.woken > 0, changed.some(({ operation }) => operation === n))
          assert.strictEqual(owners[n]!.woken > 0, changed.some(({ owner }) => owner === n))
        }
        for (const { fiber } of [...operations, ...owners]) yield* Fiber.interrupt(fiber)
      })
  )

  it.effect("asks once for each grant, and wakes the waiters of a refused grant within a second", () =>
    Effect.gen(function*() {
      const ledger = makeLedger()
      const watcher = yield* watch(ledger)
      const refused = [yield* enter(watcher, ofOwner(1)), yield* enter(watcher, ofOperation(1))]
      const other = yield* enter(watcher, ofOperation(2))
      yield* TestClock.adjust(500)
      assert.deepStrictEqual(ledger.asked, [grantOf(1), grantOf(2)])
      ledger.refused.push(grantOf(1).grant_id)
      yield* TestClock.adjust(500)
      assert.deepStrictEqual([...refused, other].map(({ woken }) => woken), [1, 1, 0])
    }))
})

describe("A watcher that fails", () => {
  const failures: Readonly<Record<string, StoreUnavailable | ChangeTokenExpired>> = {
    "because the store is down": unavailable,
    "because its token expired": new ChangeTokenExpired()
  }

  it.effect.each(Object.keys(failures))("says so once, pauses, starts anew and wakes all waiters: %s", (name) => {
    const lines: Array<unknown> = []
    const logger = Logger.layer([Logger.make(({ message }) => void lines.push(message))])
    return Effect.gen(function*() {
      const ledger = makeLedger()
      const watcher = yield* watch(ledger)
      const waiters = [yield* enter(watcher, ofOperation(1)), yield* enter(watcher, ofOwner(2))]
      yield* TestClock.adjust(100)
      ledger.failure = failures[name]!
      yield* TestClock.adjust(50)
      // The change commits while the watcher sees nothing.
      ledger.changes.push(changeOf(1, 1))
      const before = ledger.statements.length
      yield* TestClock.adjust(10_000)
      assert.isBelow(ledger.statements.length - before, 20)
      assert.deepStrictEqual(waiters.map(({ woken }) => woken), [0, 0])
      const tellsChanges = lines.filter((line) => String(line).includes("Changes cannot be read"))
      assert.lengthOf(tellsChanges, 1)
      ledger.failure = null
      yield* TestClock.adjust(1000)
      assert.deepStrictEqual(waiters.map(({ woken }) => woken), [1, 1])
      ledger.changes.push(changeOf(1, 2))
      yield* TestClock.adjust(50)
      assert.deepStrictEqual(waiters.map(({ woken }) => woken), [2, 2])
    }).pipe(Effect.provide(logger))
  })

  it.effect("lets effects start: their reads tell what is wrong", () =>
    Effect.gen(function*() {
      const ledger = makeLedger()
      ledger.failure = unavailable
      const watcher = yield* watch(ledger)
      const waiter = yield* enter(watcher, ofOperation(1))
      yield* TestClock.adjust(1)
      assert.isTrue(waiter.started)
      ledger.failure = null
      yield* TestClock.adjust(1000)
      // What changed between its read and the start of the watcher.
      assert.strictEqual(waiter.woken, 1)
    }).pipe(Effect.provide(Logger.layer([]))))

  it.effect("gives up statements that are never answered", () =>
    Effect.gen(function*() {
      const ledger = makeLedger()
      const { sinceInLedger } = ledger.feed
      let isStuck = true
      const feed: OperationFeed["Service"] = {
        ...ledger.feed,
        sinceInLedger: (after, limit) => isStuck ? Effect.never : sinceInLedger(after, limit)
      }
      const watcher = yield* watch(Object.assign(ledger, { feed }))
      const waiter = yield* enter(watcher, ofOperation(1))
      yield* TestClock.adjust(1000)
      isStuck = false
      yield* TestClock.adjust(3000)
      assert.strictEqual(waiter.woken, 1)
    }).pipe(Effect.provide(Logger.layer([]))))
})
