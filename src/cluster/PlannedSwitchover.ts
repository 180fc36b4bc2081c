/**
 * A planned switchover of the database: what was noted on the old primary, and why the ledger releases nothing on the new one.
 */
import * as Schema from "effect/Schema"

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
  /** How many operations `begin` held. */
  readonly held: number
}

/** What a round on the old primary acknowledged, or the timeline of a new one. */
export interface SwitchoverRound {
  readonly timeline: number
  /** When the changes were last marked (`change_marks`). Null: never on this timeline. */
  readonly marked_at: number | null
  /** Whether a worker has reported itself since `begin`. */
  readonly is_worker_seen: boolean
}

/** What became of the held operations. */
export interface FinishedSwitchover {
  readonly timeline: number
  readonly released: number
  /** Operations that stay held: of an earlier failover, held by an operator, or accepted after the last round. */
  readonly still_held: number
}
