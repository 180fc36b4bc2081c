/** Mistakes in approvals: an operation that needs one is sent without a decision of a person. */
import { long, type Plant, plant, postgres, system, unit } from "../Plant.ts"

const consoleHandlers = "src/operator/console/ConsoleHandlers.ts"
const searchStatements = "src/services/sql/operators/searchStatements.ts"
const verifications = "src/cluster/witness/Verifications.ts"
const file = "migrations/0035_approvals.sql"
const rules = "src/services/rules/approvals.ts"
const holdsFile = "src/services/sql/queue/SqlHolds.ts"
const holdTests = [postgres("services/ledger/Approvals", "ends no hold of an operator")]
const memory = "src/services/memory/MemoryApprovals.ts"
const tests = [postgres("services/ledger/Approvals"), postgres("services/ledger/ApprovalsInPostgres")]

export const approvals: ReadonlyArray<Plant> = [
  plant("an operation that waits for an approval stays under review", "src/services/sql/ledger/SqlOperationLedger.ts")
    .edit("AND o.due_at IS NOT NULL AND ($2 OR NOT ${awaitsApproval})", "AND o.due_at IS NOT NULL")
    .foundBy(postgres("services/ledger/Approvals", "keeps the operation under review")),
  plant("an operation waits above the line, not on it", file)
    .edit("coalesce(p_amount > (", "coalesce(p_amount >= (")
    .foundBy(postgres("services/ledger/Approvals", "is needed above the line")),
  plant("a currency without a line waits", file)
    .edit("    ), true) THEN", "    ), false) THEN")
    .foundBy(postgres("services/ledger/Approvals", "is needed above the line")),
  plant("only a success makes a payee known", file)
    .edit("o.limit_payee = p_payee AND o.state = 'succeeded'", "o.limit_payee = p_payee AND o.id IS NOT NULL")
    .foundBy(postgres("services/ledger/Approvals", "is needed above the line")),
  plant("a payee that returned the money is new", file)
    .edit(
      "        AND NOT EXISTS (SELECT FROM operation_reversals r WHERE r.operation_id = o.id AND r.client_id = o.client_id)\n",
      ""
    )
    .foundBy(postgres("services/ledger/Approvals", "is needed above the line")),
  plant("the limits of a credential let operations wait, too", file)
    .edit("'$[*][*] ? (exists (@.approval))'", "'$[0][*] ? (exists (@.approval))'")
    .foundBy(postgres("services/ledger/Approvals", "is needed above the line")),
  plant("no release ends the hold of an operation that waits", file)
    .edit("    NEW.hold_placed := true;\n  ELSIF", "    NEW.hold_placed := NEW.hold_placed;\n  ELSIF")
    .foundBy(...tests),
  plant("no hand claims an operation that waits", file)
    .edit("OLD.state = 'accepted' AND is_unsent(OLD) THEN", "OLD.state = 'accepted' AND false THEN")
    .foundBy(...tests),
  plant("an approval leaves the hold of an operator", "migrations/0041_kept_holds.sql")
    .edit("hold_placed = o.hold_outlasts_approval,", "hold_placed = false,")
    .foundBy(...holdTests),
  plant("in memory, an approval leaves the hold of an operator", memory)
    .edit("hold_placed: record.hold_outlasts_approval,", "hold_placed: false,")
    .foundBy(...holdTests),
  plant(
    "the queue of held operations has one that waits for an approval, too, if an operator holds it",
    searchStatements
  )
    .edit("(o.hold_outlasts_approval OR NOT ${needsDecision})", "NOT ${needsDecision}")
    .foundBy(postgres("services/operators/OperatorActions", "holds what waits for an approval")),
  plant("a held operation tells what a person must end first", searchStatements)
    .edit("${needsDecision} AND NOT o.hold_outlasts_approval THEN", "${needsDecision} THEN")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant("a release ends the hold of an operator on an operation that waits", holdsFile)
    .edit("AND (NOT ${needsDecision} OR o.hold_outlasts_approval)\n", "AND NOT ${needsDecision}\n")
    .foundBy(...holdTests),
  plant("an approval has one decision", file)
    .edit("IF OLD.state <> 'pending' OR NEW.state = 'pending' THEN", "IF NEW.state = 'pending' THEN")
    .foundBy(...tests),
  plant("a decision is about the request of the operation, in the database", file)
    .edit("coalesce(decided_digest = request_digest AND decider", "coalesce(decider")
    .foundBy(...tests),
  plant("a decision comes before the end of its approval, and an approval ends not before it", file)
    .edit("IF (NEW.state = 'expired') IS DISTINCT FROM (OLD.expires_at <= NEW.decided_at)\n    OR", "IF")
    .foundBy(...tests),
  plant("nothing is decided about an operation that may have been sent", file)
    .edit("<> OLD.request_digest OR NOT is_unsent(o) THEN", "<> OLD.request_digest THEN")
    .foundBy(...tests),
  plant("a decision is about the terms that were asked", file)
    .edit("approval_digest(o) <> OLD.request_digest OR", "false OR")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "are about no other terms")),
  plant("the digest of a decision covers the terms", file)
    .edit("'\\x00'::bytea\n    || coalesce(o.terms, ''::bytea)", "'\\x00'::bytea")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "are about no other terms")),
  plant("the digest of a decision covers the operation", rules)
    .edit("id.replaceAll(\"-\", \"\") + digest", "digest")
    .foundBy(postgres("services/ledger/Approvals", "is about one operation and its terms")),
  plant("code and trigger measure a decision by one instant", file)
    .edit(
      "decided_at := date_trunc('milliseconds', now())",
      "decided_at := date_trunc('milliseconds', clock_timestamp())"
    )
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "count from the start of their transaction")),
  plant("after a failover, an operation that waits is examined at once", file)
    .edit(
      "  SELECT history INTO NEW.unsent_in FROM ledger_home;\n",
      "  SELECT history INTO NEW.unsent_in FROM ledger_home;\n  NEW.due_at := NEW.created_at + interval '24 hours';\n"
    )
    .foundBy(postgres("services/ledger/Approvals", "of an operation that another history may have sent")),
  plant("a release proves that an operation which waits was never sent", holdsFile)
    .edit(
      "unsent_in = CASE WHEN ${awaitsApproval} OR ${keepsHold} THEN (SELECT history FROM ledger_home) END, due_at",
      "due_at"
    )
    .foundBy(postgres("services/ledger/Approvals", "of an operation that another history may have sent")),
  plant("the word of an operator about all operations proves nothing of one that waits", holdsFile)
    .edit("'accepted' AND NOT ${awaitsApproval} AND", "'accepted' AND")
    .foundBy(postgres("services/ledger/Approvals", "of an operation that another history may have sent")),
  plant(
    "an operation gets a new proof only once it was examined, and no earlier holder can send it",
    "migrations/0048_operator_holds.sql"
  )
    .edit(
      "      AND OLD.examined_timeline = ledger_timeline() AND OLD.send_before <= now()) IS NOT TRUE",
      ") IS NOT TRUE"
    )
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "are decided by no other statement")),
  plant("an operation that waits keeps its proof over a failover that lost no claim", verifications)
    .edit("    yield* sql.unsafe(keepWaitingStatement, [null])\n", "")
    .foundBy(postgres("cluster/witness/Verifications", "releases only what the timeline alone holds")),
  plant("an operation that waits loses its proof where the witness proves nothing", verifications)
    .edit(
      "SET hold_placed = true, unsent_in = NULL\n  WHERE o.state = 'accepted' AND (NOT o.hold_placed OR ${awaitsApproval} OR",
      "SET hold_placed = true\n  WHERE o.state = 'accepted' AND (NOT o.hold_placed OR"
    )
    .foundBy(postgres("cluster/witness/Verifications", "keeps held for good")),
  plant("the command line gives no digest without the terms", "src/cli/approvals/ApprovalsCommand.ts")
    .edit("approval.terms !== null && !isReadable(approval.terms)", "approval.terms === null")
    .foundBy(system("cli/ApprovalsCommand")),
  plant("the console shows the hidden characters of a payee", consoleHandlers)
    .edit("payee: visible(payee)", "payee")
    .foundBy(unit("operator/console/performAction", "the hidden characters of a payee")),
  plant("the list of the console shows the hidden characters of payees", consoleHandlers)
    .edit("operations: operations.map(visibleSummary)", "operations")
    .foundBy(unit("operator/console/performAction", "the hidden characters of a payee")),
  plant("an operation that was searched shows the hidden characters of its payee", consoleHandlers)
    .edit("operations: found.map(visibleSummary)", "operations: found")
    .foundBy(unit("operator/console/performAction", "the hidden characters of a payee")),
  plant("unmasked terms show the hidden characters of the payee", consoleHandlers)
    .edit("[id, visibleTerms(terms)] as const", "[id, terms] as const")
    .foundBy(unit("operator/console/performAction", "the hidden characters of a payee")),
  plant("the page of an operation shows the hidden characters of its payee", consoleHandlers)
    .edit("readLedger(Effect.map(search.detail(id), visibleSummary))", "readLedger(search.detail(id))")
    .foundBy(unit("operator/console/performAction", "the hidden characters of a payee")),
  plant("the payee of a credit transfer has no hidden character", "src/banks/iso20022.ts")
    .edit(
      "  Identification: textUpTo(256).check(isPlain),\n  Secondary",
      "  Identification: textUpTo(256),\n  Secondary"
    )
    .foundBy(unit("banks/BankTerms", "has no hidden character")),
  plant("the payee of an account transfer has no hidden character", "src/banks/Increase.ts")
    .edit("  destination_account_id: textUpTo(200).check(isPlain)", "  destination_account_id: textUpTo(200)")
    .foundBy(unit("banks/BankTerms", "has no hidden character")),
  plant("the console gives no digest of terms that it cannot read", consoleHandlers)
    .edit("isReadable(terms) ? [id] : []", "[id]")
    .foundBy(long("console/Actions", "approves nothing whose amount and payee")),
  plant("the console approves only by the digest that it showed", consoleHandlers)
    .edit("request.decision === \"approved\"", "false")
    .foundBy(unit("operator/console/performAction", "that approves an operation repeats the digest")),
  plant("an operator decides at the console by the own name", consoleHandlers)
    .edit("decider: { as: \"operator\", name, via },", "decider: { as: \"operator\", name: \"operator\", via },")
    .foundBy(postgres("operator/ConsoleDecisions")),
  plant("the token of another session decides nothing", "src/operator/console/ConsoleGuard.ts")
    .edit(
      "!isSameSecret(headers[csrfHeader] ?? \"\", session.csrfToken)",
      "(headers[csrfHeader] ?? \"\").length !== session.csrfToken.length"
    )
    .foundBy(postgres("operator/ConsoleDecisions")),
  plant(
    "an operation that waits keeps its proof over a switchover only while claims are stopped",
    "src/cluster/Switchover.ts"
  )
    .edit("if (now.are_claims_stopped) yield* sql", "yield* sql")
    .foundBy(long("cluster/Switchover", "leaves held what was accepted or approved")),
  plant("the queue of approvals has no end before the last one", "src/services/sql/operators/searchSources.ts")
    .edit(
      "return unsettled([\"accepted\"], { ...filter, queue: \"held\" }, add)",
      "return single(\"approval\", [since, id], \"o.id IN (SELECT operation_id FROM approvals WHERE state = 'pending' ORDER BY expires_at LIMIT 500)\")"
    )
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant("the command line lists all approvals", "src/cli/approvals/ApprovalsCommand.ts")
    .edit("if (page.length < 1000) return all", "return all")
    .foundBy(system("cli/ApprovalsCommand")),
  plant("operators find what waits for an approval", searchStatements)
    .edit("  approval: awaitsApproval,", "  approval: isHeld + \" AND false\",")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant("no request of a client reaches a decision", "src/server/mutations/MutationEndpoints.ts")
    .edit(
      "import * as Context from \"effect/Context\"\n",
      "import * as Context from \"effect/Context\"\nimport { Approvals } from \"../../services/Approvals.ts\"\n"
    )
    .foundBy(unit("architecture")),
  plant("the requesting client never decides", rules)
    .edit("if (decider.name === facts.client_id)", "if (decider.name === \"\")")
    .foundBy(postgres("services/ledger/Approvals", "that is forged")),
  plant("the history of an approved operation names who approved it", file)
    .edit("  NEW.evidence := approval_evidence(OLD.id, OLD.client_id);\n", "")
    .foundBy(postgres("services/ledger/Approvals", "shows what the operation moves")),
  plant(
    "an operation that no one decides about in time is cancelled, and no other",
    "src/services/sql/queue/SqlRescues.ts"
  )
    .edit("a.state = 'pending' AND a.expires_at <= now() AND", "a.state = 'pending' AND a.expires_at > now() AND")
    .foundBy(postgres("services/ledger/Approvals", "that is denied or comes too late")),
  plant("a decision at the end of its approval is late", rules)
    .edit(
      "if (DateTime.isGreaterThanOrEqualTo(facts.now, facts.expires_at))",
      "if (DateTime.isGreaterThan(facts.now, facts.expires_at))"
    )
    .foundBy(postgres("services/ledger/Approvals", "a millisecond before is not")),
  plant("a process ends approvals that get no decision in time", "src/submission/attempts/Rescuer.ts")
    .edit(
      "Effect.andThen(Effect.sleep(reviewInterval), Effect.andThen(expireApprovals, review))",
      "Effect.andThen(Effect.sleep(reviewInterval), review)"
    )
    .foundBy(unit("submission/attempts/Rescuer", "ends approvals in time")),
  plant("the age for a review counts from the decision", "migrations/0041_kept_holds.sql")
    .edit("under_review = false, reviewed_at = now()\n", "under_review = false\n")
    .foundBy(postgres("services/ledger/Approvals", "ends a review: the age")),
  plant("in memory, the age for a review counts from the decision", memory)
    .edit("      waiting: false,\n      reviewed_at: at\n", "      waiting: false\n")
    .foundBy(postgres("services/ledger/Approvals", "ends a review: the age")),
  plant("a decision after the end is refused as late, also once the approval has ended by time", rules)
    .edit("  if (facts.state === \"expired\") return refused(\"late\")\n", "")
    .foundBy(postgres("services/ledger/Approvals", "comes too late")),
  plant("in memory, a cancellation ends the approval of its operation", "src/services/memory/recordRules.ts")
    .edit(
      "approval: approval?.state === \"pending\" ? { ...approval, state: \"ended\", decided_at: at } : approval,",
      "approval,"
    )
    .foundBy(postgres("services/ledger/Approvals", "ends with the cancellation"))
]
