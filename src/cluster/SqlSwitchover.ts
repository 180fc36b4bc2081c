/**
 * A planned switchover in PostgreSQL. The statements run on the primary, whichever it is.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { workerSeenWithin } from "../domain/operators/FiguresForm.ts"
import type { ActingOperator } from "../domain/operators/OperatorView.ts"
import { makeRecord } from "../services/sql/operators/SqlOperatorActions.ts"
import { claimableTimeline, millis, placeHold } from "../services/sql/queueFragments.ts"
import { recordMark } from "../services/sql/reads/changeStatements.ts"
import { orUnavailable } from "../services/StoreUnavailable.ts"
import {
  type BegunSwitchover,
  type FinishedSwitchover,
  type SwitchoverRound,
  SwitchoverUnproven,
  WorkersRunning
} from "./PlannedSwitchover.ts"

interface PlaceRow extends Pick<BegunSwitchover, "timeline" | "history" | "at" | "due_at"> {
  readonly is_home: boolean
  readonly workers: ReadonlyArray<string>
}

interface RoundRow extends SwitchoverRound {
  readonly is_home: boolean
  readonly history: string
  readonly has_record: boolean
}

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const record = makeRecord(sql)

  /** Holds what can be claimed, without a timeout: it may be many operations. */
  const holdFree = ({ due_at, timeline }: Pick<BegunSwitchover, "timeline" | "due_at">) =>
    Effect.gen(function*() {
      yield* sql.unsafe("SET LOCAL statement_timeout = 0")
      const rows = yield* sql.unsafe(holdStatement, [timeline, due_at])
      yield* sql.unsafe(recordMark)
      return rows.length
    })

  const begin = Effect.fn("Switchover.begin")((operator: ActingOperator, patience: Duration.Duration) =>
    orUnavailable(sql.withTransaction(Effect.gen(function*() {
      const [place] = yield* sql.unsafe<PlaceRow>(placeStatement, [
        Duration.toMillis(workerSeenWithin),
        Duration.toMillis(patience)
      ])
      const { at, due_at, history, is_home, timeline, workers } = place!
      if (!is_home) return yield* new SwitchoverUnproven({ reason: "not_at_home" })
      if (workers.length > 0) return yield* new WorkersRunning({ workers })
      const held = yield* holdFree({ timeline, due_at })
      const id = yield* record(operator, { action: "hold_all", operation_id: null, affected: held, result: "done" })
      return { timeline, history, record: id, at, due_at, held } satisfies BegunSwitchover
    })))
  )

  const readRound = (begun: BegunSwitchover) =>
    Effect.map(
      sql.unsafe<RoundRow>(roundStatement, [begun.timeline, begun.at, begun.record]),
      ([row]) => row!
    )

  const round = Effect.fn("Switchover.round")((begun: BegunSwitchover) =>
    orUnavailable(sql.withTransaction(Effect.gen(function*() {
      const before = yield* readRound(begun)
      if (before.timeline !== begun.timeline) return before
      yield* holdFree(begun)
      return yield* readRound(begun)
    })))
  )

  /** Why the primary is not proven to continue what `begun` and `last` saw. */
  const reasonAgainst = (begun: BegunSwitchover, last: SwitchoverRound | null, now: RoundRow) => {
    if (!now.is_home || now.history !== begun.history) return "another_ledger"
    if (now.timeline < begun.timeline) return "timeline_went_back"
    if (!now.has_record) return "lost_hold"
    return last?.marked_at != null && (now.marked_at ?? 0) < last.marked_at ? "lost_changes" : null
  }

  const finish = Effect.fn("Switchover.finish")(
    (begun: BegunSwitchover, last: SwitchoverRound | null, operator: ActingOperator) =>
      orUnavailable(sql.withTransaction(Effect.gen(function*() {
        const now = yield* readRound(begun)
        const reason = reasonAgainst(begun, last, now)
        const action = { action: "release_all", operation_id: null } as const
        if (reason !== null) {
          const refused = new SwitchoverUnproven({ reason })
          yield* record(operator, { ...action, affected: null, result: refused.message })
          return refused
        }
        yield* sql.unsafe("SET LOCAL statement_timeout = 0")
        const wereWorkersStopped = last?.is_worker_seen !== true && !now.is_worker_seen
        const { length: released } = yield* sql.unsafe(releaseStatement, [
          begun.timeline,
          begun.due_at,
          begun.at,
          wereWorkersStopped
        ])
        yield* record(operator, { ...action, affected: released, result: "done" })
        const [left] = yield* sql.unsafe<{ readonly still_held: number }>(stillHeldStatement)
        return { timeline: now.timeline, released, still_held: left!.still_held } satisfies FinishedSwitchover
      }))).pipe(
        // The refusal is recorded by the transaction, so it fails only after the commit.
        Effect.flatMap((result) => result instanceof SwitchoverUnproven ? Effect.fail(result) : Effect.succeed(result))
      )
  )

  return { begin, round, finish }
})

