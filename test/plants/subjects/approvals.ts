/** Mistakes in approvals: an operation that needs one is sent without a decision of a person. */
import { type Plant, postgres } from "../Plant.ts"

const file = "migrations/0035_approvals.sql"
const rules = "src/services/rules/approvals.ts"
const tests = [postgres("services/ledger/Approvals")]

export const approvals: ReadonlyArray<Plant> = [
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
    file: "src/services/sql/ledger/SqlAcceptances.ts",
    from: ") THEN 'pending' END",
    to: ") THEN NULL END",
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
    from: "IF (NEW.state = 'expired') IS DISTINCT FROM (OLD.expires_at <= NEW.decided_at) THEN",
    to: "IF false THEN",
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
