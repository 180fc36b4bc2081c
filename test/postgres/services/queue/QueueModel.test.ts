/**
 * The queue in PostgreSQL and the queue in memory answer and store the same, and their change feeds return the same. The tests
 * apply sequences of calls to both, and compare the rows after each, and the changes after two. Stories show one rule each, and tell its
 * answers. Random sequences contain them.
 */
import { assert, layer, type Vitest } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { canTransition, isTerminal, type OperationState } from "../../../../src/domain/Operation.ts"
import type { MemoryLedger } from "../../../../src/services/memory/MemoryLedger.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import { Backstage, type Stored } from "../../../fixtures/ledger/Backstage.ts"
import { feedReader } from "../../../fixtures/ledger/Changes.ts"
import { settleAll } from "../../../fixtures/ledger/FilledQueue.ts"
import { identityOf, InMemoryLedger, PostgresFromMarks, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  answer,
  type Command,
  commands,
  newSide,
  newWorld,
  type Services,
  type Side
} from "../../../fixtures/ledger/QueueModel.ts"
import { type Step, stories } from "../../../fixtures/ledger/QueueStories.ts"

/** Milliseconds by which the two clocks may differ, far less than any duration in the model. */
const tolerance = 10_000

const times = ["due_in", "send_before_in", "reviewed_in", "reading_in", "hinted_in", "fencing_in"] as const

const assertAlike = (inMemory: ReadonlyArray<Stored>, inPostgres: ReadonlyArray<Stored>, after: string) => {
  const withoutTimes = ({ history, payload, ...stored }: Stored) => ({
    ...stored,
    history: history.replaceAll(/"asked_at":"[^"]*"/g, ""),
    ...Object.fromEntries(times.map((time) => [time, null])),
    has_payload: payload !== null
  })
  assert.deepStrictEqual(inPostgres.map(withoutTimes), inMemory.map(withoutTimes), after)
  for (const [n, stored] of inPostgres.entries()) {
    const model = inMemory[n]!
    for (const time of times) {
      assert.strictEqual(stored[time] === null, model[time] === null, `${time} of ${n} after ${after}`)
      assert.closeTo(stored[time] ?? 0, model[time] ?? 0, tolerance, `${time} of ${n} after ${after}`)
    }
  }
}

/** Invariants of every operation after every call. */
const assertSound = (stored: Stored, after: string) => {
  const steps = [...stored.history.matchAll(/(?:^| )(\w*)>(\w+)/g)].map(([, from, to]) =>
    [from, to] as [OperationState | "", OperationState]
  )
  assert.strictEqual(steps.length, stored.revision, after)
  assert.deepStrictEqual(steps[0], ["", "accepted"], after)
  for (const [from, to] of steps.slice(1)) assert.isTrue(canTransition(from as OperationState, to), `${from} -> ${to}`)
  assert.isAtMost(steps.filter(([, to]) => to === "submitting").length, 1, "claimed at most once")
  assert.strictEqual(stored.due_in === null, isTerminal(stored.state), `scheduled until it is settled: ${after}`)
  assert.strictEqual(stored.payload !== null, !isTerminal(stored.state), `a payload until it is settled: ${after}`)
}

/** Readers of the feed of the first grant, and of the ledger, on one implementation. */
const follower = <S>(side: Side<S>) => {
  const ofGrant = feedReader(identityOf(side.grants[0]!))
  const ofLedger = feedReader(null)

  /** What the feed returned, by the number of the operation; or the name of its error, after which it starts anew. */
  const read = (reader: typeof ofGrant, page_size: number) =>
    Effect.match(Effect.provideContext(reader.drain(page_size), side.context), {
      onSuccess: (operations) =>
        operations.flatMap(({ id, revision, state, under_review }) => {
          const number = side.ids.indexOf(id)
          // Of an earlier run.
          return number === -1 ? [] : [[number, state, revision, under_review].join(" ")]
        }).toSorted(),
      onFailure: ({ _tag }) => {
        reader.resume(null)
        return _tag
      }
    })

  return {
    changes: (page_size: number) => Effect.all([read(ofGrant, page_size), read(ofLedger, 100)]),
    restart: () => {
      for (const reader of [ofGrant, ofLedger]) reader.resume(null)
    }
  }
}
type Follower = ReturnType<typeof follower>