const epoch = (time: string) => `(extract(epoch FROM ${time}) * 1000)::float8`

const instant = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)::timestamptz(3)`

const isHome = `EXISTS (
    SELECT FROM pg_control_system() s, pg_database d
    WHERE s.system_identifier = h.system_identifier AND d.oid = h.database AND d.datname = current_database()
  )`

/** `$1`: for how long a report of a worker counts. `$2`: how long the operations stay held at most. */
const placeStatement = `
  SELECT ledger_timeline() AS timeline, h.history::text AS history, ${isHome} AS is_home,
    ${epoch("date_trunc('milliseconds', now())")} AS at,
    ${epoch(`date_trunc('milliseconds', now() + ${millis("$2")})`)} AS due_at,
    ARRAY(
      SELECT coalesce(worker_id, process_id::text) FROM worker_reports
      WHERE seen_at > clock_timestamp() - ${millis("$1")} ORDER BY 1
    ) AS workers
  FROM ledger_home h`

/**
 * Holds what is free (`isFree`) on the old timeline `$1`, with the mark `$2`. An update waits for a claim of the same row, and then
 * leaves the row alone. It asks for the timeline once, because it runs five times a second over the whole queue.
 */
const holdStatement = `
  UPDATE operations o SET ${placeHold}, due_at = ${instant("$2")}
  WHERE o.state = 'accepted' AND ${claimableTimeline} = $1 AND o.examined_timeline IS NULL
    AND (SELECT ledger_timeline()) = $1
  RETURNING 1`

/** `$1`: the old timeline. `$2`: when the switchover began. `$3`: its record. */
const roundStatement = `
  SELECT ledger_timeline() AS timeline, h.history::text AS history, ${isHome} AS is_home,
    (SELECT ${epoch("marked_at")} FROM change_marks WHERE timeline = $1) AS marked_at,
    EXISTS (SELECT FROM worker_reports WHERE seen_at >= ${instant("$2")}) AS is_worker_seen,
    EXISTS (SELECT FROM operator_actions WHERE id = $3::uuid) AS has_record
  FROM ledger_home h`

/**
 * `$1`: the old timeline. `$2`: the mark. `$3`: when the switchover began. `$4`: whether no worker ran since.
 *
 * A reconciler, a hint or an operator that touched the operation changed its due time or its examination. An operator who held it
 * changed neither, and is in the record.
 */
const releaseStatement = `
  UPDATE operations o SET timeline = (SELECT ledger_timeline()), hold_placed = false, due_at = now(), waiting = false
  WHERE o.state = 'accepted' AND o.timeline = $1 AND o.examined_timeline IS NULL AND NOT o.acknowledged
    AND CASE WHEN o.hold_placed
      THEN o.due_at = ${instant("$2")} AND NOT EXISTS (
        SELECT FROM operator_actions a
        WHERE a.operation_id = o.id AND a.action = 'hold' AND a.result = 'done' AND a.at >= ${instant("$3")}
      )
      ELSE $4::boolean AND o.created_at >= ${instant("$3")} AND o.timeline < (SELECT ledger_timeline()) END
  RETURNING 1`

const stillHeldStatement = `
  SELECT count(*)::float8 AS still_held FROM operations o
  WHERE o.state = 'accepted' AND ${claimableTimeline} < (SELECT ledger_timeline())`
