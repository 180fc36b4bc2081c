/**
 * A planned switchover without a person who vouches for it: what the ledger does before the promotion, and what it proves after it.
 *
 * Before the promotion it stops all claims on the old primary, and then holds every accepted operation. An operation that still has this
 * very hold on the new primary was not claimed before it, and could not be claimed after it. One that was accepted later could not be claimed
 * at all. So releasing them is safe, with any replication. `docs/cluster.md` has the argument in full.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { workerSeenWithin } from "../domain/operators/FiguresForm.ts"
import type { ActingOperator } from "../domain/operators/OperatorView.ts"
import { makeRecord } from "../services/sql/actionRecords.ts"
import { keepWaitingStatement } from "../services/sql/queue/SqlHolds.ts"
import {
  claimableTimeline,
  epochOf,
  heldByOperator,
  instantAt,
  isHome,
  millis,
  needsDecision,
  placeHold
} from "../services/sql/queueFragments.ts"
import { recordMark } from "../services/sql/reads/changeStatements.ts"
import { orUnavailable, type StoreUnavailable } from "../services/StoreUnavailable.ts"

/** Worker processes have reported themselves within `workerSeenWithin`. They could claim operations while they are held. */
export class WorkersRunning extends Schema.TaggedError<WorkersRunning>()("WorkersRunning", {
  /** Their worker ids, or the ids of their processes. */
  workers: Schema.Array(Schema.String)
}) {
  override get message() {
    return `workers are running: ${
      this.workers.join(", ")
    }. Stop them first. A killed one counts for 30 s after its last report`
  }
}

const unproven = {
  not_at_home: "the ledger is in another cluster or database than its workers recorded: start a worker there first",
  another_ledger: "the database is another ledger now, or `hold --all` was called meanwhile",
  timeline_went_back: "the timeline of the database went back: an older primary serves again",
  lost_hold: "the new primary lacks the holds that the old one acknowledged: it lost commits",
  lost_changes: "the new primary lacks changes that the old one acknowledged: it lost commits"
}

/** The ledger cannot prove that the new primary has what the old one acknowledged. Nothing was released. */
export class SwitchoverUnproven extends Schema.TaggedError<SwitchoverUnproven>()("SwitchoverUnproven", {
  reason: Schema.Literals(["not_at_home", "another_ledger", "timeline_went_back", "lost_hold", "lost_changes"])
}) {
  override get message() {
    return unproven[this.reason]
  }
}

/** What `begin` noted on the old primary. Times are milliseconds since the epoch, by the clock of the database. */
export interface BegunSwitchover {
  readonly timeline: number
  /** The history of the ledger (`ledger_home.history`). */
  readonly history: string
  /** The record of the holds in `operator_actions`. */
  readonly record: string
  readonly at: number
  /** The mark of the holds: the time at which a reconciler examines the operations if the switchover never ends. */
  readonly due_at: number
  readonly held: number
}

/** What a round on the old primary acknowledged, or the timeline of a new one. */
export interface SwitchoverRound {
  readonly timeline: number
  /** When the changes were last marked (`change_marks`). Null: never on this timeline. */
  readonly marked_at: number | null
}

interface FinishedSwitchover {
  readonly timeline: number
  readonly released: number
  /** Operations that stay held: of an earlier failover, held by an operator, or accepted after the last round. */
  readonly still_held: number
  /** Operations that wait for an approval, as before. */
  readonly awaiting_approval: number
}

