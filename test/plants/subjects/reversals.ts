/** Mistakes in reversals: a success that is reversed stays one, and its reads need what every read of a status needs. */
import { type Plant, postgres, unit } from "../Plant.ts"

const migration = "migrations/0027_reversals.sql"
const statements = "src/services/sql/queue/SqlStatusReads.ts"
const decision = "src/submission/reads/decideAfterRead.ts"

export const reversals: ReadonlyArray<Plant> = [
  {
    rule: "only a success is reversed",
    file: migration,
    from: "      AND o.state = 'succeeded'\n",
    to: "",
    tests: [postgres("services/queue/Reversals", "permits one row for a succeeded operation")]
  },
  {
    rule: "the record of reversals is append-only",
    file: migration,
    from: "BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_reversals",
    to: "BEFORE TRUNCATE ON operation_reversals",
    tests: [postgres("services/queue/Reversals", "permits one row for a succeeded operation")]
  },
  {
    rule: "a client sees nothing of a reversal",
    file: "src/services/memory/MemoryStatusReads.ts",
    from: "update({ ...record, reversal_read: null, reversal:",
    to: "update({ ...record, operation: { ...record.operation, revision: 9 }, reversal_read: null, reversal:",
    tests: [unit("banks/IncreaseReturns")]
  },
  {
    rule: "a failure after a success is no transition",
    file: decision,
    from: "due.state === \"succeeded\" ? decideAfterSuccess(answer, rules) : decideByRule(due, answer, rules)",
    to: "decideByRule(due, answer, rules)",
    tests: [unit("submission/reads/ReconcilerReversals", "that gets")]
  },
  {
    rule: "an answer that is pending reverses nothing",
    file: decision,
    from: "  answer?._tag === \"Proven\" && answer.state === \"failed\"\n    ? {\n      _tag: \"Reversed\"",
    to: "  answer?._tag === \"Proven\" && answer.state !== \"succeeded\"\n    ? {\n      _tag: \"Reversed\"",
    tests: [unit("submission/reads/ReconcilerReversals", "that gets")]
  },
  {
    rule: "a success is read only for as long as it may be reversed",
    file: statements,
    from: "WHERE operation_id = $1 AND ${isLastRead}",
    to: "WHERE operation_id = $1 AND false",
    tests: [postgres("services/queue/Reversals", "is read every day, until it is final")]
  },
  {
    rule: "an unclear answer does not end the reads of a success with the time of its reversal",
    file: "src/submission/reads/Reconciler.ts",
    from: "isAsked && answer._tag !== \"NotProven\" && decision._tag",
    to: "isAsked && decision._tag",
    tests: [unit("submission/reads/ReconcilerReversals", "whose answers are not clear")]
  },
  {
    rule: "a read that the reconciler does not make does not end the reads of a success with the time of its reversal",
    file: "src/submission/reads/Reconciler.ts",
    from: "answer === null || isUnreachable(answer)) return null",
    to: "answer === null || isUnreachable(answer)) return null\n  if (!isAsked) return Duration.zero",
    tests: [unit("submission/reads/ReconcilerReversals", "while the settings name another account")]
  },
  {
    rule: "the reads of a success end, whatever the provider answers",
    file: "src/submission/reads/Reconciler.ts",
    from: "const readsUnclear = Duration.days(30)",
    to: "const readsUnclear = Duration.days(3000)",
    tests: [unit("submission/reads/ReconcilerReversals", "whose answers are not clear")]
  },
  {
    rule: "a success is read only while a grant, its client and its provider connection allow it",
    file: statements,
    from: "SELECT r.operation_id, r.client_id, ${standing(\"read\")} AS active",
    to: "SELECT r.operation_id, r.client_id, true AS active",
    tests: [postgres("services/queue/Reversals", "is not read when")]
  },
  {
    rule: "a success is read on only if its type may be reversed",
    file: "src/submission/providers/ProviderPromises.ts",
    from: "new Map(Object.entries(reversibleFor.byType)).get(type)",
    to: "Object.values(reversibleFor.byType)[0]",
    tests: [unit("submission/reads/ReconcilerReversals", "of a type that may be reversed")]
  },
  {
    rule: "operators see when a success is read again",
    file: "src/services/sql/operators/OperatorRow.ts",
    from: "row.due_at ?? row.reversal_due_at",
    to: "row.due_at",
    tests: [postgres("services/queue/Reversals", "tells operators when a success is read again")]
  },
  {
    rule: "nothing is left to do of a success only once its provider cannot reverse it",
    file: "src/domain/operators/nextAction.ts",
    from: "  if (reversible_until === null) {",
    to: "  if (true) {",
    tests: [unit("domain/NextAction", "that its provider may reverse")]
  },
  {
    rule: "reads of successes leave capacity to open outcomes",
    file: "src/submission/reads/Reconciler.ts",
    from: "const free = Math.ceil((left - more.length) / 2)",
    to: "const free = limit",
    tests: [unit("submission/reads/ReconcilerReversals", "takes half of what the reads of open outcomes leave")]
  }
]
