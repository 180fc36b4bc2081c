/**
 * Rounds of the benchmark of writes: one session accepts, claims and records.
 */
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import type { Progress } from "../../src/cli/ProgressBar.ts"
import { type GrantIdentity, ProviderName } from "../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import { type Claim, type ClaimTerms, ProviderReference } from "../../src/domain/Submission.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"

/** What a step costs for each operation. */
export interface Cost {
  /** Microseconds of CPU time of the backend. */
  readonly cpu: number
  /** Bytes. */
  readonly wal: number
}

export const steps = ["accept", "claim", "record in batches", "record one by one"] as const
export type Step = typeof steps[number]

export type Round = Readonly<Record<Step, Cost>>

export interface Sizes {
  readonly rounds: number
  readonly operations: number
  readonly batch: number
}

const terms: ClaimTerms = {
  send_within: Duration.seconds(30),
  rescue_after: Duration.seconds(90),
  idle: Duration.seconds(30),
  review_after: Duration.hours(1),
  worker: "bench"
}

/** CPU time of a process in microseconds. Unlike `stat`, `schedstat` has nanoseconds. */
const cpuOf = (pid: number) => Number(fs.readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]) / 1000

const walStatement =
  "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS bytes, pg_backend_pid() AS pid"

const measure = Effect.fnUntraced(function*<A, E, R>(count: number, step: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient.SqlClient
  const wal = Effect.map(sql.unsafe<{ readonly bytes: number; readonly pid: number }>(walStatement), ([row]) => row!)
  const { bytes, pid } = yield* wal
  const cpu = cpuOf(pid)
  yield* step
  const used = cpuOf(pid) - cpu
  return { cpu: used / count, wal: ((yield* wal).bytes - bytes) / count } satisfies Cost
})

const recording = (claim: Claim) => ({
  due_in: Duration.zero,
  reference: ProviderReference.make("reference-of-the-provider"),
  evidence: { source: "submission", status: "succeeded" },
  send_before: claim.operation.send_before
})

const succeeded = { state: "succeeded" } as const

const recordBatch = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>) {
  const queue = yield* SubmissionQueue
  const recorded = yield* queue.recordAll(claims.map((claim) => ({
    id: claim.operation.id,
    revision: claim.revision,
    outcome: succeeded,
    recording: recording(claim)
  })))
  if (!recorded.every((isRecorded) => isRecorded)) return yield* Effect.die(new Error("an outcome was not recorded"))
})

const recordOneByOne = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>) {
  const queue = yield* SubmissionQueue
  for (const claim of claims) {
    yield* queue.record(claim.operation.id, claim.revision, succeeded, recording(claim))
  }
})

const claimAll = Effect.fnUntraced(function*(batch: number) {
  const queue = yield* SubmissionQueue
  const batches: Array<ReadonlyArray<Claim>> = []
  while (true) {
    const claims = yield* queue.claim(ProviderName.make("bank"), batch, terms)
    if (claims.length === 0) return batches
    batches.push(claims)
  }
})

const acceptAll = Effect.fnUntraced(function*(identities: ReadonlyArray<GrantIdentity>, prefix: string, count: number) {
  const ledger = yield* OperationLedger
  const payload = { amount: "18.50", currency: "EUR" }
  for (let n = 0; n < count; n++) {
    const key = IdempotencyKey.make(`${prefix}${n}`)
    yield* ledger.accept(identities[n % identities.length]!, { type: "payment", key, payload })
  }
})

const runRound = Effect.fnUntraced(function*(
  identities: ReadonlyArray<GrantIdentity>,
  prefix: string,
  { batch, operations }: Sizes
) {
  const accept = yield* measure(operations, acceptAll(identities, prefix, operations))
  let batches: ReadonlyArray<ReadonlyArray<Claim>> = []
  const claim = yield* measure(operations, Effect.map(claimAll(batch), (claimed) => batches = claimed))
  const half = batches.length >> 1
  const [first, second] = [batches.slice(0, half), batches.slice(half)]
  const total = (parts: typeof batches) => parts.reduce((sum, claims) => sum + claims.length, 0)
  const batched = yield* measure(total(first), Effect.forEach(first, recordBatch, { discard: true }))
  const single = yield* measure(total(second), Effect.forEach(second, recordOneByOne, { discard: true }))
  return { accept, claim, "record in batches": batched, "record one by one": single } satisfies Round
})

/** All rounds, after one that warms up. A full page after a checkpoint costs 8 KiB of WAL, so each begins with a checkpoint. */
export const measureRounds = Effect.fnUntraced(function*(
  identities: ReadonlyArray<GrantIdentity>,
  sizes: Sizes,
  progress: Progress
) {
  const sql = yield* SqlClient.SqlClient
  const rounds: Array<Round> = []
  for (let round = 0; round <= sizes.rounds; round++) {
    yield* sql`SELECT fold_operation_counts('0')`
    yield* sql.unsafe("VACUUM (ANALYZE) operations, operation_counts, operation_payloads").unprepared
    yield* sql.unsafe("CHECKPOINT").unprepared
    // The first changes after the checkpoint write full pages.
    yield* runRound(identities, `warm-${round}-`, { ...sizes, operations: sizes.batch * 2 })
    const found = yield* runRound(identities, `round-${round}-`, sizes)
    if (round === 0) continue
    rounds.push(found)
    progress.advance()
  }
  return rounds
})
