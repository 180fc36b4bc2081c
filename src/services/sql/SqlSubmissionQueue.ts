/**
 * The submission queue in PostgreSQL, put together from its parts.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { WorkerReport } from "../../domain/FiguresForm.ts"
import type { ReviewTerms } from "../../domain/Submission.ts"
import { LedgerHistory } from "../LedgerHistory.ts"
import { ProgramVersion } from "../ProgramVersion.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { recordMark } from "./changeStatements.ts"
import { forgetWorkerStatement, reportWorkerStatement } from "./figureStatements.ts"
import { millis } from "./queueFragments.ts"
import { makeClaims } from "./SqlClaims.ts"
import { makeHints } from "./SqlHints.ts"
import { makeHolds } from "./SqlHolds.ts"
import { makeOutcomes } from "./SqlOutcomes.ts"
import { makeProviderLimits } from "./SqlProviderLimits.ts"
import { makeRescues } from "./SqlRescues.ts"
import { makeReturnedClaims } from "./SqlReturnedClaims.ts"
import { makeStatusReads } from "./SqlStatusReads.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const version = yield* ProgramVersion

  const reviewAged = Effect.fn("SubmissionQueue.reviewAged")((limit: number, terms: ReviewTerms) =>
    Effect.map(
      orUnavailable(
        sql.unsafe(reviewAgedStatement(limit), [
          Duration.toMillis(terms.accepted),
          Duration.toMillis(terms.submitted),
          Duration.toMillis(terms.indeterminate)
        ])
      ),
      (rows) => rows.length
    )
  )

  const { holdAllIf, ...holds } = yield* makeHolds
  const history = yield* (yield* LedgerHistory)(holdAllIf)

  const markChanges = Effect.andThen(orUnavailable(sql.unsafe(recordMark)), history.watch).pipe(
    Effect.withSpan("SubmissionQueue.markChanges")
  )

  const foldCounts = Effect.asVoid(orUnavailable(sql.unsafe("SELECT fold_operation_counts()"))).pipe(
    Effect.withSpan("SubmissionQueue.foldCounts")
  )

  const readClock = orUnavailable(
    sql.unsafe<{ readonly at: Date }>("SELECT date_trunc('milliseconds', clock_timestamp()) AS at")
  ).pipe(Effect.map(([row]) => DateTime.fromDateUnsafe(row!.at)), Effect.withSpan("SubmissionQueue.readClock"))

  const hasWitness = orUnavailable(
    sql.unsafe<{ readonly has_witness: boolean }>("SELECT epoch IS NOT NULL AS has_witness FROM ledger_home")
  ).pipe(Effect.map(([row]) => row!.has_witness), Effect.withSpan("SubmissionQueue.hasWitness"))

  const reportWorker = Effect.fn("SubmissionQueue.reportWorker")(
    ({ circuits, clock_skew_ms, process_id, worker_id }: WorkerReport) =>
      Effect.asVoid(orUnavailable(
        sql.unsafe(reportWorkerStatement, [process_id, worker_id, version, JSON.stringify(circuits), clock_skew_ms])
      ))
  )

  const forgetWorker = Effect.fn("SubmissionQueue.forgetWorker")((process_id: string) =>
    Effect.asVoid(orUnavailable(sql.unsafe(forgetWorkerStatement, [process_id])))
  )

  return {
    markChanges,
    foldCounts,
    readClock,
    hasWitness,
    reportWorker,
    forgetWorker,
    ...yield* makeClaims(history),
    ...yield* makeReturnedClaims(history),
    ...yield* makeOutcomes,
    ...yield* makeRescues,
    ...yield* makeStatusReads,
    ...yield* makeHints,
    ...holds,
    ...yield* makeProviderLimits,
    reviewAged
  }
})

/**
 * Returned claims have the age of `accepted`: their operations wait in the same way. `greatest` implies the condition on
 * `updated_at`, which is in the index `operations_unsettled`: so the younger rows of a state are passed without a look at each.
 */
const reviewAgedStatement = (limit: number) => {
  const aged = (kind: string, age: string) => `
    (SELECT id, client_id FROM operations
    WHERE completed_at IS NULL AND ${kind} AND NOT under_review AND updated_at <= now() - ${millis(age)}
      AND greatest(updated_at, reviewed_at) <= now() - ${millis(age)}
    LIMIT ${limit})`
  const kinds = [
    aged("state = 'accepted'", "$1"),
    aged("state = 'submitting' AND return_reason IS NOT NULL", "$1"),
    aged("state = 'submitted'", "$2"),
    aged("state = 'indeterminate'", "$3")
  ]
  return `
  UPDATE operations o SET under_review = true
  FROM (${kinds.join(" UNION ALL ")} LIMIT ${limit}) old
  WHERE o.id = old.id AND o.client_id = old.client_id AND o.due_at IS NOT NULL
  RETURNING 1`
}
