/**
 * While a snapshot is open, PostgreSQL keeps the dead index entries of all work since then. Searches of the workers do not walk
 * past them again and again, and find each operation.
 */
import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant, ProviderName } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { MarkPolicy } from "../../../src/services/sql/queue/lowWaterMarks.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { type Filling, fillQueue } from "../../fixtures/ledger/FilledQueue.ts"
import { issueAgain, newClient, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { claimIds, issueAtNewProvider, takeIds } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { boundedScans, planModes, recorded } from "../../fixtures/postgres/Plans.ts"
import { openTransaction } from "../../fixtures/postgres/Pools.ts"
import { Statements } from "../../fixtures/postgres/Statements.ts"

const { longWalk, longestPause } = MarkPolicy.defaultValue()

const dead = 2 * longWalk

interface Search {
  readonly index: string
  readonly state: NonNullable<Filling["state"]>
  /** Moves the operations of a provider on, so that the search finds them no more. */
  readonly settle: string
  readonly ask: (provider: ProviderName) => Effect.Effect<ReadonlyArray<OperationId>, unknown, SubmissionQueue>
}

const searches: Readonly<Record<string, Search>> = {
  "a claim": {
    index: "operations_to_claim",
    state: "accepted",
    settle: "state = 'cancelled', revision = revision + 1",
    ask: (provider) => claimIds(provider, 10)
  },
  "a search for status reads": {
    index: "operations_to_read",
    state: "submitted",
    settle: "state = 'succeeded', revision = revision + 1",
    ask: (provider) => takeIds("takeReads", provider, 10)
  },
  "a rescue": {
    index: "operations_to_rescue",
    state: "submitting",
    settle: "state = 'succeeded', revision = revision + 1",
    ask: () => Effect.flatMap(Queue, (queue) => queue.rescue(10))
  }
}

/** A clock whose monotonic time the test sets. */
const settableClock = Effect.map(Clock.Clock, (live) => {
  let passed = 0n
  const clock: Clock.Clock = {
    currentTimeMillis: live.currentTimeMillis,
    currentTimeMillisUnsafe: () => live.currentTimeMillisUnsafe(),
    currentTimeNanos: live.currentTimeNanos,
    currentTimeNanosUnsafe: () => live.currentTimeNanosUnsafe(),
    monotonicTimeNanos: Effect.sync(() => passed),
    monotonicTimeNanosUnsafe: () => passed,
    sleep: (duration) => live.sleep(duration)
  }
  return { clock, pass: (millis: number) => passed += BigInt(millis) * 1_000_000n }
})

/** Entries that the last statement walks when it is repeated. */
const walkedAgain = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { parameters, text } = (yield* Statements).at(-1)!
  const [row] = yield* sql<{ readonly walked: number }>`${sql.unsafe(text, parameters)}`
  return row!.walked
})

layer(PostgresLedger, { excludeTestServices: true })("while an old snapshot is open", (it) => {
  for (const [name, { ask, index, settle, state }] of Object.entries(searches)) {
    it.effect(`${name} walks past the dead entries only now and then, and finds what is due`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { grant } = yield* issueAtNewProvider()
        const { grant: other } = yield* issueAgain(grant, { client_id: newClient() })
        const both: ReadonlyArray<Grant> = [grant, other]
        const run = yield* openTransaction
        yield* run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield* run("SELECT 1")
        for (const of of both) yield* fillQueue(of, { count: dead / 2, state })
        yield* sql.unsafe(`UPDATE operations SET ${settle} WHERE state = '${state}' AND provider = $1`, [
          grant.provider
        ])

        const { clock, pass } = yield* settableClock
        yield* Effect.gen(function*() {
          const search = ask(grant.provider)
          assert.deepStrictEqual(yield* search, [], "they are settled")
          assert.isAtLeast(yield* walkedAgain, dead, "and the entries are still there")
          assert.deepStrictEqual(yield* search, [], "makes marks")

          for (const of of both) yield* fillQueue(of, { count: 2, state, due_in: 0.05 })
          yield* sql`SELECT pg_sleep(0.1)`
          assert.lengthOf(yield* search, 4, "what becomes due is found at once, of each client")
          assert.isBelow(yield* walkedAgain, 100)
          const repeated = (yield* Statements).at(-1)!
          for (const mode of planModes) yield* boundedScans(repeated, mode, { index, rows: 100 }, mode)

          yield* fillQueue(other, { count: 12, state, due_in: 0.05 })
          yield* sql`SELECT pg_sleep(0.1)`
          assert.lengthOf(yield* search, 10, "as many as it may find")
          assert.lengthOf(yield* search, 2, "and the others are not below the mark")

          if (name !== "a rescue") {
            // As if its transaction had committed half a second late.
            yield* fillQueue(other, { count: 1, state, due_in: -0.5 })
            assert.lengthOf(yield* search, 1, "it is within the margin")
          }

          // As if its transaction had committed a minute late.
          yield* fillQueue(other, { count: 1, state, due_in: -60 })
          assert.deepStrictEqual(yield* search, [], "it is below the mark")
          pass(longestPause)
          assert.lengthOf(yield* search, 1, "a search from the start follows")
        }).pipe(Effect.provideService(Clock.Clock, clock), Effect.provide(recorded(SubmissionQueue.layer)))
      }).pipe(Effect.scoped))
  }
})
