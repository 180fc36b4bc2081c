/** Mistakes in approvals: an operation that needs one is sent without a decision of a person. */
import { long, type Plant, postgres, system, unit } from "../Plant.ts"

const file = "migrations/0035_approvals.sql"
const rules = "src/services/rules/approvals.ts"
const tests = [postgres("services/ledger/Approvals"), postgres("services/ledger/ApprovalsInPostgres")]

export const approvals: ReadonlyArray<Plant> = [
  {
    rule: "an operation that waits for an approval stays under review",
    file: "src/services/sql/ledger/SqlOperationLedger.ts",
    from: "AND o.due_at IS NOT NULL AND ($2 OR NOT ${awaitsApproval})",
    to: "AND o.due_at IS NOT NULL",
    tests: [postgres("services/ledger/Approvals", "keeps the operation under review")]
  },
  {
    rule: "an operation waits above the line, not on it",
    file,
    from: "coalesce(p_amount > (",
    to: "coalesce(p_amount >= (",
    tests: [postgres("services/ledger/Approvals", "is needed above the line")]
  },
  {
    rule: "a currency without a line waits",
    file,
    from: "    ), true) THEN",
    to: "    ), false) THEN",
    tests: [postgres("services/ledger/Approvals", "is needed above the line")]
  },
  {
    rule: "only a success makes a payee known",
    file,
    from: "o.limit_payee = p_payee AND o.state = 'succeeded'",
    to: "o.limit_payee = p_payee AND o.id IS NOT NULL",
    tests: [postgres("services/ledger/Approvals", "is needed above the line")]
  },
  {
    rule: "a payee that returned the money is new",
    file,
    from:
      "        AND NOT EXISTS (SELECT FROM operation_reversals r WHERE r.operation_id = o.id AND r.client_id = o.client_id)\n",
    to: "",
    tests: [postgres("services/ledger/Approvals", "is needed above the line")]
  },
  {
    rule: "the limits of a credential let operations wait, too",
    file,
    from: "'$[*][*] ? (exists (@.approval))'",
    to: "'$[0][*] ? (exists (@.approval))'",
    tests: [postgres("services/ledger/Approvals", "is needed above the line")]
  },
  {
    rule: "no release ends the hold of an operation that waits",
    file,
    from: "    NEW.hold_placed := true;\n  ELSIF",
    to: "    NEW.hold_placed := NEW.hold_placed;\n  ELSIF",
    tests
  },
  {
    rule: "no hand claims an operation that waits",
    file,
    from: "OLD.state = 'accepted' AND is_unsent(OLD) THEN",
    to: "OLD.state = 'accepted' AND false THEN",
    tests
  },
  {
    rule: "an approval has one decision",
    file,
    from: "IF OLD.state <> 'pending' OR NEW.state = 'pending' THEN",
    to: "IF NEW.state = 'pending' THEN",
    tests
  },
  {
    rule: "a decision is about the request of the operation, in the database",
    file,
    from: "coalesce(decided_digest = request_digest AND decider",
    to: "coalesce(decider",
    tests
  },
  {
    rule: "a decision comes before the end of its approval, and an approval ends not before it",
    file,
    from: "IF (NEW.state = 'expired') IS DISTINCT FROM (OLD.expires_at <= NEW.decided_at)\n    OR",
    to: "IF",
    tests
  },
  {
    rule: "nothing is decided about an operation that may have been sent",
    file,
    from: "<> OLD.request_digest OR NOT is_unsent(o) THEN",
    to: "<> OLD.request_digest THEN",
    tests
  },
  {
    rule: "a decision is about the terms that were asked",
    file,
    from: "approval_digest(o) <> OLD.request_digest OR",
    to: "false OR",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "are about no other terms")]
  },
  {
    rule: "the digest of a decision covers the terms",
    file,
    from: "'\\x00'::bytea\n    || coalesce(o.terms, ''::bytea)",
    to: "'\\x00'::bytea",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "are about no other terms")]
  },
  {
    rule: "the digest of a decision covers the operation",
    file: rules,
    from: "id.replaceAll(\"-\", \"\") + digest",
    to: "digest",
    tests: [postgres("services/ledger/Approvals", "is about one operation and its terms")]
  },
  {
    rule: "code and trigger measure a decision by one instant",
    file,
    from: "decided_at := date_trunc('milliseconds', now())",
    to: "decided_at := date_trunc('milliseconds', clock_timestamp())",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "count from the start of their transaction")]
  },
  {
    rule: "after a failover, an operation that waits is examined at once",
    file,
    from: "  SELECT history INTO NEW.unsent_in FROM ledger_home;\n",
    to:
      "  SELECT history INTO NEW.unsent_in FROM ledger_home;\n  NEW.due_at := NEW.created_at + interval '24 hours';\n",
    tests: [postgres("services/ledger/Approvals", "of an operation that another history may have sent")]
  },
  {
    rule: "a release proves that an operation which waits was never sent",
    file: "src/services/sql/queue/SqlHolds.ts",
    from: "unsent_in = CASE WHEN ${awaitsApproval} THEN (SELECT history FROM ledger_home) END, due_at",
    to: "due_at",
    tests: [postgres("services/ledger/Approvals", "of an operation that another history may have sent")]
  },
  {
    rule: "the word of an operator about all operations proves nothing of one that waits",
    file: "src/services/sql/queue/SqlHolds.ts",
    from: "o.state = 'accepted' AND NOT ${awaitsApproval}",
    to: "o.state = 'accepted'",
    tests: [postgres("services/ledger/Approvals", "of an operation that another history may have sent")]
  },
  {
    rule: "an operation gets a new proof only once it was examined, and no earlier holder can send it",
    file,
    from: "      AND OLD.examined_timeline = ledger_timeline() AND OLD.send_before <= now()) IS NOT TRUE",
    to: ") IS NOT TRUE",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "are decided by no other statement")]
  },
  {
    rule: "an operation that waits keeps its proof over a failover that lost no claim",
    file: "src/cluster/witness/Verifications.ts",
    from: "    yield* sql.unsafe(keepWaitingStatement, [null])\n",
    to: "",
    tests: [postgres("cluster/Verifications", "releases only what the timeline alone holds")]
  },
  {
    rule: "an operation that waits loses its proof where the witness proves nothing",
    file: "src/cluster/witness/Verifications.ts",
    from:
      "SET hold_placed = true, unsent_in = NULL\n  WHERE o.state = 'accepted' AND (NOT o.hold_placed OR ${awaitsApproval})",
    to: "SET hold_placed = true\n  WHERE o.state = 'accepted' AND NOT o.hold_placed",
    tests: [postgres("cluster/Verifications", "keeps held for good")]
  },
  {
    rule: "the command line gives no digest without the terms",
    file: "src/cli/approvals/ApprovalsCommand.ts",
    from: "approval.terms !== null && !isReadable(approval.terms)",
    to: "approval.terms === null",
    tests: [system("cli/ApprovalsCommand")]
  },
  {
    rule: "the console gives no digest of terms that it cannot read",
    file: "src/operator/console/ConsoleHandlers.ts",
    from: "isReadable(terms) ? [id] : []",
    to: "[id]",
    tests: [long("console/Actions", "approves nothing whose amount and payee")]
  },
  {
    rule: "the console approves only by the digest that it showed",
    file: "src/operator/console/ConsoleHandlers.ts",
    from: "request.decision === \"approved\"",
    to: "false",
    tests: [unit("operator/console/performAction", "that approves an operation repeats the digest")]
  },
  {
    rule: "an operator decides at the console by the own name",
    file: "src/operator/console/ConsoleHandlers.ts",
    from: "decider: { as: \"operator\", name, via },",
    to: "decider: { as: \"operator\", name: \"operator\", via },",
    tests: [postgres("operator/ConsoleDecisions")]
  },
  {
    rule: "the token of another session decides nothing",
    file: "src/operator/console/ConsoleGuard.ts",
    from: "!isSameSecret(headers[csrfHeader] ?? \"\", session.csrfToken)",
    to: "(headers[csrfHeader] ?? \"\").length !== session.csrfToken.length",
    tests: [postgres("operator/ConsoleDecisions")]
  },
  {
    rule: "an operation that waits keeps its proof over a switchover only if no worker ran",
    file: "src/cluster/Switchover.ts",
    from: "if (wereWorkersStopped) yield* sql",
    to: "yield* sql",
    tests: [long("cluster/Switchover", "leaves held what was accepted or approved")]
  },
  {
    rule: "operators find what waits for an approval",
    file: "src/services/sql/operators/searchStatements.ts",
    from: "  approval: awaitsApproval,",
    to: "  approval: isHeld + \" AND false\",",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")]
  },
  {
    rule: "no request of a client reaches a decision",
    file: "src/server/mutations/MutationEndpoints.ts",
    from: "import * as Context from \"effect/Context\"\n",
    to: "import * as Context from \"effect/Context\"\nimport { Approvals } from \"../../services/Approvals.ts\"\n",
    tests: [unit("architecture")]
  },
  {
    rule: "the requesting client never decides",
    file: rules,
    from: "if (decider.name === facts.client_id)",
    to: "if (decider.name === \"\")",
    tests: [postgres("services/ledger/Approvals", "that is forged")]
  },
  {
    rule: "the history of an approved operation names who approved it",
    file,
    from: "  NEW.evidence := approval_evidence(OLD.id, OLD.client_id);\n",
    to: "",
    tests: [postgres("services/ledger/Approvals", "shows what the operation moves")]
  },
  {
    rule: "an operation that no one decides about in time is cancelled, and no other",
    file: "src/services/sql/queue/SqlRescues.ts",
    from: "a.state = 'pending' AND a.expires_at <= now() AND",
    to: "a.state = 'pending' AND a.expires_at > now() AND",
    tests: [postgres("services/ledger/Approvals", "that is denied or comes too late")]
  }
]
