/**
 * The room `sql/queue`: what worker, rescuer and reconciler ask of PostgreSQL. A statement enters if one of them runs it. Read this file
 * first: the queue, put together from its parts.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { WorkerReport } from "../../../domain/operators/FiguresForm.ts"
import { LedgerHistory } from "../../queue/LedgerHistory.ts"
import { ProgramVersion } from "../../queue/Maintenance.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { forgetWorkerStatement, reportWorkerStatement } from "../operators/figureStatements.ts"
import { recordMark } from "../reads/changeStatements.ts"
import { makeClaims } from "./SqlClaims.ts"
import { makeHolds } from "./SqlHolds.ts"
import { makeOutcomes } from "./SqlOutcomes.ts"
import { makeProviderLimits } from "./SqlProviderLimits.ts"
import { makeRescues } from "./SqlRescues.ts"
import { makeReturnedClaims } from "./SqlReturnedClaims.ts"
import { makeStatusReads } from "./SqlStatusReads.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const version = yield* ProgramVersion

  const { holdAllIf, ...holds } = yield* makeHolds
  const history = yield* (yield* LedgerHistory)(holdAllIf)

  const markChanges = Effect.andThen(orUnavailable(sql.unsafe(recordMark)), history.watch).pipe(
    Effect.withSpan("Maintenance.markChanges")
  )

  const foldCounts = Effect.asVoid(orUnavailable(sql.unsafe("SELECT fold_operation_counts()"))).pipe(
    Effect.withSpan("Maintenance.foldCounts")
  )

  const readClock = orUnavailable(
    sql.unsafe<{ readonly at: Date }>("SELECT date_trunc('milliseconds', clock_timestamp()) AS at")
  ).pipe(Effect.map(([row]) => DateTime.fromDateUnsafe(row!.at)), Effect.withSpan("Claims.readClock"))

  const requiresRecords = orUnavailable(
    sql.unsafe<{ readonly required: boolean }>("SELECT epoch IS NOT NULL AS required FROM ledger_home")
  ).pipe(Effect.map(([row]) => row!.required), Effect.withSpan("Claims.requiresRecords"))

  const reportWorker = Effect.fn("Maintenance.reportWorker")(
    ({ clock_skew_ms, pauses, process_id, worker_id }: WorkerReport) =>
      Effect.asVoid(orUnavailable(
        sql.unsafe(reportWorkerStatement, [process_id, worker_id, version, JSON.stringify(pauses), clock_skew_ms])
      ))
  )

  const forgetWorker = Effect.fn("Maintenance.forgetWorker")((process_id: string) =>
    Effect.asVoid(orUnavailable(sql.unsafe(forgetWorkerStatement, [process_id])))
  )

  return {
    markChanges,
    foldCounts,
    readClock,
    requiresRecords,
    reportWorker,
    forgetWorker,
    ...yield* makeClaims(history),
    ...yield* makeReturnedClaims(history),
    ...yield* makeOutcomes,
    ...yield* makeRescues,
    ...yield* makeStatusReads,
    ...holds,
    ...yield* makeProviderLimits
  }
})
