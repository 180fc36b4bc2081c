/**
 * A reader that continues from token to token sees every change, with any transactions and any pages. The tests run random
 * histories of a model of the database: `ChangeModel.ts`.
 */
import * as fc from "fast-check"
import { assert, describe, it } from "vitest"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import {
  beforeAllIds,
  type ChangePosition,
  isCovered,
  maxPending,
  startOfLedger
} from "../../../../src/services/rules/changeToken.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { Database, type PageTerms, readPage, type Row, type Snapshot } from "../../../fixtures/ledger/ChangeModel.ts"

const operation = fc.nat({ max: 9 }).map((n) => `0000000${n}-0000-7000-8000-000000000000` as OperationId)
const which = fc.nat({ max: 300 })

type Step =
  | { readonly kind: "begin"; readonly count: number }
  | { readonly kind: "change"; readonly which: number; readonly id: OperationId }
  | { readonly kind: "commit" | "rollBack"; readonly which: number }
  | { readonly kind: "crash" | "mark" }
  | { readonly kind: "failOver"; readonly lost: number }
  | { readonly kind: "read"; readonly limit: number; readonly look: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("begin" as const),
      // Now and then more than a token can keep.
      count: fc.oneof({ weight: 40, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.constant(maxPending + 5) })
    })
  },
  { weight: 14, arbitrary: fc.record({ kind: fc.constant("change" as const), which, id: operation }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("commit" as const), which }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("rollBack" as const), which }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("crash" as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("mark" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("failOver" as const), lost: fc.nat({ max: 4 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("read" as const),
      limit: fc.integer({ min: 1, max: 4 }),
      look: fc.constantFrom(1, 2, 3, 5, Infinity)
    })
  }
)

const steps = fc.array(step, { minLength: 20, maxLength: 120, size: "max" })

/** The same without failovers: a token of another timeline needs a check. */
const onOneTimeline = steps.map((list) => list.filter(({ kind }) => kind !== "failOver"))

/** A reader with its own copy of the database. */
class Reader {
  position: ChangePosition = startOfLedger
  /** The timeline of the token. */
  timeline = 1
  /** How often a token survived a failover, and how often it ended. */
  continued = 0
  expired = 0
  readonly copy = new Map<OperationId, number>()
  readonly seen = new Set<string>()
  readonly matches: (row: Row) => boolean

  constructor(matches: (row: Row) => boolean = () => true) {
    this.matches = matches
  }

  /** Continues after a failover if the token is still good; else the reader starts anew. */
  follow(database: Database): void {
    if (database.timeline === this.timeline) return
    const mark = database.markOf(this.timeline)
    this.timeline = database.timeline
    if (mark !== undefined && isCovered(this.position, mark)) {
      this.continued++
      return
    }
    this.expired++
    this.position = startOfLedger
    this.copy.clear()
    this.seen.clear()
  }

  read(snapshot: Snapshot, terms: Omit<PageTerms, "matches">): boolean {
    const { has_more, next, page } = readPage(snapshot, this.position, { ...terms, matches: this.matches })
    assert.isAtMost(next.pending.length, maxPending)
    const places = [...next.pending, next.high].map(({ position }) => position)
    assert.deepStrictEqual(places, [...new Set(places)].toSorted((a, b) => a - b), "ascending")
    for (const { id, position, revision } of page) {
      assert.isAtLeast(revision, this.copy.get(id) ?? 0, "a revision went back")
      const version = `${id} ${revision} ${position}`
      assert.isFalse(this.seen.has(version), "a change was returned twice")
      this.seen.add(version)
      this.copy.set(id, revision)
    }
    this.position = next
    return has_more
  }

  /** Reads until there is no more. Each page moves on, so the number of pages has a bound. */
  drain(database: Database, terms: Omit<PageTerms, "matches">): void {
    this.follow(database)
    const snapshot = database.snapshot()
    let pages = 0
    while (this.read(snapshot, terms)) assert.isAtMost(++pages, snapshot.rows.length + 1, "a page does not move on")
  }
}

const run = (database: Database, step: Step, readers: ReadonlyArray<Reader>): void => {
  switch (step.kind) {
    case "begin":
      for (let n = 0; n < step.count; n++) database.begin()
      break
    case "change":
      database.change(step.which, step.id)
      break
    case "commit":
      database.commit(step.which)
      break
    case "rollBack":
      database.rollBack(step.which)
      break
    case "crash":
      database.crash()
      break
    case "mark":
      database.mark()
      break
    case "failOver":
      database.failOver(step.lost)
      break
    case "read":
      for (const reader of readers) {
        reader.follow(database)
        reader.read(database.snapshot(), step)
      }
  }
}

const numRuns = rounds(600, 30_000)

