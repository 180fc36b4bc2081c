/**
 * The room `services/sql/queue`: what worker, rescuer and reconciler ask of PostgreSQL. A statement enters if one of them runs it. Read this file
 * first: the queue, put together from its parts.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../../domain/Grant.ts"
import type { WorkerReport } from "../../../domain/operators/FiguresForm.ts"
import { LedgerHistory } from "../../queue/LedgerHistory.ts"
import { ProgramVersion } from "../../queue/Maintenance.ts"
import { type LimitState, longestPause, makeReservations } from "../../rules/providerPermits.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { forgetWorkerStatement, reportWorkerStatement } from "../operators/figureStatements.ts"
import { recordMark } from "../reads/changeStatements.ts"
import { makeClaims } from "./SqlClaims.ts"
import { makeHolds } from "./SqlHolds.ts"
import { makeOutcomes } from "./SqlOutcomes.ts"
import { makeRescues } from "./SqlRescues.ts"
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
    ...yield* makeOutcomes,
    ...yield* makeRescues,
    ...yield* makeStatusReads,
    ...holds,
    ...yield* makeProviderLimits
  }
})

/** By the clock of the database, in one row for each provider. */
const makeProviderLimits = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...makeReservations({
    read: (provider) =>
      Effect.map(
        orUnavailable(sql.unsafe<LimitState & { readonly now: number }>(readStatement, [provider])),
        ([row]) => ({ state: row!, now: row!.now })
      ),
    replace: (provider, known, next) =>
      Effect.map(
        orUnavailable(sql.unsafe(replaceStatement, [
          provider,
          known.shared_until,
          known.reads_until,
          known.closed_until,
          next.shared_until,
          next.reads_until,
          next.closed_until
        ])),
        (rows) => rows.length > 0
      )
  }),
  closeProvider: Effect.fn("ProviderLimits.closeProvider")((provider: ProviderName, pause: Duration.Duration) =>
    Effect.asVoid(
      orUnavailable(sql.unsafe(closeStatement, [provider, Math.min(Duration.toMillis(pause) * 1000, longestPause)]))
    )
  )
}))

/** Microseconds since 1970. */
const now = "floor(extract(epoch FROM clock_timestamp()) * 1000000)"

const readStatement = `
  SELECT coalesce(shared_until, 0)::float8 AS shared_until, coalesce(reads_until, 0)::float8 AS reads_until,
    coalesce(closed_until, 0)::float8 AS closed_until, ${now}::float8 AS now
  FROM (SELECT $1::text AS name) p LEFT JOIN provider_limits ON provider = name`

/** A row that this statement adds is not in its snapshot, so the first reservation for a provider takes a second attempt. */
const replaceStatement = `
  WITH added AS (
    INSERT INTO provider_limits (provider) VALUES ($1) ON CONFLICT (provider) DO NOTHING
  )
  UPDATE provider_limits SET shared_until = $5::float8, reads_until = $6::float8, closed_until = $7::float8
  WHERE provider = $1 AND shared_until = $2::float8 AND reads_until = $3::float8 AND closed_until = $4::float8
  RETURNING 1`

const closeStatement = `
  INSERT INTO provider_limits AS l (provider, closed_until) VALUES ($1, ${now} + $2::float8)
  ON CONFLICT (provider) DO UPDATE SET closed_until = greatest(l.closed_until, excluded.closed_until)
  WHERE l.closed_until < excluded.closed_until`
