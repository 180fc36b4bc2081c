/** Mistakes in rescues, holds and switchovers: what a failover may have lost is never sent again without proof. */
import { long, type Plant, plant, postgres, story, unit } from "../Plant.ts"

const sqlOperationLedger = "src/services/sql/ledger/SqlOperationLedger.ts"
const rescues = "src/services/sql/queue/SqlRescues.ts"
const holdsFile = "src/services/sql/queue/SqlHolds.ts"
const fragments = "src/services/sql/queueFragments.ts"
const statusReads = "src/services/sql/queue/SqlStatusReads.ts"
const switchover = "src/cluster/Switchover.ts"
const guard = "src/cluster/historyGuard.ts"
const unsent = "migrations/0020_unsent_operations.sql"

const operatorHolds = "migrations/0048_operator_holds.sql"
const operatorHold = postgres("services/queue/OperatorHolds", "ends with the release of the operation alone")
const oldHolds = (title: string) => postgres("services/queue/HoldsOfOldVersions", title)

export const holds: ReadonlyArray<Plant> = [
  plant("no claim is given in a ledger that was restored into its own database", "src/services/sql/queueFragments.ts")
    .edit(
      "'operations'::regclass::oid FROM pg_control_system()",
      "(SELECT operations_oid FROM ledger_home) FROM pg_control_system()"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres", "nothing is taken over before a worker prepares")),
  plant(
    "nothing is provably unsent in a ledger that was restored into its own database",
    "migrations/0045_restored_ledger.sql"
  )
    .edit("WHERE h.operations_oid = 'operations'::regclass::oid AND (", "WHERE (")
    .foundBy(postgres("services/ledger/Cancellation", "a dump was restored")),
  plant("a hold of the ledger before a restore proves nothing after it", "src/services/sql/queue/SqlHolds.ts")
    .edit("= (${presentHome}), history = gen_random_uuid()", "= (${presentHome})")
    .foundBy(postgres("services/queue/OperationColumns", "a move of the ledger holds")),
  plant("a returned claim is never rescued as a stale one", rescues)
    .edit(
      "return_reason IS NULL AND due_at >= (SELECT due_at FROM first) AND due_at <= now()",
      "due_at >= (SELECT due_at FROM first) AND due_at <= now()"
    )
    .foundBy(story("a returned claim is not rescued")),
  plant("only returned claims of an earlier timeline are lost", rescues)
    .edit(
      "return_reason IS NOT NULL AND timeline < (SELECT ledger_timeline())",
      "return_reason IS NOT NULL AND timeline <= (SELECT ledger_timeline())"
    )
    .foundBy(story("a returned claim is not rescued")),
  plant("a restart rescues only the claims of its own worker", rescues)
    .edit(
      "return_reason IS NULL AND claimed_by = $2",
      "return_reason IS NULL AND claimed_by IS NOT NULL AND $2::text IS NOT NULL"
    )
    .foundBy(story("a restart ends")),
  plant("after a rollback a rescue waits for a take-over that may be lost", fragments)
    .edit("THEN greatest(o.send_before, now() + ${lostTakeOverTime}) ELSE", "THEN o.send_before ELSE")
    .foundBy(story("a restart ends"), story("a returned claim of an earlier timeline")),
  plant("a rescue before prepare waits for a take-over that a move may have lost", rescues)
    .edit(" OR NOT EXISTS (SELECT FROM ledger_home h WHERE ${isHome}))", ")")
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres", "a rescue before a worker prepares waits")),
  plant("a stale claim is rescued at most once", rescues)
    .edit(
      "    ORDER BY due_at LIMIT ${limit}\n    FOR UPDATE SKIP LOCKED\n  ), lost",
      "    ORDER BY due_at LIMIT ${limit}\n  ), lost"
    )
    .foundBy(postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")),
  plant("a held operation is released only once its earlier claim holder can send it no more", holdsFile)
    .edit("(${isExamined} AND o.send_before <= now() AND NOT", "(${isExamined} AND NOT")
    .foundBy(story("is released only once no process can send it")),
  plant(
    "a held operation is cancelled only if it was held before any claim, in the present history of the ledger",
    unsent
  )
    .edit("EXISTS (SELECT FROM ledger_home h WHERE h.history = o.unsent_in)", "o.unsent_in IS NOT NULL")
    .foundBy(story("a held operation is not cancelled once")),
  plant("nothing is cancelled in a ledger that may lack claims", unsent)
    .edit("SELECT NOT o.acknowledged AND is_present_ledger(o.timeline) AND CASE", "SELECT NOT o.acknowledged AND CASE")
    .foundBy(story("or may have been before a failover")),
  plant("the database cancels only what was provably never sent", operatorHolds)
    .edit(
      "AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL) AND NOT is_unsent(OLD)\n  THEN",
      "AND false\n  THEN"
    )
    .foundBy(postgres("services/ledger/Cancellation"), postgres("services/schema/ForbiddenStatements")),
  plant("no statement claims of a held operation that it was never sent", operatorHolds)
    .edit("    AND (OLD.hold_placed OR NOT is_unsent(OLD))\n", "    AND false\n")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("a late report of a worker ends the proof of a hold", "src/services/sql/queue/SqlOutcomes.ts")
    .edit(", unsent_in = NULL", "")
    .foundBy(story("a held operation is not cancelled once")),
  plant("a claim of an earlier timeline does not fail: a return and a take-over may be lost", sqlOperationLedger)
    .edit(
      "THEN o.send_before IS NULL OR greatest(o.send_before, o.due_at) <= now() AND is_present_ledger(o.timeline)",
      "THEN o.send_before IS NULL OR greatest(o.send_before, o.due_at) <= now()"
    )
    .foundBy(story("or may have been before a failover")),
  plant("an acknowledged operation is never released", holdsFile)
    .edit("o.send_before <= now() AND NOT o.acknowledged\n", "o.send_before <= now()\n")
    .foundBy(story("what the provider has acknowledged")),
  plant("a release of all never releases an acknowledged operation", holdsFile)
    .edit(
      "< (SELECT ledger_timeline()) AND NOT o.acknowledged\n    AND NOT EXISTS",
      "< (SELECT ledger_timeline())\n    AND NOT EXISTS"
    )
    .foundBy(story("what the provider has acknowledged")),
  plant("a release of all releases nothing before the comparison with the witness", holdsFile)
    .edit(
      "    AND NOT EXISTS (SELECT FROM ledger_home WHERE epoch IS NOT NULL AND epoch_life IS DISTINCT FROM ledger_life())\n",
      ""
    )
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("a hold of all operations always ends the claims", holdsFile)
    .edit("const ended = yield* endAllClaims\n", "const ended: ReadonlyArray<unknown> = []\n")
    .foundBy(story("a hold of all operations ends all claims")),
  plant("claims end after the holds are placed", holdsFile)
    .edit(
      "    const held = yield* sql.unsafe(holdAllStatement)\n    const ended = yield* endAllClaims\n",
      "    const ended = yield* endAllClaims\n    const held = yield* sql.unsafe(holdAllStatement)\n"
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
    .foundBy(story("counted anew with each change")),
  plant("an examination counts only on its timeline", fragments)
    .edit("\"o.examined_timeline = ledger_timeline()\"", "\"o.examined_timeline IS NOT NULL\"")
    .foundBy(story("a hold is examined anew")),
  plant("an examined operation is always held", fragments)
    .edit("= ledger_timeline() AND o.examined_timeline IS NULL`", "= ledger_timeline()`")
    .foundBy(postgres("services/queue/OperationColumns", "stays held in another cluster")),
  plant("an earlier send_before never shortens the wait of a held operation", statusReads)
    .edit(
      "send_before = CASE WHEN due.unsent OR ${isExamined} THEN o.send_before ELSE",
      "send_before = CASE WHEN o.send_before IS NOT NULL THEN o.send_before ELSE"
    )
    .foundBy(story("counted anew with each change")),
  plant("no status is read of a held operation that was provably never sent", statusReads)
    .edit("NOT d.unsent AND ${standing(\"read\")} AS active", "${standing(\"read\")} AS active")
    .foundBy(story("needs no status read")),
  plant("a release of all leaves held what a worker reports as sent", "src/services/sql/queue/SqlOutcomes.ts")
    .edit(
      "hold_outlasts_approval = o.hold_outlasts_approval OR o.state = 'accepted'",
      "hold_outlasts_approval = o.hold_outlasts_approval"
    )
    .foundBy(story("a release of all leaves held what a worker")),
  plant("in memory, a release of all leaves held what a worker reports as sent", "src/services/memory/MemoryClaims.ts")
    .edit("        hold_outlasts_approval: true,\n", "")
    .foundBy(unit("submission/LateProof", "until its own release")),
  plant("the log tells that a sent operation is accepted again", "src/submission/lateProof.ts")
    .edit("reported?.as === \"held\"", "false")
    .foundBy(unit("submission/LateProof", "until its own release")),
  plant("a report of a late outcome holds an operation that is accepted again", "src/services/sql/queue/SqlOutcomes.ts")
    .edit(
      "hold_placed = (o.state = 'accepted'), examined_timeline = NULL",
      "hold_placed = o.hold_placed, examined_timeline = NULL"
    )
    .foundBy(story("a late report holds")),
  plant("a postponement of a held operation counts only for its examination", statusReads)
    .edit("WHEN 'accepted' THEN o.send_before = $5::timestamptz AND ${isExamined}", "WHEN 'accepted' THEN true")
    .foundBy(story("a status read delays no release")),
  plant("a switchover never releases what an operator held meanwhile", switchover)
    .edit(" AND NOT ${heldByOperator}\n", "\n")
    .foundBy(long("cluster/Switchover", "leaves held what an operator, an earlier failover")),
  plant("a switchover begins only without running workers", switchover)
    .edit("    if (workers.length > 0) return yield* new WorkersRunning({ workers })\n", "")
    .foundBy(long("cluster/Switchover", "does not begin while a worker reports itself")),
  plant("no worker of an earlier version claims while a switchover is under way", "migrations/0039_stopped_claims.sql")
    .edit("WHERE claims_stopped_until > now())", "WHERE claims_stopped_until > 'infinity')")
    .foundBy(long("cluster/Switchover", "lets a worker that starts too early claim nothing")),
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
    .foundBy(unit("cluster/historyGuard")),
  plant("a claim is rescued only once it is stale", rescues)
    .edit("(SELECT due_at FROM first) AND due_at <= now()\n", "(SELECT due_at FROM first)\n")
    .foundBy(story("a rescue moves stale claims")),
  plant("a rescue takes the oldest claims first", rescues)
    .edit(
      "    ORDER BY due_at LIMIT ${limit}\n    FOR UPDATE",
      "    ORDER BY due_at DESC LIMIT ${limit}\n    FOR UPDATE"
    )
    .foundBy(story("a rescue moves stale claims")),
  plant("a rescue waits five minutes for an operation that was claimed by hand", "migrations/0006_operation_rules.sql")
    .edit("THEN interval '5 minutes' ELSE", "THEN interval '3 minutes' ELSE")
    .foundBy(story("claimed by hand")),
  plant("a sweep puts old returned claims under review", rescues)
    .edit(
      "aged(\"state = 'submitting' AND return_reason IS NOT NULL\", \"$1\")",
      "aged(\"state = 'submitting' AND return_reason IS NOT NULL\", \"$2\")"
    )
    .foundBy(story("a sweep puts")),
  plant("a sweep counts the age from the end of the last review", rescues)
    .edit("AND greatest(updated_at, reviewed_at) <= now() - ${millis(age)}\n", "\n")
    .foundBy(story("a sweep puts")),
  plant("a status read of a held operation keeps it under review", statusReads)
    .edit("o.reviewed_at <= now() - least(", "o.reviewed_at <= now() - greatest(")
    .foundBy(story("a held operation stays under review")),
  plant("a held operation belongs to one reader for the lease", statusReads)
    .edit(
      "SET due_at = now() + CASE WHEN due.active THEN ${millis(\"$2\")} ELSE ${idle(\"$3\")} END,\n      reads",
      "SET due_at = now() + CASE WHEN due.active THEN ${millis(\"$2\")} / 2 ELSE ${idle(\"$3\")} END,\n      reads"
    )
    .foundBy(story("a held operation belongs to one reader")),
  plant("an operation in another state than accepted is neither released nor held", "src/services/rules/ledgerRules.ts")
    .edit(
      "  return from === \"accepted\"\n    ? Effect.succeed(operation)",
      "  return from !== \"failed\"\n    ? Effect.succeed(operation)"
    )
    .foundBy(story("a hold of one operation needs")),
  plant("a refused release names the reason", "src/services/rules/ledgerRules.ts")
    .edit("is_examined ? \"sendable\" : \"unexamined\"", "is_examined ? \"unexamined\" : \"sendable\"")
    .foundBy(story("is released only once no process can send it")),
  plant("a release of all releases what is held, and nothing else", holdsFile)
    .edit(
      "${claimableTimeline} < (SELECT ledger_timeline()) AND NOT o.acknowledged\n",
      "${claimableTimeline} <= (SELECT ledger_timeline()) AND NOT o.acknowledged\n"
    )
    .foundBy(story("a release of all releases what is held")),
  plant("a claim is cancelled only once it was returned", unsent)
    .edit("WHEN 'submitting' THEN o.return_reason IS NOT NULL", "WHEN 'submitting' THEN true")
    .foundBy(story("is not cancelled at any age")),
  plant("a settled operation is not reviewed", sqlOperationLedger)
    .edit("o.due_at IS NOT NULL AND ($2 OR NOT", "($2 OR NOT")
    .foundBy(story("a review begins and ends")),
  plant("an operator can hold what something else holds", fragments)
    .edit("(o.state = 'accepted' AND NOT ${heldByOperator})", "(o.state = 'accepted' AND ${isFree})")
    .foundBy(
      operatorHold,
      postgres("services/ledger/Approvals", "ends no hold of an operator"),
      postgres("services/operators/OperatorActions", "holds what waits for an approval")
    ),
  plant("a proof leaves held what an operator holds", holdsFile)
    .edit("hold_placed = (${awaitsApproval} OR ${keepsHold})", "hold_placed = ${awaitsApproval}")
    .foundBy(postgres("cluster/witness/Verifications", "releases only what the timeline alone holds")),
  plant("the database takes a proof of what an operator holds", operatorHolds)
    .edit("(OLD.approval = 'pending' OR OLD.hold_outlasts_approval)", "OLD.approval = 'pending'")
    .foundBy(oldHolds("ends with no release")),
  plant("no release of an earlier version ends an operator's hold", operatorHolds)
    .edit("IF OLD.hold_placed AND OLD.hold_outlasts_approval AND NEW", "IF false AND NEW")
    .foundBy(oldHolds("ends with no release")),
  plant("a release of an earlier version proves nothing of an operator's hold", operatorHolds)
    .edit("      NEW.timeline := OLD.timeline;\n", "")
    .foundBy(oldHolds("ends with no release")),
  plant("the mark of an operator's hold ends with the hold", operatorHolds)
    .edit("      NEW.hold_outlasts_approval := false;\n", "      NULL;\n")
    .foundBy(oldHolds("ends with no release")),
  plant("the migration marks the holds that operators placed before", operatorHolds)
    .edit("h.action = 'hold'", "h.action = 'none'")
    .foundBy(oldHolds("is marked by the migration")),
  plant("the migration marks no hold that an operator released", operatorHolds)
    .edit("r.action = 'release' AND", "r.action = 'none' AND")
    .foundBy(oldHolds("is marked by the migration")),
  plant("an operator's hold hides no failover", "src/services/sql/operators/OperatorRow.ts")
    .edit("row.hold_placed && !(row.by_operator && row.is_of_other_timeline)", "row.hold_placed")
    .foundBy(postgres("services/operators/OperationViews", "is held and releasable as the queue says")),
  plant("the next action names a failover and the operator who holds", "src/domain/operators/nextAction.ts")
    .edit("  failover: `${causes.failover} An operator or a late report holds it, too.`\n", "")
    .foundBy(unit("domain/operators/NextAction", "an operation that a failover and an operator hold")),
  plant("a release of all neither releases nor proves what an operator holds", holdsFile)
    .edit(" AND NOT ${heldByOperator}\n", "\n")
    .foundBy(operatorHold),
  plant("a release of all counts what operators hold", "src/services/operators/OperatorActions.ts")
    .edit("FROM operations o WHERE ${heldByOperator}`", "FROM operations o WHERE false`")
    .foundBy(postgres("services/operators/OperatorActions", "on all operations is recorded")),
  plant("a hold of an operator keeps its proof over a failover that lost no claim", holdsFile)
    .edit("WHERE (${awaitsApproval} OR ${heldByOperator}) AND", "WHERE ${awaitsApproval} AND")
    .foundBy(postgres("cluster/witness/Verifications", "releases only what the timeline alone holds")),
  plant(
    "a hold of an operator loses its proof where the witness proves nothing",
    "src/cluster/witness/Verifications.ts"
  )
    .edit(" OR ${awaitsApproval} OR ${heldByOperator})", " OR ${awaitsApproval})")
    .foundBy(postgres("cluster/witness/Verifications", "keeps held for good")),
  plant("a hold of what is held already keeps its examination", holdsFile)
    .edit("SET hold_placed = true, due_at = CASE", "SET ${placeHold}, due_at = CASE")
    .foundBy(story("keeps the examination")),
  plant("a ledger that is behind is held only after ten looks in a row", guard)
    .edit("if (++looksBehind < patience || isHolding) return", "if (isHolding) return")
    .foundBy(unit("cluster/historyGuard", "holds once, after ten looks")),
  plant("a ledger that is behind is held once", guard)
    .edit("if (++looksBehind < patience || isHolding) return", "if (++looksBehind < patience) return")
    .foundBy(unit("cluster/historyGuard", "holds once, after ten looks")),
  plant("a ledger that came back meanwhile is not held", guard)
    .edit("        return isBehind(asked, before)\n", "        return true\n")
    .foundBy(unit("cluster/historyGuard", "holds once, after ten looks")),
  plant("no claim follows one that failed without a look that changes nothing", guard)
    .edit("if (Exit.isFailure(exit)) isDoubtful = true\n", "if (Exit.isFailure(exit)) isDoubtful = false\n")
    .foundBy(unit("cluster/historyGuard", "before the claim after one that failed"))
]