export class Switchover extends Context.Service<Switchover, {
  /**
   * Stops all claims, holds all accepted operations, and records it as `hold_all` of the operator. Claims and reconcilers rest for
   * `patience`, unless `finish` comes first. It ends no change token.
   */
  readonly begin: (
    operator: ActingOperator,
    patience: Duration.Duration
  ) => Effect.Effect<BegunSwitchover, WorkersRunning | SwitchoverUnproven | StoreUnavailable>
  /** On the old primary, holds what was accepted since, and marks the changes. On another timeline it changes nothing. */
  readonly round: (begun: BegunSwitchover) => Effect.Effect<SwitchoverRound, StoreUnavailable>
  /**
   * Releases the operations that have the hold of `begin` or of a round, and nothing has touched since. It also releases those that
   * the old primary accepted after the last round, while claims are stopped as by `begin`: nothing was sent then, so what waits for an
   * approval waits on. `last` is the last round that succeeded on the old primary. It records `release_all`, or why the ledger refused. Claims
   * go on.
   *
   * Without a promotion it takes the holds back.
   */
  readonly finish: (
    begun: BegunSwitchover,
    last: SwitchoverRound | null,
    operator: ActingOperator
  ) => Effect.Effect<FinishedSwitchover, SwitchoverUnproven | StoreUnavailable>
}>()("financial-agents-gateway/cluster/Switchover") {
  static readonly layer: Layer.Layer<Switchover, never, SqlClient.SqlClient> = Layer.effect(
    Switchover,
    Effect.suspend(() => make)
  )
}

interface PlaceRow extends Pick<BegunSwitchover, "timeline" | "history" | "due_at"> {
  readonly is_home: boolean
  readonly workers: ReadonlyArray<string>
}

interface RoundRow extends SwitchoverRound {
  readonly is_home: boolean
  readonly history: string
  readonly has_record: boolean
  /** Claims are stopped since `begin`. */
  readonly are_claims_stopped: boolean
}

const make = Effect.gen(function*() {
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

  const stopClaims = Effect.fnUntraced(function*(patience: Duration.Duration) {
    const [place] = yield* sql.unsafe<PlaceRow>(placeStatement, [
      Duration.toMillis(workerSeenWithin),
      Duration.toMillis(patience)
    ])
    const { is_home, workers, ...found } = place!
    if (!is_home) return yield* new SwitchoverUnproven({ reason: "not_at_home" })
    if (workers.length > 0) return yield* new WorkersRunning({ workers })
    yield* sql.unsafe(stopStatement, [found.due_at])
    return found
  })

  /** Lets workers claim again, unless another switchover has begun. */
  const resumeClaims = ({ due_at }: Pick<BegunSwitchover, "due_at">) => sql.unsafe(resumeStatement, [due_at])

  const begin = Effect.fn("Switchover.begin")((operator: ActingOperator, patience: Duration.Duration) =>
    orUnavailable(Effect.gen(function*() {
      const found = yield* sql.withTransaction(stopClaims(patience))
      // A claim that saw no stop saw only what was committed before it. This second transaction sees all of that, and waits for such claims.
      const holding = sql.withTransaction(Effect.gen(function*() {
        const [began] = yield* sql.unsafe<Pick<BegunSwitchover, "at">>(nowStatement)
        const held = yield* holdFree(found)
        const id = yield* record(operator, { action: "hold_all", affected: held, result: "done" })
        return { ...found, ...began!, record: id, held } satisfies BegunSwitchover
      }))
      return yield* Effect.onError(holding, () => Effect.ignoreCause(resumeClaims(found)))
    }))
  )

  const readRound = (begun: BegunSwitchover) =>
    Effect.map(
      sql.unsafe<RoundRow>(roundStatement, [begun.timeline, begun.due_at, begun.record]),
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
        yield* resumeClaims(begun)
        const reason = reasonAgainst(begun, last, now)
        const action = "release_all"
        if (reason !== null) {
          const refused = new SwitchoverUnproven({ reason })
          yield* record(operator, { action, result: refused.message })
          return refused
        }
        yield* sql.unsafe("SET LOCAL statement_timeout = 0")
        const { length: released } = yield* sql.unsafe(releaseStatement, [
          begun.timeline,
          begun.due_at,
          begun.at,
          now.are_claims_stopped
        ])
        // Else a worker may have claimed what was approved after the last round.
        if (now.are_claims_stopped) yield* sql.unsafe(keepWaitingStatement, [begun.timeline])
        yield* record(operator, { action, affected: released, result: "done" })
        const [left] = yield* sql.unsafe<Pick<FinishedSwitchover, "still_held" | "awaiting_approval">>(
          stillHeldStatement
        )
        return { timeline: now.timeline, released, ...left! } satisfies FinishedSwitchover
      }))).pipe(
        // The refusal is recorded by the transaction, so it fails only after the commit.
        Effect.flatMap((result) => result instanceof SwitchoverUnproven ? Effect.fail(result) : Effect.succeed(result))
      )
  )

  return Switchover.of({ begin, round, finish })
})