/** Both implementations return the same changes since the command before. */
const assertSameChanges = Effect.fnUntraced(function*(
  [memory, postgres]: readonly [Follower, Follower],
  command: Command,
  page_size: number,
  after: string
) {
  // The test cannot change the timeline of the server, so only the tokens of the memory expire.
  if (command.kind === "failOver") { for (const follower of [memory, postgres]) follower.restart() }
  const expected = yield* memory.changes(page_size)
  assert.deepStrictEqual(yield* postgres.changes(page_size), expected, `changes after ${after}`)
})

/** The answer is the one that the story tells. */
const assertTold = (answer: unknown, told: unknown, after: string) => {
  if (typeof told === "string") assert.match(String(answer), new RegExp(`^${told}`), after)
  else if (Array.isArray(told)) {
    assert.deepStrictEqual((answer as ReadonlyArray<unknown>).map((item) => Number.parseInt(String(item))), told, after)
  } else if (told !== undefined) assert.strictEqual(answer, told, after)
}

/** Reads of the feeds cost more than the commands, so they follow one command in `reading`. Later pages have other sizes. */
const perform = (list: ReadonlyArray<Step>, reading: number) =>
  Effect.gen(function*() {
    const world = newWorld()
    const memory = yield* newSide<MemoryLedger>(
      world,
      yield* Layer.build(Layer.fresh(InMemoryLedger.pipe(Layer.provideMerge(TestClock.layer()))))
    )
    const postgres = yield* newSide(world, yield* Effect.context<Services | SqlClient.SqlClient>())
    const inMemory = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provideContext(effect, memory.context)
    const followers = [follower(memory), follower(postgres)] as const
    let then = performance.now()
    for (const [n, [command, told]] of list.entries()) {
      const after = `${n}: ${JSON.stringify(command)}`
      const expected = yield* answer(memory, world, command)
      if (command.kind === "cancel") assert.notStrictEqual(expected, "dies", `no worker may have sent it: ${after}`)
      assertTold(expected, told, after)
      assert.deepStrictEqual(yield* answer(postgres, world, command), expected, after)
      const separate = Backstage.use((backstage) => backstage.separate)
      yield* inMemory(separate)
      yield* separate
      const now = performance.now()
      yield* inMemory(TestClock.adjust(Duration.millis(Math.round(now - then))))
      then = now
      const stored = yield* Backstage.use((backstage) => backstage.inspect(postgres.ids))
      const model = yield* inMemory(Backstage.use((backstage) => backstage.inspect(memory.ids)))
      assertAlike(model, stored, after)
      for (const operation of stored) assertSound(operation, after)
      if (n % reading === reading - 1 || command.kind === "failOver") {
        yield* assertSameChanges(followers, command, 1 + (n >> 1) % 4, after)
      }
      for (const side of [memory, postgres]) {
        side.revisions.splice(0, Infinity, ...stored.map(({ revision }) => revision))
      }
    }
  }).pipe(Effect.ensuring(Effect.orDie(settleAll)), Effect.scoped)

const compare = (told: typeof stories) => (it: Vitest.MethodsNonLive<Services | SqlClient.SqlClient>) => {
  for (const [rule, steps] of Object.entries(told)) it.effect(rule, () => perform(steps, 8))

  it.effect(
    "give the same answers, store the same rows and return the same changes for any sequence of calls",
    () => forAll(commands, rounds(5, 40), (list) => perform(list.map((command) => [command]), 2))
  )
}

/** What stories of the searches consist of: only claims, status reads and rescues search from marks. */
const searching: ReadonlyArray<Command["kind"]> = [
  ...["accept", "issue", "revoke", "setClientActive", "setProviderConnected", "failOver", "pass"] as const,
  ...["claim", "returnClaim", "claimReturned", "mayStillSend", "record", "postpone", "takeReads", "rescue"] as const
]
const ofSearches = Object.fromEntries(
  Object.entries(stories).filter(([, steps]) => steps.every(([{ kind }]) => searching.includes(kind)))
)

layer(PostgresLedger, { excludeTestServices: true })(
  "the queue in PostgreSQL and the queue in memory",
  compare(stories)
)

layer(PostgresFromMarks, { excludeTestServices: true })(
  "the queue in PostgreSQL, which searches from marks, and the queue in memory",
  compare(ofSearches)
)
