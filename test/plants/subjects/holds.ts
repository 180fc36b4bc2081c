/** Mistakes in rescues, holds and switchovers: what a failover may have lost is never sent again without proof. */
import { long, type Plant, plant, postgres, unit } from "../Plant.ts"

const rescues = "src/services/sql/queue/SqlRescues.ts"
const holdsFile = "src/services/sql/queue/SqlHolds.ts"
const fragments = "src/services/sql/queueFragments.ts"
const statusReads = "src/services/sql/queue/SqlStatusReads.ts"
const switchover = "src/cluster/Switchover.ts"
const guard = "src/cluster/historyGuard.ts"
const unsent = "migrations/0020_unsent_operations.sql"

export const holds: ReadonlyArray<Plant> = [
  plant("a returned claim is never rescued as a stale one", rescues)
    .edit(
      "return_reason IS NULL AND due_at >= (SELECT due_at FROM first) AND due_at <= now()",
      "due_at >= (SELECT due_at FROM first) AND due_at <= now()"
    )
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("only returned claims of an earlier timeline are lost", rescues)
    .edit(
      "return_reason IS NOT NULL AND timeline < (SELECT ledger_timeline())",
      "return_reason IS NOT NULL AND timeline <= (SELECT ledger_timeline())"
    )
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("a restart rescues only the claims of its own worker", rescues)
    .edit(
      "return_reason IS NULL AND claimed_by = $2",
      "return_reason IS NULL AND claimed_by IS NOT NULL AND $2::text IS NOT NULL"
    )
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("after a rollback a rescue waits for a take-over that may be lost", fragments)
    .edit("THEN greatest(o.send_before, now() + ${lostTakeOverTime}) ELSE", "THEN o.send_before ELSE")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("a stale claim is rescued at most once", rescues)
    .edit(
      "    ORDER BY due_at LIMIT ${limit}\n    FOR UPDATE SKIP LOCKED\n  ), lost",
      "    ORDER BY due_at LIMIT ${limit}\n  ), lost"
    )
    .foundBy(postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")),
  plant("a held operation is released only once its earlier claim holder can send it no more", holdsFile)
    .edit("(${isExamined} AND o.send_before <= now()\n", "(${isExamined}\n")
    .foundBy(postgres("services/queue/HeldRelease")),
  plant(
    "a held operation is cancelled only if it was held before any claim, in the present history of the ledger",
    unsent
  )
    .edit("EXISTS (SELECT FROM ledger_home h WHERE h.history = o.unsent_in)", "o.unsent_in IS NOT NULL")
    .foundBy(postgres("services/ledger/Cancellation")),
  plant("nothing is cancelled in a ledger that may lack claims", unsent)
    .edit("SELECT NOT o.acknowledged AND is_present_ledger(o.timeline) AND CASE", "SELECT NOT o.acknowledged AND CASE")
    .foundBy(postgres("services/ledger/Cancellation")),
  plant("the database cancels only what was provably never sent", "migrations/0035_approvals.sql")
    .edit(
      "AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL) AND NOT is_unsent(OLD)\n  THEN",
      "AND false\n  THEN"
    )
    .foundBy(postgres("services/ledger/Cancellation"), postgres("services/schema/ForbiddenStatements")),
  plant("no statement claims of a held operation that it was never sent", "migrations/0035_approvals.sql")
    .edit("    AND (OLD.hold_placed OR NOT is_unsent(OLD))\n", "    AND false\n")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("a late report of a worker ends the proof of a hold", "src/services/sql/queue/SqlOutcomes.ts")
    .edit(", unsent_in = NULL", "")
    .foundBy(postgres("services/ledger/Cancellation")),
  plant(
    "a claim of an earlier timeline does not fail: a return and a take-over may be lost",
    "src/services/sql/ledger/SqlOperationLedger.ts"
  )
    .edit(
      "THEN o.send_before IS NULL OR o.send_before <= now() AND is_present_ledger(o.timeline)",
      "THEN o.send_before IS NULL OR o.send_before <= now()"
    )
    .foundBy(postgres("services/ledger/Cancellation")),
  plant("an acknowledged operation is never released", holdsFile)
    .edit(
      "    AND NOT o.acknowledged AND ($2::timestamptz IS NULL OR o.send_before = $2)",
      "    AND ($2::timestamptz IS NULL OR o.send_before = $2)"
    )
    .foundBy(postgres("services/queue/HeldRelease")),
  plant("a status read releases only the hold that it examined", holdsFile)
    .edit(
      "NOT o.acknowledged AND ($2::timestamptz IS NULL OR o.send_before = $2)",
      "NOT o.acknowledged AND $2::timestamptz IS NOT DISTINCT FROM $2::timestamptz"
    )
    .foundBy(postgres("services/queue/HeldRelease", "by a status read from before a later hold")),
  plant("a release of all never releases an acknowledged operation", holdsFile)
    .edit(
      "< (SELECT ledger_timeline()) AND NOT o.acknowledged\n    AND NOT EXISTS",
      "< (SELECT ledger_timeline())\n    AND NOT EXISTS"
    )
    .foundBy(postgres("services/queue/HeldRelease")),
  plant("a release of all releases nothing before the comparison with the witness", holdsFile)
    .edit(
      "    AND NOT EXISTS (SELECT FROM ledger_home WHERE epoch IS NOT NULL AND epoch_life IS DISTINCT FROM ledger_life())\n",
      ""
    )
    .foundBy(postgres("cluster/Verifications")),
  plant("a hold of all operations always ends the claims", holdsFile)
    .edit(
      "Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length),\n    () => endAllClaims\n",
      "Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length),\n    () => Effect.void\n"
    )
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("claims end after the holds are placed", holdsFile)
    .edit(
      "  const holdEverything = Effect.tap(\n    Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length),\n    () => endAllClaims\n  )",
      "  const holdEverything = Effect.andThen(\n    endAllClaims,\n    Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length)\n  )"
    )
    .foundBy(postgres("services/queue/ConcurrentClaims", "end with a hold of all operations")),
  plant("a move of the ledger always ends the claims", holdsFile)
    .edit(
      "(moved) => Effect.when(endAllClaims, Effect.succeed(moved))",
      "(moved) => Effect.when(endAllClaims, Effect.succeed(moved && false))"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres")),
  plant("the examination before a hold never counts", fragments)
    .edit(
      "export const placeHold = \"hold_placed = true, examined_timeline = NULL\"",
      "export const placeHold = \"hold_placed = true\""
    )
    .foundBy(postgres("services/queue/OperationColumns"), postgres("services/queue/HeldRelease")),
  plant("an examination counts only on its timeline", fragments)
    .edit("\"o.examined_timeline = ledger_timeline()\"", "\"o.examined_timeline IS NOT NULL\"")
    .foundBy(postgres("services/queue/HeldRelease"), postgres("services/queue/OperationColumns")),
  plant("an examined operation is always held", fragments)
    .edit("= ledger_timeline() AND o.examined_timeline IS NULL`", "= ledger_timeline()`")
    .foundBy(postgres("services/queue/OperationColumns"), postgres("services/queue/HeldRelease")),
  plant("an earlier send_before never shortens the wait of a held operation", statusReads)
    .edit(
      "send_before = CASE WHEN due.unsent OR ${isExamined} THEN o.send_before ELSE",
      "send_before = CASE WHEN o.send_before IS NOT NULL THEN o.send_before ELSE"
    )
    .foundBy(postgres("services/queue/Held")),
  plant("no status is read of a held operation that was provably never sent", statusReads)
    .edit("NOT d.unsent AND ${standing(\"read\")} AS active", "${standing(\"read\")} AS active")
    .foundBy(postgres("services/queue/HeldRelease", "which needs no status read")),
  plant("a report of a late outcome holds an operation that is accepted again", "src/services/sql/queue/SqlOutcomes.ts")
    .edit(
      "hold_placed = (o.state = 'accepted'), examined_timeline = NULL",
      "hold_placed = o.hold_placed, examined_timeline = NULL"
    )
    .foundBy(postgres("services/queue/HeldRelease"), postgres("services/queue/OperationColumns")),
  plant("a postponement of a held operation counts only for its examination", statusReads)
    .edit("WHEN 'accepted' THEN o.send_before = $5::timestamptz AND ${isExamined}", "WHEN 'accepted' THEN true")
    .foundBy(postgres("services/queue/HeldRelease")),
  plant("a switchover never releases what an operator held meanwhile", switchover)
    .edit(
      " AND NOT EXISTS (\n        SELECT FROM operator_actions a\n        WHERE a.operation_id = o.id AND a.action = 'hold' AND a.result = 'done' AND a.at >= ${instantAt(\"$3\")}\n      )",
      ""
    )
    .foundBy(long("cluster/Switchover", "leaves held what an operator, an earlier failover")),
  plant("a switchover begins only without running workers", switchover)
    .edit("    if (workers.length > 0) return yield* new WorkersRunning({ workers })\n", "")
    .foundBy(long("cluster/Switchover", "does not begin while a worker reports itself")),
  plant("no worker claims while a switchover is under way", fragments)
    .edit("      AND coalesce(h.claims_stopped_until <= now(), true)\n", "")
    .foundBy(long("cluster/Switchover", "lets a worker that starts too early claim nothing")),
  plant("a claim on a server that went back is never sent", guard)
    .edit(
      "return Effect.tap(statement, (rows) => learn((rows[0] as Placed).place, before))",
      "return Effect.tap(statement, (rows) => Effect.ignore(learn((rows[0] as Placed).place, before)))"
    )
    .foundBy(long("cluster/HistoryGuard", "claims nothing of a")),
  plant("another mark of a timeline always tells another history", guard)
    .edit("  if (mark !== undefined && now.marks[before.timeline] !== mark) return true\n", "")
    .foundBy(unit("cluster/historyGuard")),
  plant("what a server has flushed never goes back", guard)
    .edit(
      "return now.timeline === before.timeline && now.flushed < before.flushed",
      "return now.timeline < before.timeline && now.flushed < before.flushed"
    )
    .foundBy(unit("cluster/historyGuard")),
  plant("an answer from before a hold never undoes it", guard)
    .edit("if (known === before) looksBehind = Math.max(1, looksBehind)", "looksBehind = Math.max(1, looksBehind)")
    .foundBy(unit("cluster/historyGuard"))
]
