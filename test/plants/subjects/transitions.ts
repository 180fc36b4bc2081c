/** Mistakes in the triggers of operations: only the transitions of the table happen, and a final state stays. */
import { type Plant, plant, postgres, story, unit } from "../Plant.ts"

const ledgerRules = "src/services/rules/ledgerRules.ts"
const operatorReferences = "migrations/0033_operator_references.sql"
const validateAskedAt = "src/domain/operators/validateAskedAt.ts"
const rules = "migrations/0006_operation_rules.sql"
const acceptances = "migrations/0034_limits.sql"
const evidence = "migrations/0019_operator_evidence.sql"
const operatorOutcomes = "migrations/0030_operator_outcomes.sql"
const evidenceTime = "migrations/0028_evidence_time.sql"
const lateProofs = "migrations/0042_late_proofs.sql"
const ledgerStatements = "src/services/sql/ledger/SqlOperationLedger.ts"
const history = "migrations/0004_operation_history.sql"
const payloads = "migrations/0005_operation_payloads.sql"

export const transitions: ReadonlyArray<Plant> = [
  plant("a settled operation of the ledger in memory loses its payload", "src/services/memory/recordRules.ts")
    .edit("    payload: terminal ? null : record.payload,", "    payload: record.payload,")
    .foundBy(postgres("services/queue/QueueModel", "give the same answers")),
  plant("only an accepted operation is cancelled", rules)
    .edit(
      "WHEN 'indeterminate' THEN NEW.state IN ('submitted', 'succeeded', 'failed')",
      "WHEN 'indeterminate' THEN NEW.state IN ('submitted', 'succeeded', 'failed', 'cancelled')"
    )
    .foundBy(postgres("services/schema/Triggers")),
  plant("a claimed operation never becomes accepted again", rules)
    .edit(
      "WHEN 'submitting' THEN NEW.state IN ('submitted', 'succeeded', 'failed', 'indeterminate')",
      "WHEN 'submitting' THEN NEW.state IN ('accepted', 'submitted', 'succeeded', 'failed', 'indeterminate')"
    )
    .foundBy(postgres("services/schema/Triggers")),
  plant("a final state never changes", rules)
    .edit(
      "IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN\n    RAISE",
      "IF OLD.state IN ('succeeded', 'failed', 'cancelled') AND NEW.state <> OLD.state THEN\n    RAISE"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("an operation leaves indeterminate only with evidence that is an object", rules)
    .edit("NEW.evidence IS NULL OR json_typeof(NEW.evidence) <> 'object' OR", "NEW.evidence IS NULL OR")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("an operation leaves indeterminate only with evidence that is not empty", rules)
    .edit(" OR NEW.evidence::text ~ '^\\s*\\{\\s*\\}\\s*$')", ")")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("an operation leaves indeterminate only on an exact status read, also by a person", "src/domain/Operation.ts")
    .edit(" || isOperatorEvidence(evidence))", " || true)")
    .foundBy(unit("domain/OperatorEvidence")),
  plant("the evidence of an operator has a question, an office, a time and a reference, in the database too", evidence)
    .edit("ARRAY['question', 'asked', 'asked_at', 'reference']", "ARRAY['reference']")
    .foundBy(postgres("services/schema/ForbiddenStatements", "leave indeterminate")),
  plant("the evidence of an operator has an answer, in the database too", evidence)
    .edit("IF coalesce(evidence ->> 'answer', '') !~ '\\S' AND", "IF false AND")
    .foundBy(postgres("services/schema/ForbiddenStatements", "leave indeterminate")),
  plant("the evidence of an operator says when in RFC 3339, in the database too", evidence)
    .edit("!~ '^\\d{4}-\\d\\d-\\d\\dT", "!~ '^\\d{4}-\\d\\d-\\d\\d' AND evidence ->> 'asked_at' !~ 'T")
    .foundBy(postgres("services/schema/ForbiddenStatements", "leave indeterminate")),
  plant("a person ends an operation by no reference that another operation has", ledgerRules)
    .edit("if (holder !== null) {", "if (holder !== null && stated.isOfPayment) {")
    .foundBy(postgres("services/ledger/Transitions", "no other operation at the provider has")),
  plant(
    "a person ends an operation by no reference that another operation has, in the database too",
    operatorReferences
  )
    .edit("o.provider = NEW.provider AND o.id <> NEW.id", "false")
    .foundBy(postgres("services/schema/ForbiddenStatements", "by the reference of another one")),
  plant("the reference by which a person ends an operation is stored", operatorReferences)
    .edit("    NEW.reference := stated;", "    NULL;")
    .foundBy(postgres("services/operators/OperatorActions", "stores the reference")),
  plant("a refusal names all that is wrong with the evidence of a person", "src/domain/OperatorEvidence.ts")
    .edit(": [...faults, `Expected", ": faults.length > 0 ? faults : [`Expected")
    .foundBy(postgres("services/operators/OperatorActions", "all that is wrong")),
  plant("evidence of a worker may have any text", evidence)
    .edit("regexp_replace(NEW.evidence::text, '\\\\u(0000|d[89a-f][0-9a-f]{2})', '\\\\ufffd', 'gi')", "NEW.evidence")
    .foundBy(postgres("services/ledger/Transitions", "is refused without evidence")),
  plant("an operator asked after the operation was created", validateAskedAt)
    .edit("if (at < created_at - tolerance)", "if (at < created_at - 1000 * tolerance)")
    .foundBy(unit("domain/OperatorEvidence", "names one between")),
  plant("an operator did not ask in the future", validateAskedAt)
    .edit("isFailure ? 0 : tolerance", "isFailure ? 0 : 1000 * tolerance")
    .foundBy(unit("domain/OperatorEvidence", "names one between")),
  plant("an operation fails by no answer of the future, however little", validateAskedAt)
    .edit("isFailure ? 0 : tolerance", "tolerance")
    .foundBy(unit("domain/OperatorEvidence", "names one between")),
  plant("an operation fails by no answer of the future, however little, in the database too", lateProofs)
    .edit("::timestamptz > clock_timestamp() THEN", "::timestamptz > clock_timestamp() + interval '1 minute' THEN")
    .foundBy(postgres("services/queue/LateProof", "in the database too")),
  plant("a person ends no claim as failed while its worker may wait for the answer", ledgerStatements)
    .edit("greatest(o.send_before, o.due_at) <= now()", "o.send_before <= now()")
    .foundBy(story("while its worker may wait for the answer")),
  plant(
    "a person ends no claim as failed while its worker may wait for the answer, in memory too",
    "src/services/memory/MemoryOperationLedger.ts"
  )
    .edit("!isSendable && found.due_at! <= at.epochMilliseconds && isPresent", "!isSendable && isPresent")
    .foundBy(story("while its worker may wait for the answer")),
  plant("a person ends no claim as failed while its worker may wait for the answer, in the database too", lateProofs)
    .edit("AND OLD.due_at > clock_timestamp() THEN", "AND false THEN")
    .foundBy(postgres("services/queue/LateProof", "in the database too")),
  plant("the refusal of a live claim says when a person may record its failure", ledgerRules)
    .edit("isGuess(to) && isByOperator(evidence) ? answeredBy(from, facts) : null", "null")
    .foundBy(postgres("services/queue/LateProof", "says when it can")),
  plant("an operation fails only by an answer from a minute after its last send", validateAskedAt)
    .edit("at < sendable_until + tolerance)", "at < sendable_until)")
    .foundBy(unit("domain/OperatorEvidence", "names one between")),
  plant("an operation fails only by an answer from after its last fence", ledgerRules)
    .edit("? fencing_until?.epochMilliseconds ?? null : null,", "? send_before?.epochMilliseconds ?? null : null,")
    .foundBy(postgres("services/queue/Fences", "lets a person end")),
  plant("the ledger refuses an answer from before the last send of an uncertain operation", ledgerRules)
    .edit("isFailure && operation.state !== \"accepted\" &&", "isFailure && operation.state === \"accepted\" &&")
    .foundBy(postgres("services/ledger/Cancellation", "about which an operator asked")),
  plant("an operation that a worker returned unsent fails, whenever the operator asked", ledgerRules)
    .edit(" && return_reason === null\n          ?", "\n          ?")
    .foundBy(story("does not fail by an operator once")),
  plant("an operator asked after the operation was created, in the database too", evidenceTime)
    .edit(
      "IF asked_at < OLD.created_at - interval '1 minute' THEN",
      "IF asked_at < OLD.created_at - interval '99 years' THEN"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements", "who asked before the creation")),
  plant("an operator did not ask in the future, in the database too", evidenceTime)
    .edit(
      "IF asked_at > clock_timestamp() + interval '1 minute' THEN",
      "IF asked_at > clock_timestamp() + interval '9000 years' THEN"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements", "who asked in the future")),
  plant("an operation fails only by an answer from a minute after its last send, in the database too", evidenceTime)
    .edit("AND asked_at < OLD.send_before + interval '1 minute'\n", "AND asked_at < OLD.send_before\n")
    .foundBy(postgres("services/ledger/Cancellation", "is refused by the database")),
  plant("an operator ends an operation that may have been sent only by an answer", ledgerRules)
    .edit(
      "isTerminal(to.state) && isByOperator(evidence) && !isCancellation",
      "isTerminal(to.state) && isByOperator(evidence) && false"
    )
    .foundBy(postgres("services/ledger/Transitions", "to an outcome by an operator")),
  plant(
    "an operator ends an operation that may have been sent only by an answer, in the database too",
    operatorOutcomes
  )
    .edit(
      "WHEN (OLD.state IN ('submitting', 'submitted') AND NEW.state IN ('succeeded', 'failed')",
      "WHEN (OLD.state IN ('submitting') AND NEW.state IN ('succeeded', 'failed')"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements", "let an operator end")),
  plant(
    "a submitted operation fails by no answer from before a minute after its send_before, in the database too",
    operatorOutcomes
  )
    .edit(
      "(evidence ->> 'asked_at')::timestamptz < OLD.send_before + interval '1 minute'",
      "(evidence ->> 'asked_at')::timestamptz < OLD.send_before"
    )
    .foundBy(postgres("services/ledger/Cancellation", "operation that may still be sent is refused by the database")),
  plant("an operation that a worker may have sent is uncertain", "src/domain/Operation.ts")
    .edit("state === \"submitting\" || state === \"indeterminate\"", "state === \"indeterminate\"")
    .foundBy(unit("domain/States"), unit("domain/Operation")),
  plant("a transition always adds one to the revision", rules)
    .edit("IF NEW.revision <> OLD.revision + 1 THEN", "IF NEW.revision <= OLD.revision THEN")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("an update time is never before the last one", rules)
    .edit(
      "NEW.updated_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.updated_at);",
      "NEW.updated_at := date_trunc('milliseconds', clock_timestamp());"
    )
    .foundBy(postgres("services/schema/Storage")),
  plant("an operation keeps the reference of its provider", rules)
    .edit(
      "IF OLD.reference IS NOT NULL AND NEW.reference IS DISTINCT FROM OLD.reference THEN",
      "IF NEW.reference <> OLD.reference THEN"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements"), postgres("services/queue/OperationColumns")),
  plant("the scopes of an operation never change", rules)
    .edit(
      "NEW.scopes, NEW.type, NEW.idempotency_key, NEW.request_digest, NEW.created_at)\n    IS DISTINCT FROM\n" +
        "     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.provider,\n" +
        "      OLD.scopes, OLD.type",
      "NEW.type, NEW.idempotency_key, NEW.request_digest, NEW.created_at)\n    IS DISTINCT FROM\n" +
        "     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.provider,\n" +
        "      OLD.type"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("the trigger sets the scopes of an operation, never the caller", acceptances)
    .edit("NEW.provider, NEW.scopes, v_limits\n", "NEW.provider, NEW.failure_message, v_limits\n")
    .foundBy(story("no grant with fewer scopes")),
  plant("a take-over without a later send_before is never recorded", rules)
    .edit("coalesce(NEW.send_before <= OLD.send_before, true)", "coalesce(NEW.send_before < OLD.send_before, true)")
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres")),
  plant("a take-over happens only on the timeline of the claim", rules)
    .edit(
      "NEW.send_before <= OLD.send_before, true) OR NEW.timeline <> ledger_timeline() THEN",
      "NEW.send_before <= OLD.send_before, true) THEN"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres")),
  plant("the send_before of a claim changes only with a take-over", rules)
    .edit(
      "    AND (NEW.claimed_by <> OLD.claimed_by OR NEW.claimed_by IS NOT NULL AND OLD.claimed_by IS NULL\n" +
        "      OR NEW.send_before IS DISTINCT FROM OLD.send_before\n",
      "    AND (NEW.claimed_by <> OLD.claimed_by OR NEW.claimed_by IS NOT NULL AND OLD.claimed_by IS NULL\n" +
        "      OR NEW.send_before < OLD.send_before\n"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres"), postgres("services/schema/ForbiddenStatements")),
  plant("nothing takes an acknowledgement away", rules)
    .edit(
      "NEW.acknowledged := OLD.acknowledged OR NEW.reference IS NOT NULL",
      "NEW.acknowledged := NEW.reference IS NOT NULL"
    )
    .foundBy(postgres("services/queue/OperationColumns")),
  plant("the hold of a claimed operation never changes", rules)
    .edit(
      "IF OLD.state <> 'accepted' AND (NEW.timeline, NEW.hold_placed, NEW.examined_timeline)\n" +
        "    IS DISTINCT FROM (OLD.timeline, OLD.hold_placed, OLD.examined_timeline)",
      "IF OLD.state <> 'accepted' AND (NEW.hold_placed, NEW.examined_timeline)\n" +
        "    IS DISTINCT FROM (OLD.hold_placed, OLD.examined_timeline)"
    )
    .foundBy(
      postgres("services/schema/ForbiddenStatements"),
      postgres("services/queue/OperationColumns"),
      postgres("services/queue/ReturnedClaimsInPostgres")
    ),
  plant("a hint never moves a status read back", rules)
    .edit("ELSE coalesce(NEW.due_at > OLD.due_at, true) END)", "ELSE NEW.due_at IS NULL END)")
    .foundBy(postgres("services/queue/StatusReads", "is refused by the trigger")),
  plant("a hint never moves the rescue of a claim", rules)
    .edit(
      "OR CASE WHEN OLD.state = 'submitting' THEN NEW.due_at IS DISTINCT FROM OLD.due_at\n        ELSE coalesce(NEW.due_at > OLD.due_at, true) END)",
      "OR coalesce(NEW.due_at > OLD.due_at, true))"
    )
    .foundBy(postgres("services/queue/StatusReads", "is refused by the trigger")),
  plant("the return of a claim never changes its worker", rules)
    .edit(
      "IF is_return AND (NEW.claimed_by, NEW.waiting, NEW.reference, NEW.acknowledged, NEW.reads, NEW.reviewed_at)\n" +
        "    IS DISTINCT FROM (OLD.claimed_by, OLD.waiting,",
      "IF is_return AND (NEW.waiting, NEW.reference, NEW.acknowledged, NEW.reads, NEW.reviewed_at)\n" +
        "    IS DISTINCT FROM (OLD.waiting,"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres")),
  plant("the change position moves with each begin and end of a review", rules)
    .edit("IF NEW.under_review <> OLD.under_review THEN", "IF NEW.under_review AND NOT OLD.under_review THEN")
    .foundBy(postgres("services/reads/ChangePositions")),
  plant("the database dates an operation, never the caller", acceptances)
    .edit(
      "  NEW.created_at := date_trunc('milliseconds', clock_timestamp());\n",
      "  NEW.created_at := coalesce(NEW.created_at, date_trunc('milliseconds', clock_timestamp()));\n"
    )
    .foundBy(
      postgres("services/schema/Storage"),
      postgres("services/schema/ForbiddenStatements"),
      postgres("services/reads/Ownership")
    ),
  plant("a settled operation always loses its payload", rules)
    .edit("ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_settled;\n", "")
    .foundBy(postgres("services/schema/Triggers", "erase the payload of an operation that any role settles")),
  plant("the rules of transitions hold also under session_replication_role = replica", rules)
    .edit("ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition;\n", "")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("operations are never deleted", rules)
    .edit(
      "CREATE TRIGGER operations_permanent BEFORE DELETE OR TRUNCATE ON operations",
      "CREATE TRIGGER operations_permanent BEFORE TRUNCATE ON operations"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("only transitions write history", history)
    .edit(
      "FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION refuse_statement('transitions write it');",
      "FOR EACH STATEMENT WHEN (pg_trigger_depth() < 0) EXECUTE FUNCTION refuse_statement('transitions write it');"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("history is append-only", history)
    .edit(
      "CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE OR TRUNCATE",
      "CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("only the end of an operation erases its payload", payloads)
    .edit("FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1)", "FOR EACH STATEMENT WHEN (pg_trigger_depth() > 1)")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("the submitted payload is always the accepted payload", payloads)
    .edit(
      "CREATE TRIGGER operation_payloads_permanent BEFORE UPDATE OR TRUNCATE",
      "CREATE TRIGGER operation_payloads_permanent BEFORE TRUNCATE"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("an operation with a reference is acknowledged", rules)
    .edit("OLD.acknowledged OR NEW.reference IS NOT NULL", "OLD.acknowledged")
    .foundBy(story("an operation is acknowledged once"))
]