describe("A reader of changes", () => {
  it("has every committed change in the end, none twice, and no revision ever goes back", () => {
    let continued = 0
    let expired = 0
    fc.assert(
      fc.property(steps, fc.boolean(), (list, commits) => {
        const database = new Database()
        const odd = (row: Row) => row.revision % 2 === 1
        const [all, some] = [new Reader(), new Reader(odd)]
        for (const step of list) run(database, step, [all, some])
        while (database.running > 0) database[commits ? "commit" : "rollBack"](0)
        for (const reader of [all, some]) {
          reader.drain(database, { limit: 2, look: 3 })
          const { rows } = database.snapshot()
          const expected = rows.filter(reader.matches).map(({ id, revision }) => [id, revision])
          assert.deepStrictEqual(expected.map(([id]) => [id, reader.copy.get(id as OperationId)]), expected)
          assert.deepStrictEqual(reader.position.pending, [])
        }
        assert.strictEqual(all.copy.size, database.snapshot().rows.length)
        continued += all.continued + some.continued
        expired += all.expired + some.expired
      }),
      { numRuns }
    )
    // Of the failovers, some ended the token and some did not.
    assert.isAbove(continued, 0)
    assert.isAbove(expired, 0)
  })

  it("that stores its token now and then, and starts again from the stored one, has every change in the end", () => {
    fc.assert(
      fc.property(onOneTimeline, fc.array(fc.boolean(), { minLength: 1 }), (list, stores) => {
        const database = new Database()
        let stored = startOfLedger
        const copy = new Map<OperationId, number>()
        for (const [n, step] of list.entries()) {
          run(database, step, [])
          if (step.kind !== "read") continue
          const { next, page } = readPage(database.snapshot(), stored, { ...step, matches: () => true })
          for (const { id, revision } of page) copy.set(id, revision)
          // Otherwise the reader ends before it stores the token.
          if (stores[n % stores.length]) stored = next
        }
        while (database.running > 0) database.commit(0)
        const { rows } = database.snapshot()
        for (const { id, revision } of rows) {
          const { page } = readPage(database.snapshot(), stored, { limit: 100, look: 100, matches: () => true })
          const again = page.find((row) => row.id === id)?.revision
          assert.strictEqual(again ?? copy.get(id), revision)
        }
      }),
      { numRuns }
    )
  })

  it("loses nothing when a page was read in an older snapshot, as in a long transaction of the reader", () => {
    fc.assert(
      fc.property(onOneTimeline, fc.nat({ max: 10 }), (list, age) => {
        const database = new Database()
        let position = startOfLedger
        let snapshots: ReadonlyArray<Snapshot> = []
        const seen = new Set<string>()
        const read = (snapshot: Snapshot, limit: number) => {
          const { next, page } = readPage(snapshot, position, { limit, look: Infinity, matches: () => true })
          for (const { id, revision } of page) seen.add(`${id} ${revision}`)
          position = next
        }
        for (const step of list) {
          run(database, step, [])
          // No snapshot outlives a crash.
          snapshots = step.kind === "crash" ? [] : [...snapshots.slice(-age - 1), database.snapshot()]
          if (step.kind === "read") {
            const oldest = snapshots[0] ?? database.snapshot()
            read(step.look === 1 ? oldest : database.snapshot(), step.limit)
          }
        }
        while (database.running > 0) database.commit(0)
        read(database.snapshot(), Infinity)
        for (const { id, revision } of database.snapshot().rows) assert.include([...seen], `${id} ${revision}`)
      }),
      { numRuns }
    )
  })
})

describe("After a failover", () => {
  it("a reader between two pages starts anew: it may have passed an operation because of a change that is lost", () => {
    const [first, second] = ["0", "1"].map((n) => `0000000${n}-0000-7000-8000-000000000000` as OperationId)
    const database = new Database()
    database.begin()
    database.change(0, first!)
    database.change(0, second!)
    database.commit(0)
    database.mark()
    database.begin()
    database.change(0, first!)
    database.commit(0)
    // The page has the second operation alone. The change of the first one is on the next page.
    const reader = new Reader()
    reader.read(database.snapshot(), { limit: 1, look: Infinity })
    assert.deepStrictEqual([...reader.copy.keys()], [second])
    database.failOver(1)
    reader.drain(database, { limit: 10, look: Infinity })
    assert.deepStrictEqual([...reader.copy].toSorted(), [[first, 1], [second, 1]])
    assert.strictEqual(reader.expired, 1)
  })
})

describe("A mark", () => {
  it("covers a reader only if it had come as far, and if each of its unfinished places is unfinished for the reader", () => {
    const place = (position: number) => ({ position, id: beforeAllIds })
    const at = (high: number, ...pending: ReadonlyArray<number>): ChangePosition => ({
      high: place(high),
      pending: pending.map(place),
      isWhole: true
    })
    const covered = (reader: ChangePosition, high: number, ...pending: ReadonlyArray<number>) =>
      isCovered(reader, { high, pending })
    assert.isTrue(covered(at(10), 10))
    assert.isFalse(covered(at(11), 10))
    assert.isTrue(covered(at(10, 4, 7), 20, 4))
    assert.isTrue(covered(at(10), 20, 15))
    assert.isFalse(covered(at(10, 4), 20, 7))
    assert.isFalse(covered(at(10, 4), 20, 4, 7))
    assert.isFalse(covered({ ...at(10), isWhole: false }, 20))
  })
})

describe("The feed", () => {
  it("waits for the oldest transaction only if more than a token can name are running", () => {
    const database = new Database()
    const newest = "00000000-0000-7000-8000-000000000000" as OperationId
    const page = () => readPage(database.snapshot(), startOfLedger, { limit: 1, look: Infinity, matches: () => true })
    for (let n = 0; n < maxPending + 1; n++) database.begin()
    database.change(maxPending, newest)
    database.commit(maxPending)
    assert.deepStrictEqual([page().page.length, page().next.pending.length], [1, maxPending])
    const crowded = new Database()
    for (let n = 0; n < maxPending + 2; n++) crowded.begin()
    crowded.change(maxPending + 1, newest)
    crowded.commit(maxPending + 1)
    const read = () => readPage(crowded.snapshot(), startOfLedger, { limit: 1, look: Infinity, matches: () => true })
    assert.deepStrictEqual(read(), { page: [], next: { ...startOfLedger, isWhole: false }, has_more: false })
    crowded.rollBack(0)
    assert.deepStrictEqual([read().page.length, read().next.pending.length], [1, maxPending])
  })
})
