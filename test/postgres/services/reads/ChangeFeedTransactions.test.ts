/**
 * The change feed skips no change of a slow transaction, and waits for none. The tests hold transactions of the real
 * PostgreSQL open while a reader follows.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { feedReader, revisions, submittingStatement } from "../../../fixtures/ledger/Changes.ts"
import { accept, issue, operationIn, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { adminLayer } from "../../../fixtures/postgres/TestDatabase.ts"
import { type Step, type Steps, take } from "../../../fixtures/Stories.ts"

/** A grant with accepted operations, and readers of both feeds that have seen them. */
const followed = Effect.fnUntraced(function*(count: number, page_size: number) {
  const { identity } = yield* issue()
  const accepted = yield* Effect.forEach(Array.from({ length: count }), () => accept(identity))
  const ids = accepted.map(({ operation }) => operation.id)
  const readers = [feedReader(identity), feedReader(null)]
  for (const reader of readers) yield* reader.drain(page_size)
  /** Both readers return exactly these, in any order, once. */
  const assertNext = Effect.fnUntraced(function*(expected: ReadonlyArray<readonly [OperationId, number]>) {
    const wanted = revisions(expected.map(([id, revision]) => ({ id, revision })))
    for (const reader of readers) assert.sameMembers([...revisions(yield* reader.drain(page_size))], [...wanted])
  })
  /** Whether both tokens name a transaction, once. Other tests on the server have transactions of their own. */
  const assertNames = Effect.fnUntraced(function*(position: number, isNamed: boolean) {
    for (const reader of readers) {
      const { pending } = yield* reader.position
      assert.lengthOf(pending.filter((place) => place.position === position), isNamed ? 1 : 0)
    }
  })
  return { identity, ids, readers, assertNext, assertNames }
})

/** The position of a transaction. */
const positionOf = Effect.fnUntraced(function*(run: Effect.Success<typeof openTransaction>) {
  const [row] = yield* run(
    "SELECT (pg_current_xact_id()::text::bigint + change_offset)::float8 AS position FROM ledger_home"
  )
  return (row as { readonly position: number }).position
})

const submit = (id: OperationId) =>
  OperationLedger.use((ledger) => ledger.transition(id, 1, outcome("submitting"), null))

/** What a step sees: operations that both readers have seen once, and two transactions, of which one begins first. */
interface Scene extends Effect.Success<ReturnType<typeof followed>> {
  readonly early: Effect.Success<typeof openTransaction>
  readonly late: Effect.Success<typeof openTransaction>
  /** Of the early one. */
  position: number | null
  waiting: Fiber.Fiber<unknown, unknown>
}
type Act = Step<Scene, unknown, Layer.Success<typeof PostgresLedger> | Scope.Scope>

const send = (text: string, which: "early" | "late" = "early"): Act => (scene) => scene[which](text)
/** A slow transaction changes an operation. */
const slow = (n: number, which: "early" | "late" = "early"): Act => (scene) =>
  Effect.gen(function*() {
    yield* scene[which](submittingStatement, [scene.ids[n]])
    if (which === "early") scene.position ??= yield* positionOf(scene.early)
  })
const quick = (n: number): Act => ({ ids }) => submit(ids[n]!)
/** Both readers return these operations at their second revision, or at the named one. */
const next = (...expected: ReadonlyArray<number | readonly [n: number, revision: number]>): Act => (scene) =>
  scene.assertNext(expected.map((one) => typeof one === "number" ? [scene.ids[one]!, 2] : [scene.ids[one[0]]!, one[1]]))
const names = (isNamed: boolean): Act => ({ assertNames, position }) => assertNames(position!, isNamed)
/** The early transaction waits for the late one at this operation. */
const waits = (n: number): Act => (scene) =>
  Effect.gen(function*() {
    const statement = "UPDATE operations SET state = 'indeterminate', revision = revision + 1 WHERE id = $1"
    scene.waiting = yield* Effect.forkChild(scene.early(statement, [scene.ids[n]]))
    yield* untilWaiting(1)
  })
const joins: Act = ({ waiting }) => Fiber.join(waiting)

const beside: Readonly<Record<string, Steps<Scene, unknown, Layer.Success<typeof PostgresLedger> | Scope.Scope>>> = {
  "returns a later change at once, and the slow one after its commit": [
    [slow(0), quick(1), next(1), names(true), quick(2), next(2), next()],
    [send("COMMIT"), next(0), names(false), next()]
  ],
  "returns every change of a slow transaction, also more than a page has": [
    [slow(1), slow(2), slow(3), quick(0), next(0), slow(4), slow(5), send("COMMIT")],
    [next(1, 2, 3, 4, 5), next()]
  ],
  "forgets a slow transaction that is rolled back": [
    [slow(0), quick(1), next(1), names(true), send("ROLLBACK"), next(), names(false), quick(0), next(0)]
  ],
  "returns what a savepoint kept, and not what it rolled back": [
    [send("SAVEPOINT first"), slow(0), send("RELEASE SAVEPOINT first"), send("SAVEPOINT second"), slow(1)],
    [quick(2), next(2), send("ROLLBACK TO SAVEPOINT second"), send("COMMIT"), next(0), next()]
  ],
  "returns the later of two changes, although its transaction began earlier": [
    [slow(0), slow(1, "late"), waits(1), send("COMMIT", "late"), joins, next(1)],
    [send("COMMIT"), next(0, [1, 3]), next()]
  ]
}

