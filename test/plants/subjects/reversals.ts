/** Mistakes in reversals: a success that is reversed stays one, and its reads need what every read of a status needs. */
import { type Plant, plant, postgres, unit } from "../Plant.ts"

const nextAction = "src/domain/operators/nextAction.ts"
const reconciler = "src/submission/reads/Reconciler.ts"
const migration = "migrations/0027_reversals.sql"
const lateProofs = "migrations/0042_late_proofs.sql"
const statements = "src/services/sql/queue/SqlStatusReads.ts"
const decision = "src/submission/reads/decideAfterRead.ts"

export const reversals: ReadonlyArray<Plant> = [
  plant("only a success is reversed", lateProofs)
    .edit("      AND (o.state = 'succeeded'\n        OR o.state IN ('failed', 'cancelled') AND", "      AND (true OR")
    .foundBy(postgres("services/queue/Reversals", "permits one row for a succeeded operation")),
  plant("the evidence that contradicts a failure names what it proves", lateProofs)
    .edit(" AND proved IN ('submitted', 'indeterminate', 'succeeded'))", ")")
    .foundBy(postgres("services/queue/Reversals", "is no operation in another state")),
  plant("the proof of a worker that comes after a final state is kept", "src/submission/attempts/SubmissionWorker.ts")
    .edit(
      "isSent ? keepLateProof(services, about, proof, { claimed_at, mayRepeat }) : Effect.void",
      "Effect.void"
    )
    .foundBy(unit("submission/LateProof", "the answer to a submission")),
  plant("the proof of a status read that comes after a final state is kept", reconciler)
    .edit("() => keepProof({ state: outcome.state, reference, evidence })", "() => Effect.void")
    .foundBy(unit("submission/LateProof", "a status read")),
  plant("a reference that a status read finds after a final state is kept", reconciler)
    .edit("isPostponed || next.reference === null", "true || next.reference === null")
    .foundBy(unit("submission/LateProof", "a reference")),
  plant("a proof that money may have left is counted as no reversal", "src/submission/lateProof.ts")
    .edit("proof.state === \"failed\" ? reversals : unexpectedPayments", "reversals ?? unexpectedPayments")
    .foundBy(unit("submission/LateProof", "counts as a payment only if money may have left")),
  plant("a late proof that agrees with the final state is none", "src/services/rules/contradictions.ts")
    .edit("return isOther && known.reference !== null", "return isOther")
    .foundBy(unit("services/rules/Contradictions", "only another outcome")),
  plant("a second payment of a success is told", "src/services/rules/contradictions.ts")
    .edit("return isOther && known.reference !== null", "return false")
    .foundBy(
      unit("services/rules/Contradictions", "only another outcome"),
      unit("submission/LateProof", "second payment")
    ),
  plant("a second payment is no reversal of the first", "src/services/rules/contradictions.ts")
    .edit("known.state !== \"succeeded\" || state === \"failed\"", "known !== null && state !== null")
    .foundBy(
      unit("submission/LateProof", "second payment"),
      postgres("services/queue/LateProof", "reverses no success")
    ),
  plant("what the provider received before may fail later", "src/services/rules/contradictions.ts")
    .edit("state === \"submitted\" && !known.acknowledged", "state === \"submitted\"")
    .foundBy(unit("services/rules/Contradictions", "only another outcome")),
  plant("a contradicted failure needs a person", nextAction)
    .edit("  if (contradicted) {", "  if (false) {")
    .foundBy(postgres("services/queue/LateProof", "tells operators")),
  plant("the record of reversals is append-only", migration)
    .edit("BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_reversals", "BEFORE TRUNCATE ON operation_reversals")
    .foundBy(postgres("services/queue/Reversals", "permits one row for a succeeded operation")),
  plant("a client sees nothing of a reversal", "src/services/memory/MemoryStatusReads.ts")
    .edit(
      "update({ ...record, reversal_read: null, reversal:",
      "update({ ...record, operation: { ...record.operation, revision: 9 }, reversal_read: null, reversal:"
    )
    .foundBy(unit("banks/IncreaseReturns")),
  plant("a failure after a success is no transition", decision)
    .edit(
      "due.state === \"succeeded\" ? decideAfterSuccess(answer, rules) : decideByRule(due, answer, rules)",
      "decideByRule(due, answer, rules)"
    )
    .foundBy(unit("submission/reads/ReconcilerReversals", "that gets")),
  plant("an answer that is pending reverses nothing", decision)
    .edit(
      "  answer?._tag === \"Proven\" && answer.state === \"failed\"\n    ? {\n      _tag: \"Reversed\"",
      "  answer?._tag === \"Proven\" && answer.state !== \"succeeded\"\n    ? {\n      _tag: \"Reversed\""
    )
    .foundBy(unit("submission/reads/ReconcilerReversals", "that gets")),
  plant("a success is read only for as long as it may be reversed", statements)
    .edit("WHERE operation_id = $1 AND ${isLastRead}", "WHERE operation_id = $1 AND false")
    .foundBy(postgres("services/queue/Reversals", "is read every day, until it is final")),
  plant("an unclear answer does not end the reads of a success with the time of its reversal", reconciler)
    .edit("isAsked && answer._tag !== \"NotProven\" && decision._tag", "isAsked && decision._tag")
    .foundBy(unit("submission/reads/ReconcilerReversals", "whose answers are not clear")),
  plant(
    "a read that the reconciler does not make does not end the reads of a success with the time of its reversal",
    reconciler
  )
    .edit(
      "answer === null || isUnreachable(answer)) return null",
      "answer === null || isUnreachable(answer)) return null\n  if (!isAsked) return Duration.zero"
    )
    .foundBy(unit("submission/reads/ReconcilerReversals", "while the settings name another account")),
  plant("the reads of a success end, with any answer of the provider", reconciler)
    .edit("const readsUnclear = Duration.days(30)", "const readsUnclear = Duration.days(3000)")
    .foundBy(unit("submission/reads/ReconcilerReversals", "whose answers are not clear")),
  plant("a success is read only while a grant, its client and its provider connection allow it", statements)
    .edit(
      "SELECT r.operation_id, r.client_id, ${standing(\"read\")} AS active",
      "SELECT r.operation_id, r.client_id, true AS active"
    )
    .foundBy(postgres("services/queue/Reversals", "is not read when")),
  plant("a success is read on only if its type may be reversed", "src/submission/providers/ProviderPromises.ts")
    .edit("new Map(Object.entries(reversibleFor.byType)).get(type)", "Object.values(reversibleFor.byType)[0]")
    .foundBy(unit("submission/reads/ReconcilerReversals", "of a type that may be reversed")),
  plant("operators see when a success is read again", "src/services/sql/operators/OperatorRow.ts")
    .edit("row.due_at ?? row.reversal_due_at", "row.due_at")
    .foundBy(postgres("services/queue/Reversals", "tells operators when a success is read again")),
  plant("nothing is left to do of a success only once its provider cannot reverse it", nextAction)
    .edit("  if (reversible_until === null) {", "  if (true) {")
    .foundBy(unit("domain/operators/NextAction", "that its provider may reverse")),
  plant(
    "a success whose reads need its erased payload is promised no reversal",
    "src/submission/providers/ProviderPromises.ts"
  )
    .edit(
      "promises.reversibleFor !== undefined && readNeedsPayload({ ...declared, promises }, null)",
      "promises.reversibleFor !== undefined && declared.readsNeedPayload === true"
    )
    .foundBy(unit("submission/providers/ProviderPromises", "its reads need the payload")),
  plant(
    "an indirect read proves no reversal without the provider's reference",
    "src/submission/reads/decideAfterRead.ts"
  )
    .edit(
      "  if (\n    answer?._tag === \"Proven\" && ",
      "  if (\n    due.state !== \"succeeded\" && answer?._tag === \"Proven\" && "
    )
    .foundBy(unit("submission/reads/ReconcilerReversals", "that is indirect")),
  plant("reads of successes leave capacity to open outcomes", reconciler)
    .edit("const free = Math.ceil((left - more.length) / 2)", "const free = limit")
    .foundBy(unit("submission/reads/ReconcilerReversals", "takes half of what the reads of open outcomes leave"))
]