/** `$1`: for how long a report of a worker counts. `$2`: how long the operations stay held at most. */
const placeStatement = `
  SELECT ledger_timeline() AS timeline, h.history::text AS history, ${isHome} AS is_home,
    ${epochOf(`date_trunc('milliseconds', now() + ${millis("$2")})`)} AS due_at,
    ARRAY(
      SELECT coalesce(worker_id, process_id::text) FROM worker_reports
      WHERE seen_at > clock_timestamp() - ${millis("$1")} ORDER BY 1
    ) AS workers
  FROM ledger_home h`

const stopStatement = `UPDATE ledger_home SET claims_stopped_until = ${instantAt("$1")}`

const resumeStatement = `UPDATE ledger_home SET claims_stopped_until = NULL WHERE claims_stopped_until = ${
  instantAt("$1")
}`

const nowStatement = `SELECT ${epochOf("date_trunc('milliseconds', now())")} AS at`

/**
 * Holds what is free (`isFree`) on the old timeline `$1`, with the mark `$2`. An update waits for a claim of the same row, and then
 * leaves the row alone. It asks for the timeline once, because it runs five times a second over the whole queue.
 */
const holdStatement = `
  UPDATE operations o SET ${placeHold}, due_at = ${instantAt("$2")}
  WHERE o.state = 'accepted' AND ${claimableTimeline} = $1 AND o.examined_timeline IS NULL
    AND (SELECT ledger_timeline()) = $1
  RETURNING 1`

/** `$1`: the old timeline. `$2`: the mark, until which claims are stopped: a minute less, because clocks differ. `$3`: the record. */
const roundStatement = `
  SELECT ledger_timeline() AS timeline, h.history::text AS history, ${isHome} AS is_home,
    (SELECT ${epochOf("marked_at")} FROM change_marks WHERE timeline = $1) AS marked_at,
    coalesce(h.claims_stopped_until = ${
  instantAt("$2")
} AND now() < h.claims_stopped_until - interval '1 minute', false)
      AS are_claims_stopped,
    EXISTS (SELECT FROM operator_actions WHERE id = $3::uuid) AS has_record
  FROM ledger_home h`

/**
 * `$1`: the old timeline. `$2`: the mark. `$3`: when the switchover began. `$4`: whether no worker could claim since.
 *
 * A reconciler or a hint that touched the operation changed its due time or its examination. An operator who holds it changed neither.
 */
const releaseStatement = `
  UPDATE operations o SET timeline = (SELECT ledger_timeline()), hold_placed = false, due_at = now(), waiting = false
  WHERE o.state = 'accepted' AND o.timeline = $1 AND o.examined_timeline IS NULL AND NOT o.acknowledged
    AND CASE WHEN o.hold_placed
      THEN o.due_at = ${instantAt("$2")} AND NOT ${heldByOperator}
      ELSE $4::boolean AND o.created_at >= ${instantAt("$3")} AND o.timeline < (SELECT ledger_timeline()) END
  RETURNING 1`

const stillHeldStatement = `
  SELECT (count(*) FILTER (WHERE NOT ${needsDecision}))::float8 AS still_held,
    (count(*) FILTER (WHERE ${needsDecision}))::float8 AS awaiting_approval
  FROM operations o
  WHERE o.state = 'accepted' AND ${claimableTimeline} < (SELECT ledger_timeline())`