layer(PostgresLedger, { excludeTestServices: true })("The change feed beside a slow transaction", (it) => {
  for (const page_size of [1, 2, 100]) {
    for (const [rule, story] of Object.entries(beside)) {
      it.effect(`${rule}: ${page_size} a page`, () =>
        Effect.gen(function*() {
          const scene: Scene = {
            ...yield* followed(6, page_size),
            early: yield* openTransaction,
            late: yield* openTransaction,
            position: null,
            waiting: yield* Effect.forkChild(Effect.void)
          }
          yield* take(story, scene)
        }).pipe(Effect.scoped))
    }
  }

  it.effect("continues within the changes of a transaction, although a page ended among them", () =>
    Effect.gen(function*() {
      const { assertNext, ids: [quick, ...slow], readers } = yield* followed(6, 100)
      const run = yield* openTransaction
      for (const id of slow) yield* run(submittingStatement, [id])
      yield* submit(quick!)
      yield* assertNext([[quick!, 2]])
      yield* run("COMMIT")
      const seen = yield* Effect.forEach(readers, (reader) => reader.page(2))
      for (const { has_more, operations } of seen) assert.deepStrictEqual([operations.length, has_more], [2, true])
      // These move behind the place, and no longer belong to the slow transaction.
      const moved = yield* OperationLedger.use((ledger) => ledger.review(slow[0]!, true))
      assert.isTrue(moved.under_review)
      const rest = slow.toSorted().slice(2)
      yield* assertNext([...rest.filter((id) => id !== slow[0]).map((id) => [id, 2] as const), [slow[0]!, 2]])
    }).pipe(Effect.scoped))

  it.effect("starts now without the changes so far, and with those of transactions that are running", () =>
    Effect.gen(function*() {
      const feed = yield* OperationFeed
      const { ids: [slow, quick] } = yield* followed(2, 100)
      const run = yield* openTransaction
      yield* run(submittingStatement, [slow])
      yield* submit(quick!)
      const reader = feedReader(null)
      reader.resume(yield* feed.now)
      yield* run("COMMIT")
      assert.deepStrictEqual(revisions(yield* reader.drain()), [`${slow} 2`])
    }).pipe(Effect.scoped))

  it.effect("leaves the changes of its own transaction until the commit", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const feed = yield* OperationFeed
      const elsewhere = yield* Layer.build(anotherProcess({ maxConnections: 1 }))
      const { assertNext, ids, identity } = yield* followed(4, 100)
      const [first, quick, second, undone] = ids.toSorted().toReversed()
      const starting = feedReader(null)
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* submit(first!)
        yield* Effect.provideContext(submit(quick!), elsewhere)
        yield* assertNext([[quick!, 2]])
        starting.resume(yield* feed.now)
        // Its id is lower than that of the first one.
        yield* submit(second!)
        yield* assertNext([])
      }))
      yield* assertNext([[first!, 2], [second!, 2]])
      assert.sameMembers([...revisions(yield* starting.drain())], [`${first} 2`, `${second} 2`])
      const rolledBack = Effect.gen(function*() {
        yield* submit(undone!)
        yield* assertNext([])
        return yield* Effect.fail("rolled back")
      })
      assert.strictEqual(yield* Effect.flip(sql.withTransaction(rolledBack)), "rolled back")
      yield* assertNext([])
      const { operation } = yield* accept(identity)
      yield* assertNext([[operation.id, 1]])
    }).pipe(Effect.scoped))

  it.effect("is not delayed by a transaction of another table or another database, and names it once", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { assertNext, assertNames, identity, ids: [moved] } = yield* followed(1, 2)
      yield* sql`CREATE TABLE IF NOT EXISTS unrelated (x int)`
      const unrelated = yield* openTransaction
      yield* unrelated("INSERT INTO unrelated VALUES (1)")
      const server = yield* Layer.build(Layer.fresh(adminLayer()))
      const foreign = yield* Effect.provide(openTransaction, server)
      const [row] = yield* foreign("SELECT pg_current_xact_id()::text::float8 AS id")
      // The positions of this ledger are transaction ids, because its offset is 0.
      const ends = [yield* positionOf(unrelated), (row as { readonly id: number }).id] as const
      const assertBoth = (named: readonly [boolean, boolean]) =>
        Effect.forEach(ends, (position, n) => assertNames(position, named[n]!))
      const { revision } = yield* submit(moved!)
      yield* assertNext([[moved!, revision]])
      yield* assertBoth([true, true])
      for (let n = 0; n < 5; n++) {
        const { id, revision } = yield* operationIn(identity, "succeeded")
        yield* assertNext([[id, revision]])
        yield* assertBoth([true, true])
      }
      yield* foreign("ROLLBACK")
      yield* assertNext([])
      yield* assertBoth([true, false])
      yield* unrelated("COMMIT")
      yield* assertNext([])
      yield* assertBoth([false, false])
    }).pipe(Effect.scoped))
})
