/**
 * Rounds of writers: 8 of them accept operations, claim them and record their outcomes, on ledgers with and without figures.
 */
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Progress } from "../../src/cli/ProgressBar.ts"
import { ProviderName } from "../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import type { ClaimTerms } from "../../src/domain/Submission.ts"
import { LocalPostgres } from "../../src/node/embedded/LocalPostgres.ts"
import { type BenchLedger, makeLedger, writers } from "../feed/ledgers.ts"
import { walOf } from "../feed/rounds.ts"
import { cpuOfChildren } from "../shared/proc.ts"

export interface Contestant {
  readonly name: string
  readonly ledger: BenchLedger
  /** Whether it folds the counts every five seconds, as a worker does. */
  readonly folds: boolean
}

export interface WriterRound {
  readonly operationsPerSecond: number
  /** Microseconds of CPU time of PostgreSQL for each operation, those of the folds included. */
  readonly databaseCpu: number
  /** Bytes of WAL for each operation. */
  readonly wal: number
}

const removeTriggers = SqlClient.SqlClient.use((sql) =>
  Effect.asVoid(sql`DROP FUNCTION operations_counted CASCADE`.unprepared)
)

const removeAll = Effect.andThen(
  removeTriggers,
  SqlClient.SqlClient.use((sql) =>
    Effect.asVoid(sql`DROP INDEX operations_unsettled, operations_under_review`.unprepared)
  )
)

/** The ledgers with `age` settled operations, in databases of their own. They run for as long as the scope. */
export const makeContestants = Effect.fnUntraced(function*(age: number, progress: Progress) {
  const { database } = yield* LocalPostgres
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe("CREATE DATABASE with_indexes").unprepared
  yield* sql.unsafe("CREATE DATABASE without_figures").unprepared
  const contestants: ReadonlyArray<Contestant> = [
    { name: "without figures", ledger: yield* makeLedger("without_figures", age, progress, removeAll), folds: false },
    {
      name: "with the indexes",
      ledger: yield* makeLedger("with_indexes", age, progress, removeTriggers),
      folds: false
    },
    { name: "with indexes and counts", ledger: yield* makeLedger(database, age, progress, Effect.void), folds: true }
  ]
  return contestants
})

const terms: ClaimTerms = {
  send_within: Duration.seconds(30),
  rescue_after: Duration.seconds(90),
  idle: Duration.seconds(30),
  review_after: Duration.hours(1),
  worker: null
}

const recording = { due_in: Duration.zero, reference: null, evidence: { by: "bench" }, send_before: null }

let rounds = 0

const acceptAll = ({ grant, ledger }: BenchLedger, count: number) => {
  const prefix = `round-${++rounds}-`
  const payload = { amount: "18.50", currency: "EUR" }
  return Effect.forEach(
    Array.from({ length: count }, (_, n) => IdempotencyKey.make(`${prefix}${n}`)),
    (key) => ledger.accept(grant, { type: "payment", key, payload }),
    { concurrency: writers, discard: true }
  )
}

/** Claims ten at a time, as a worker with free slots does, and records each, until nothing is left. */
const submitAll = ({ queue }: BenchLedger) => {
  const submit = Effect.gen(function*() {
    let claimed = 0
    do {
      const claims = yield* queue.claim(ProviderName.make("bank"), 10, terms)
      claimed = claims.length
      for (const { operation: { id }, revision } of claims) {
        const { revision: recorded } = yield* queue.record(id, revision, { state: "submitted" }, recording)
        yield* queue.record(id, recorded, { state: "succeeded" }, recording)
      }
    } while (claimed > 0)
  })
  return Effect.all(Array.from({ length: writers }, () => submit), { concurrency: "unbounded", discard: true })
}

const settleAll = (ledger: BenchLedger, count: number) => Effect.andThen(acceptAll(ledger, count), submitAll(ledger))

/** One round of a contestant, after a warm-up of a tenth. */
export const runRound = Effect.fnUntraced(function*({ folds, ledger }: Contestant, count: number, postmaster: number) {
  if (folds) yield* ledger.sql`SELECT fold_operation_counts('0')`
  yield* ledger.sql.unsafe("VACUUM (ANALYZE) operations, operation_counts").unprepared
  // A full page after a checkpoint costs 8 KiB of WAL. So each round begins with a checkpoint.
  yield* ledger.sql.unsafe("CHECKPOINT").unprepared
  yield* settleAll(ledger, Math.ceil(count / 10))
  const measured = Effect.gen(function*() {
    const [cpu, wal, startedAt] = [cpuOfChildren(postmaster), yield* walOf(ledger), performance.now()]
    yield* settleAll(ledger, count)
    // At least one fold belongs to the counts of each round.
    if (folds) yield* ledger.queue.foldCounts
    const endedAt = performance.now()
    return {
      operationsPerSecond: count * 1000 / (endedAt - startedAt),
      databaseCpu: (cpuOfChildren(postmaster) - cpu) / count,
      wal: ((yield* walOf(ledger)) - wal) / count
    } satisfies WriterRound
  })
  const folding = Effect.forever(Effect.delay(ledger.queue.foldCounts, "5 seconds"))
  return yield* folds ? Effect.raceFirst(measured, folding) : measured
})
