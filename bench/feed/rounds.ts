/**
 * Rounds of the feed benchmark: 8 writers accept and move operations, with or without a reader of the feed beside them.
 */
import { Effect } from "effect"
import type { ChangeToken } from "../../src/domain/ChangeFeed.ts"
import { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import { cpuOfChildren } from "../shared/proc.ts"
import { type BenchLedger, writers } from "./ledgers.ts"

export interface Contestant {
  readonly name: string
  readonly ledger: BenchLedger
  /** Whether a reader reads the feed of the ledger 20 times a second. */
  readonly isRead: boolean
}

export interface FeedRound {
  readonly operationsPerSecond: number
  /** Microseconds of CPU time of PostgreSQL for each operation, those of the reader included. */
  readonly databaseCpu: number
  /** Bytes of WAL for each operation. */
  readonly wal: number
  /** Changes that the reader got. An operation that changed several times between two reads counts once. */
  readonly changes: number
}

const betweenReads = "50 millis"

const path = ["submitting", "submitted", "succeeded"] as const

let rounds = 0

/** Accepts an operation and settles it: one acceptance and three transitions. */
const settleOne = Effect.fnUntraced(function*({ grant, ledger }: BenchLedger, key: string) {
  const request = { type: "payment", key: IdempotencyKey.make(key), payload: { amount: "18.50", currency: "EUR" } }
  let { operation } = yield* ledger.accept(grant, request)
  for (const state of path) operation = yield* ledger.transition(operation.id, operation.revision, { state }, null)
})

const settleAll = (ledger: BenchLedger, count: number) => {
  const prefix = `round-${++rounds}-`
  return Effect.forEach(
    Array.from({ length: count }, (_, n) => `${prefix}${n}`),
    (key) => settleOne(ledger, key),
    { concurrency: writers, discard: true }
  )
}

/** Bytes of WAL that the server has written. */
export const walOf = ({ sql }: BenchLedger) =>
  Effect.map(
    sql<{ readonly bytes: number }>`SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS bytes`,
    ([row]) => row!.bytes
  )

/** Reads the feed until it is interrupted, and adds the changes to the count. */
const readFeed = Effect.fnUntraced(
  function*({ feed }: BenchLedger, start: ChangeToken, count: (changes: number) => void) {
    let token = start
    while (true) {
      const { changes, next } = yield* feed.sinceInLedger(token, 100)
      count(changes.length)
      token = next
      yield* Effect.sleep(betweenReads)
    }
  }
)

/** One round of a contestant, after a warm-up of a tenth. */
export const runRound = Effect.fnUntraced(function*(contestant: Contestant, operations: number, postmaster: number) {
  const { isRead, ledger } = contestant
  yield* ledger.sql.unsafe("VACUUM (ANALYZE) operations").unprepared
  // A full page after a checkpoint costs 8 KiB of WAL. So each round begins with a checkpoint.
  yield* ledger.sql.unsafe("CHECKPOINT").unprepared
  yield* settleAll(ledger, operations / 10)
  let changes = 0
  const start = yield* ledger.feed.now
  const measured = Effect.gen(function*() {
    const [cpu, wal, startedAt] = [cpuOfChildren(postmaster), yield* walOf(ledger), performance.now()]
    yield* settleAll(ledger, operations)
    const endedAt = performance.now()
    return {
      operationsPerSecond: operations * 1000 / (endedAt - startedAt),
      databaseCpu: (cpuOfChildren(postmaster) - cpu) / operations,
      wal: ((yield* walOf(ledger)) - wal) / operations
    }
  })
  const reader = readFeed(ledger, start, (more) => changes += more)
  const figures = yield* isRead ? Effect.raceFirst(measured, reader) : measured
  return { ...figures, changes } satisfies FeedRound
})
