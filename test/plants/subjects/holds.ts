/** Mistakes in rescues, holds and switchovers: what a failover may have lost is never sent again without proof. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const rescues = "src/services/sql/queue/SqlRescues.ts"
const holdsFile = "src/services/sql/queue/SqlHolds.ts"
const fragments = "src/services/sql/queueFragments.ts"
const statusReads = "src/services/sql/queue/SqlStatusReads.ts"
const switchover = "src/cluster/Switchover.ts"
const guard = "src/cluster/historyGuard.ts"
const unsent = "migrations/0020_unsent_operations.sql"

export const holds: ReadonlyArray<Plant> = [
  {
    rule: "a returned claim is never rescued as a stale one",
    file: rescues,
    from: "return_reason IS NULL AND due_at >= (SELECT due_at FROM first) AND due_at <= now()",
    to: "due_at >= (SELECT due_at FROM first) AND due_at <= now()",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "only returned claims of an earlier timeline are lost",
    file: rescues,
    from: "return_reason IS NOT NULL AND timeline < (SELECT ledger_timeline())",
    to: "return_reason IS NOT NULL AND timeline <= (SELECT ledger_timeline())",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "a restart rescues only the claims of its own worker",
    file: rescues,
    from: "return_reason IS NULL AND claimed_by = $2",
    to: "return_reason IS NULL AND claimed_by IS NOT NULL AND $2::text IS NOT NULL",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "after a rollback a rescue waits for a take-over that may be lost",
    file: fragments,
    from: "THEN greatest(o.send_before, now() + ${lostTakeOverTime}) ELSE",
    to: "THEN o.send_before ELSE",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "a stale claim is rescued at most once",
    file: rescues,
    from: "    ORDER BY due_at LIMIT ${limit}\n    FOR UPDATE SKIP LOCKED\n  ), lost",
    to: "    ORDER BY due_at LIMIT ${limit}\n  ), lost",
    tests: [postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")]
  },
  {
    rule: "a held operation is released only once its earlier claim holder can send it no more",
    file: holdsFile,
    from: "(${isExamined} AND o.send_before <= now()\n",
    to: "(${isExamined}\n",
    tests: [postgres("services/queue/HeldRelease")]
  },
  {
    rule: "a held operation is cancelled only if it was held before any claim, in the present history of the ledger",
    file: unsent,
    from: "EXISTS (SELECT FROM ledger_home h WHERE h.history = o.unsent_in)",
    to: "o.unsent_in IS NOT NULL",
    tests: [postgres("services/ledger/Cancellation")]
  },
  {
    rule: "nothing is cancelled in a ledger that may lack claims",
    file: unsent,
    from: "SELECT NOT o.acknowledged AND is_present_ledger(o.timeline) AND CASE",
    to: "SELECT NOT o.acknowledged AND CASE",
    tests: [postgres("services/ledger/Cancellation")]
  },
  {
    rule: "the database cancels only what was provably never sent",
    file: "migrations/0035_approvals.sql",
    from: "AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL) AND NOT is_unsent(OLD)\n  THEN",
    to: "AND false\n  THEN",
    tests: [postgres("services/ledger/Cancellation"), postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "no statement claims of a held operation that it was never sent",
    file: "migrations/0035_approvals.sql",
    from: "    AND (OLD.hold_placed OR NOT is_unsent(OLD))\n",
    to: "    AND false\n",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a late report of a worker ends the proof of a hold",
    file: "src/services/sql/queue/SqlOutcomes.ts",
    from: ", unsent_in = NULL",
    to: "",
    tests: [postgres("services/ledger/Cancellation")]
  },
  {
    rule: "a claim of an earlier timeline does not fail: a return and a take-over may be lost",
    file: "src/services/sql/ledger/SqlOperationLedger.ts",
    from: "THEN o.send_before IS NULL OR o.send_before <= now() AND is_present_ledger(o.timeline)",
    to: "THEN o.send_before IS NULL OR o.send_before <= now()",
    tests: [postgres("services/ledger/Cancellation")]
  },
  {
    rule: "an acknowledged operation is never released",
    file: holdsFile,
    from: "    AND NOT o.acknowledged AND ($2::timestamptz IS NULL OR o.send_before = $2)",
    to: "    AND ($2::timestamptz IS NULL OR o.send_before = $2)",
    tests: [postgres("services/queue/HeldRelease")]
  },
  {
    rule: "a status read releases only the hold that it examined",
    file: holdsFile,
    from: "NOT o.acknowledged AND ($2::timestamptz IS NULL OR o.send_before = $2)",
    to: "NOT o.acknowledged AND $2::timestamptz IS NOT DISTINCT FROM $2::timestamptz",
    tests: [postgres("services/queue/HeldRelease", "by a status read from before a later hold")]
  },
  {
    rule: "a release of all never releases an acknowledged operation",
    file: holdsFile,
    from: "< (SELECT ledger_timeline()) AND NOT o.acknowledged\n    AND NOT EXISTS",
    to: "< (SELECT ledger_timeline())\n    AND NOT EXISTS",
    tests: [postgres("services/queue/HeldRelease")]
  },
  {
    rule: "a release of all releases nothing before the comparison with the witness",
    file: holdsFile,
    from:
      "    AND NOT EXISTS (SELECT FROM ledger_home WHERE epoch IS NOT NULL AND epoch_life IS DISTINCT FROM ledger_life())\n",
    to: "",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "a hold of all operations always ends the claims",
    file: holdsFile,
    from: "Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length),\n    () => endAllClaims\n",
    to: "Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length),\n    () => Effect.void\n",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "claims end after the holds are placed",
    file: holdsFile,
    from:
      "  const holdEverything = Effect.tap(\n    Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length),\n    () => endAllClaims\n  )",
    to:
      "  const holdEverything = Effect.andThen(\n    endAllClaims,\n    Effect.map(sql.unsafe(holdAllStatement), ({ length }) => length)\n  )",
    tests: [postgres("services/queue/ConcurrentClaims", "end with a hold of all operations")]
  },
  {
    rule: "a move of the ledger always ends the claims",
    file: holdsFile,
    from: "(moved) => Effect.when(endAllClaims, Effect.succeed(moved))",
    to: "(moved) => Effect.when(endAllClaims, Effect.succeed(moved && false))",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres")]
  },
  {
    rule: "the examination before a hold never counts",
    file: fragments,
    from: "export const placeHold = \"hold_placed = true, examined_timeline = NULL\"",
    to: "export const placeHold = \"hold_placed = true\"",
    tests: [postgres("services/queue/OperationColumns"), postgres("services/queue/HeldRelease")]
  },
  {
    rule: "an examination counts only on its timeline",
    file: fragments,
    from: "\"o.examined_timeline = ledger_timeline()\"",
    to: "\"o.examined_timeline IS NOT NULL\"",
    tests: [postgres("services/queue/HeldRelease"), postgres("services/queue/OperationColumns")]
  },
  {
    rule: "an examined operation is always held",
    file: fragments,
    from: "= ledger_timeline() AND o.examined_timeline IS NULL`",
    to: "= ledger_timeline()`",
    tests: [postgres("services/queue/OperationColumns"), postgres("services/queue/HeldRelease")]
  },
  {
    rule: "an earlier send_before never shortens the wait of a held operation",
    file: statusReads,
    from: "send_before = CASE WHEN due.unsent OR ${isExamined} THEN o.send_before ELSE",
    to: "send_before = CASE WHEN o.send_before IS NOT NULL THEN o.send_before ELSE",
    tests: [postgres("services/queue/Held")]
  },
  {
    rule: "no status is read of a held operation that was provably never sent",
    file: statusReads,
    from: "NOT d.unsent AND ${standing(\"read\")} AS active",
    to: "${standing(\"read\")} AS active",
    tests: [postgres("services/queue/HeldRelease", "which needs no status read")]
  },
  {
    rule: "a report of a late outcome holds an operation that is accepted again",
    file: "src/services/sql/queue/SqlOutcomes.ts",
    from: "hold_placed = (o.state = 'accepted'), examined_timeline = NULL",
    to: "hold_placed = o.hold_placed, examined_timeline = NULL",
    tests: [postgres("services/queue/HeldRelease"), postgres("services/queue/OperationColumns")]
  },
  {
    rule: "a postponement of a held operation counts only for its examination",
    file: statusReads,
    from: "WHEN 'accepted' THEN o.send_before = $5::timestamptz AND ${isExamined}",
    to: "WHEN 'accepted' THEN true",
    tests: [postgres("services/queue/HeldRelease")]
  },
  {
    rule: "a switchover never releases what an operator held meanwhile",
    file: switchover,
    from:
      " AND NOT EXISTS (\n        SELECT FROM operator_actions a\n        WHERE a.operation_id = o.id AND a.action = 'hold' AND a.result = 'done' AND a.at >= ${instantAt(\"$3\")}\n      )",
    to: "",
    tests: [long("cluster/Switchover", "leaves held what an operator, an earlier failover")]
  },
  {
    rule: "a switchover begins only without running workers",
    file: switchover,
    from: "      if (workers.length > 0) return yield* new WorkersRunning({ workers })\n",
    to: "",
    tests: [long("cluster/Switchover", "does not begin while a worker reports itself")]
  },
  {
    rule: "a claim on a server that went back is never sent",
    file: guard,
    from: "return Effect.tap(statement, (rows) => learn((rows[0] as Placed).place, before))",
    to: "return Effect.tap(statement, (rows) => Effect.ignore(learn((rows[0] as Placed).place, before)))",
    tests: [long("cluster/HistoryGuard", "claims nothing of a")]
  },
  {
    rule: "another mark of a timeline always tells another history",
    file: guard,
    from: "  if (mark !== undefined && now.marks[before.timeline] !== mark) return true\n",
    to: "",
    tests: [unit("cluster/historyGuard")]
  },
  {
    rule: "what a server has flushed never goes back",
    file: guard,
    from: "return now.timeline === before.timeline && now.flushed < before.flushed",
    to: "return now.timeline < before.timeline && now.flushed < before.flushed",
    tests: [unit("cluster/historyGuard")]
  },
  {
    rule: "an answer from before a hold never undoes it",
    file: guard,
    from: "if (known === before) looksBehind = Math.max(1, looksBehind)",
    to: "looksBehind = Math.max(1, looksBehind)",
    tests: [unit("cluster/historyGuard")]
  }
]
