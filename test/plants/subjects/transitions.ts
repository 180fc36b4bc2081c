/** Mistakes in the triggers of operations: only the transitions of the table happen, and a final state stays. */
import { type Plant, postgres, unit } from "../Plant.ts"

const rules = "migrations/0006_operation_rules.sql"
const acceptances = "migrations/0034_limits.sql"
const evidence = "migrations/0019_operator_evidence.sql"
const operatorOutcomes = "migrations/0030_operator_outcomes.sql"
const evidenceTime = "migrations/0028_evidence_time.sql"
const history = "migrations/0004_operation_history.sql"
const payloads = "migrations/0005_operation_payloads.sql"

export const transitions: ReadonlyArray<Plant> = [
  {
    rule: "a settled operation of the ledger in memory loses its payload",
    file: "src/services/memory/recordRules.ts",
    from: "    payload: terminal ? null : record.payload,",
    to: "    payload: record.payload,",
    tests: [postgres("services/queue/QueueModel", "give the same answers")]
  },
  {
    rule: "only an accepted operation is cancelled",
    file: rules,
    from: "WHEN 'indeterminate' THEN NEW.state IN ('submitted', 'succeeded', 'failed')",
    to: "WHEN 'indeterminate' THEN NEW.state IN ('submitted', 'succeeded', 'failed', 'cancelled')",
    tests: [postgres("services/schema/Triggers")]
  },
  {
    rule: "a claimed operation never becomes accepted again",
    file: rules,
    from: "WHEN 'submitting' THEN NEW.state IN ('submitted', 'succeeded', 'failed', 'indeterminate')",
    to: "WHEN 'submitting' THEN NEW.state IN ('accepted', 'submitted', 'succeeded', 'failed', 'indeterminate')",
    tests: [postgres("services/schema/Triggers")]
  },
  {
    rule: "a final state never changes",
    file: rules,
    from: "IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN\n    RAISE",
    to: "IF OLD.state IN ('succeeded', 'failed', 'cancelled') AND NEW.state <> OLD.state THEN\n    RAISE",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "an operation leaves indeterminate only with evidence that is an object",
    file: rules,
    from: "NEW.evidence IS NULL OR json_typeof(NEW.evidence) <> 'object' OR",
    to: "NEW.evidence IS NULL OR",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "an operation leaves indeterminate only with evidence that is not empty",
    file: rules,
    from: " OR NEW.evidence::text ~ '^\\s*\\{\\s*\\}\\s*$')",
    to: ")",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "an operation leaves indeterminate only on an exact status read, also by a person",
    file: "src/domain/Operation.ts",
    from: " || isOperatorEvidence(evidence))",
    to: " || true)",
    tests: [unit("domain/OperatorEvidence")]
  },
  {
    rule: "the evidence of an operator has a question, an office, a time and a reference, in the database too",
    file: evidence,
    from: "ARRAY['question', 'asked', 'asked_at', 'reference']",
    to: "ARRAY['reference']",
    tests: [postgres("services/schema/ForbiddenStatements", "leave indeterminate")]
  },
  {
    rule: "the evidence of an operator has an answer, in the database too",
    file: evidence,
    from: "IF coalesce(evidence ->> 'answer', '') !~ '\\S' AND",
    to: "IF false AND",
    tests: [postgres("services/schema/ForbiddenStatements", "leave indeterminate")]
  },
  {
    rule: "the evidence of an operator says when in RFC 3339, in the database too",
    file: evidence,
    from: "!~ '^\\d{4}-\\d\\d-\\d\\dT",
    to: "!~ '^\\d{4}-\\d\\d-\\d\\d' AND evidence ->> 'asked_at' !~ 'T",
    tests: [postgres("services/schema/ForbiddenStatements", "leave indeterminate")]
  },
  {
    rule: "a person ends an operation by no reference that another operation has",
    file: "src/services/rules/ledgerRules.ts",
    from: "if (holder !== null) {",
    to: "if (holder !== null && stated.isOfPayment) {",
    tests: [postgres("services/ledger/Transitions", "no other operation at the provider has")]
  },
  {
    rule: "a person ends an operation by no reference that another operation has, in the database too",
    file: "migrations/0033_operator_references.sql",
    from: "o.provider = NEW.provider AND o.id <> NEW.id",
    to: "false",
    tests: [postgres("services/schema/ForbiddenStatements", "by the reference of another one")]
  },
  {
    rule: "the reference by which a person ends an operation is stored",
    file: "migrations/0033_operator_references.sql",
    from: "    NEW.reference := stated;",
    to: "    NULL;",
    tests: [postgres("services/operators/OperatorActions", "stores the reference")]
  },
  {
    rule: "a refusal names all that is wrong with the evidence of a person",
    file: "src/domain/OperatorEvidence.ts",
    from: ": [...faults, `Expected",
    to: ": faults.length > 0 ? faults : [`Expected",
    tests: [postgres("services/operators/OperatorActions", "all that is wrong")]
  },
  {
    rule: "evidence of a worker may have any text",
    file: evidence,
    from: "regexp_replace(NEW.evidence::text, '\\\\u(0000|d[89a-f][0-9a-f]{2})', '\\\\ufffd', 'gi')",
    to: "NEW.evidence",
    tests: [postgres("services/ledger/Transitions", "is refused without evidence")]
  },
  {
    rule: "an operator asked after the operation was created",
    file: "src/domain/operators/validateAskedAt.ts",
    from: "if (at < created_at - tolerance)",
    to: "if (at < created_at - 1000 * tolerance)",
    tests: [unit("domain/OperatorEvidence", "names one between")]
  },
  {
    rule: "an operator did not ask in the future",
    file: "src/domain/operators/validateAskedAt.ts",
    from: "if (at > now + tolerance)",
    to: "if (at > now + 1000 * tolerance)",
    tests: [unit("domain/OperatorEvidence", "names one between")]
  },
  {
    rule: "an operation fails only by an answer from a minute after its last send",
    file: "src/domain/operators/validateAskedAt.ts",
    from: "at < sendable_until + tolerance)",
    to: "at < sendable_until)",
    tests: [unit("domain/OperatorEvidence", "names one between")]
  },
  {
    rule: "an operation fails only by an answer from after its last fence",
    file: "src/services/rules/ledgerRules.ts",
    from: "? fencing_until?.epochMilliseconds ?? null : null,",
    to: "? send_before?.epochMilliseconds ?? null : null,",
    tests: [postgres("services/queue/Fences", "lets a person end")]
  },
  {
    rule: "the ledger refuses an answer from before the last send of an uncertain operation",
    file: "src/services/rules/ledgerRules.ts",
    from: "isFailure && operation.state !== \"accepted\" &&",
    to: "isFailure && operation.state === \"accepted\" &&",
    tests: [postgres("services/ledger/Cancellation", "about which an operator asked")]
  },
  {
    rule: "an operation that a worker returned unsent fails, whenever the operator asked",
    file: "src/services/rules/ledgerRules.ts",
    from: " && return_reason === null\n          ?",
    to: "\n          ?",
    tests: [postgres("services/ledger/Cancellation", "whose claim was returned is a failure")]
  },
  {
    rule: "an operator asked after the operation was created, in the database too",
    file: evidenceTime,
    from: "IF asked_at < OLD.created_at - interval '1 minute' THEN",
    to: "IF asked_at < OLD.created_at - interval '99 years' THEN",
    tests: [postgres("services/schema/ForbiddenStatements", "who asked before the creation")]
  },
  {
    rule: "an operator did not ask in the future, in the database too",
    file: evidenceTime,
    from: "IF asked_at > clock_timestamp() + interval '1 minute' THEN",
    to: "IF asked_at > clock_timestamp() + interval '9000 years' THEN",
    tests: [postgres("services/schema/ForbiddenStatements", "who asked in the future")]
  },
  {
    rule: "an operation fails only by an answer from a minute after its last send, in the database too",
    file: evidenceTime,
    from: "AND asked_at < OLD.send_before + interval '1 minute'\n",
    to: "AND asked_at < OLD.send_before\n",
    tests: [postgres("services/ledger/Cancellation", "is refused by the database")]
  },
  {
    rule: "an operator ends an operation that may have been sent only by an answer",
    file: "src/services/rules/ledgerRules.ts",
    from: "isTerminal(to.state) && isByOperator(evidence) && !isCancellation",
    to: "isTerminal(to.state) && isByOperator(evidence) && false",
    tests: [postgres("services/ledger/Transitions", "to an outcome by an operator")]
  },
  {
    rule: "an operator ends an operation that may have been sent only by an answer, in the database too",
    file: operatorOutcomes,
    from: "WHEN (OLD.state IN ('submitting', 'submitted') AND NEW.state IN ('succeeded', 'failed')",
    to: "WHEN (OLD.state IN ('submitting') AND NEW.state IN ('succeeded', 'failed')",
    tests: [postgres("services/schema/ForbiddenStatements", "let an operator end")]
  },
  {
    rule: "a submitted operation fails by no answer from before a minute after its send_before, in the database too",
    file: operatorOutcomes,
    from: "(evidence ->> 'asked_at')::timestamptz < OLD.send_before + interval '1 minute'",
    to: "(evidence ->> 'asked_at')::timestamptz < OLD.send_before",
    tests: [postgres("services/ledger/Cancellation", "operation that may still be sent is refused by the database")]
  },
  {
    rule: "an operation that a worker may have sent is uncertain",
    file: "src/domain/Operation.ts",
    from: "state === \"submitting\" || state === \"indeterminate\"",
    to: "state === \"indeterminate\"",
    tests: [unit("domain/States"), unit("domain/Operation")]
  },
  {
    rule: "a transition always adds one to the revision",
    file: rules,
    from: "IF NEW.revision <> OLD.revision + 1 THEN",
    to: "IF NEW.revision <= OLD.revision THEN",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "an update time is never before the last one",
    file: rules,
    from: "NEW.updated_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.updated_at);",
    to: "NEW.updated_at := date_trunc('milliseconds', clock_timestamp());",
    tests: [postgres("services/schema/Storage")]
  },
  {
    rule: "an operation keeps the reference of its provider",
    file: rules,
    from: "IF OLD.reference IS NOT NULL AND NEW.reference IS DISTINCT FROM OLD.reference THEN",
    to: "IF NEW.reference <> OLD.reference THEN",
    tests: [postgres("services/schema/ForbiddenStatements"), postgres("services/queue/OperationColumns")]
  },
  {
    rule: "the scopes of an operation never change",
    file: rules,
    from: "NEW.scopes, NEW.type, NEW.idempotency_key, NEW.request_digest, NEW.created_at)\n    IS DISTINCT FROM\n"
      + "     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.provider,\n"
      + "      OLD.scopes, OLD.type",
    to: "NEW.type, NEW.idempotency_key, NEW.request_digest, NEW.created_at)\n    IS DISTINCT FROM\n"
      + "     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.provider,\n"
      + "      OLD.type",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the trigger sets the scopes of an operation, never the caller",
    file: acceptances,
    from: "NEW.provider, NEW.scopes, v_limits\n",
    to: "NEW.provider, NEW.failure_message, v_limits\n",
    tests: [postgres("services/queue/Claims"), postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a take-over without a later send_before is never recorded",
    file: rules,
    from: "coalesce(NEW.send_before <= OLD.send_before, true)",
    to: "coalesce(NEW.send_before < OLD.send_before, true)",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres")]
  },
  {
    rule: "a take-over happens only on the timeline of the claim",
    file: rules,
    from: "NEW.send_before <= OLD.send_before, true) OR NEW.timeline <> ledger_timeline() THEN",
    to: "NEW.send_before <= OLD.send_before, true) THEN",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres")]
  },
  {
    rule: "the send_before of a claim changes only with a take-over",
    file: rules,
    from: "    AND (NEW.claimed_by <> OLD.claimed_by OR NEW.claimed_by IS NOT NULL AND OLD.claimed_by IS NULL\n"
      + "      OR NEW.send_before IS DISTINCT FROM OLD.send_before\n",
    to: "    AND (NEW.claimed_by <> OLD.claimed_by OR NEW.claimed_by IS NOT NULL AND OLD.claimed_by IS NULL\n"
      + "      OR NEW.send_before < OLD.send_before\n",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres"), postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "nothing takes an acknowledgement away",
    file: rules,
    from: "NEW.acknowledged := OLD.acknowledged OR NEW.reference IS NOT NULL",
    to: "NEW.acknowledged := NEW.reference IS NOT NULL",
    tests: [postgres("services/queue/OperationColumns")]
  },
  {
    rule: "the hold of a claimed operation never changes",
    file: rules,
    from: "IF OLD.state <> 'accepted' AND (NEW.timeline, NEW.hold_placed, NEW.examined_timeline)\n"
      + "    IS DISTINCT FROM (OLD.timeline, OLD.hold_placed, OLD.examined_timeline)",
    to: "IF OLD.state <> 'accepted' AND (NEW.hold_placed, NEW.examined_timeline)\n"
      + "    IS DISTINCT FROM (OLD.hold_placed, OLD.examined_timeline)",
    tests: [
      postgres("services/schema/ForbiddenStatements"),
      postgres("services/queue/OperationColumns"),
      postgres("services/queue/ReturnedClaimsInPostgres")
    ]
  },
  {
    rule: "a hint never moves a status read back",
    file: rules,
    from: "ELSE coalesce(NEW.due_at > OLD.due_at, true) END)",
    to: "ELSE NEW.due_at IS NULL END)",
    tests: [postgres("services/queue/Hints"), postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a hint never moves the rescue of a claim",
    file: rules,
    from:
      "OR CASE WHEN OLD.state = 'submitting' THEN NEW.due_at IS DISTINCT FROM OLD.due_at\n        ELSE coalesce(NEW.due_at > OLD.due_at, true) END)",
    to: "OR coalesce(NEW.due_at > OLD.due_at, true))",
    tests: [postgres("services/queue/Hints"), postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the return of a claim never changes its worker",
    file: rules,
    from:
      "IF is_return AND (NEW.claimed_by, NEW.waiting, NEW.reference, NEW.acknowledged, NEW.reads, NEW.reviewed_at)\n"
      + "    IS DISTINCT FROM (OLD.claimed_by, OLD.waiting,",
    to: "IF is_return AND (NEW.waiting, NEW.reference, NEW.acknowledged, NEW.reads, NEW.reviewed_at)\n"
      + "    IS DISTINCT FROM (OLD.waiting,",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres")]
  },
  {
    rule: "the change position moves with each begin and end of a review",
    file: rules,
    from: "IF NEW.under_review <> OLD.under_review THEN",
    to: "IF NEW.under_review AND NOT OLD.under_review THEN",
    tests: [postgres("services/reads/ChangePositions")]
  },
  {
    rule: "the database dates an operation, never the caller",
    file: acceptances,
    from: "  NEW.created_at := date_trunc('milliseconds', clock_timestamp());\n",
    to: "  NEW.created_at := coalesce(NEW.created_at, date_trunc('milliseconds', clock_timestamp()));\n",
    tests: [
      postgres("services/schema/Storage"),
      postgres("services/schema/ForbiddenStatements"),
      postgres("services/reads/Ownership")
    ]
  },
  {
    rule: "a settled operation always loses its payload",
    file: rules,
    from: "ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_settled;\n",
    to: "",
    tests: [postgres("services/schema/Triggers", "erase the payload of an operation that any role settles")]
  },
  {
    rule: "the rules of transitions hold also under session_replication_role = replica",
    file: rules,
    from: "ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition;\n",
    to: "",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "operations are never deleted",
    file: rules,
    from: "CREATE TRIGGER operations_permanent BEFORE DELETE OR TRUNCATE ON operations",
    to: "CREATE TRIGGER operations_permanent BEFORE TRUNCATE ON operations",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "only transitions write history",
    file: history,
    from: "FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION refuse_statement('transitions write it');",
    to: "FOR EACH STATEMENT WHEN (pg_trigger_depth() < 0) EXECUTE FUNCTION refuse_statement('transitions write it');",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "history is append-only",
    file: history,
    from: "CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE OR TRUNCATE",
    to: "CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "only the end of an operation erases its payload",
    file: payloads,
    from: "FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1)",
    to: "FOR EACH STATEMENT WHEN (pg_trigger_depth() > 1)",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the submitted payload is always the accepted payload",
    file: payloads,
    from: "CREATE TRIGGER operation_payloads_permanent BEFORE UPDATE OR TRUNCATE",
    to: "CREATE TRIGGER operation_payloads_permanent BEFORE TRUNCATE",
    tests: [postgres("services/schema/ForbiddenStatements")]
  }
]
