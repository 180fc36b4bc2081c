/** Mistakes in fences: orders that take the place of a request whose outcome is uncertain. */
import { long, type Plant, plant, postgres, story, unit } from "../Plant.ts"

const fencedOperations = "migrations/0031_fenced_operations.sql"
const validateAskedAt = "src/domain/operators/validateAskedAt.ts"
const outcomesFile = "src/services/sql/queue/SqlOutcomes.ts"
const statusReads = "src/services/sql/queue/SqlStatusReads.ts"
const fencesFile = "src/submission/reads/fences.ts"

export const fences: ReadonlyArray<Plant> = [
  plant("a fence is recorded before it is sent, and needs the authorization of a submission each time", fencesFile)
    .edit(
      "  if ((yield* withinStore(statusReads.mayFence(due))) === null) return notSent(\"nothing allows to send the operation\")\n",
      ""
    )
    .foundBy(unit("submission/reads/Fences")),
  plant("a fence begins in the ledger by the read that precedes it", fencesFile)
    .edit(
      "  const fence_started_at = yield* withinStore(services.statusReads.mayFence(due))\n",
      "  const fence_started_at = null\n"
    )
    .foundBy(unit("submission/reads/Fences")),
  plant("the answer of a read from before a fence is not recorded", outcomesFile)
    .edit("      AND (i.is_read IS NOT TRUE OR o.fence_started_at IS NOT DISTINCT FROM i.fence_started_at)\n", "")
    .foundBy(postgres("services/queue/Fences", "refuses what a read")),
  plant("a read from before a fence leaves no reference", statusReads)
    .edit("    AND (NOT $9::boolean OR o.fence_started_at IS NOT DISTINCT FROM $10::timestamptz)\n", "")
    .foundBy(postgres("services/queue/Fences", "refuses what a read")),
  plant("a reconciler says with an outcome whether it read before a fence", "src/submission/reads/Reconciler.ts")
    .edit("known = { send_before, fence_started_at, sent_as }", "known = { send_before, sent_as }")
    .foundBy(unit("submission/reads/Fences")),
  plant("a person is asked about an old fence", "src/submission/reads/Reconciler.ts")
    .edit("DateTime.isLessThan(taken_at, oldFrom)", "!DateTime.isLessThan(taken_at, oldFrom)")
    .foundBy(unit("submission/reads/Fences")),
  plant("a fence is never sent to a paused provider", fencesFile)
    .edit("  if (pause !== null) return notSent(`the provider is paused: ${pause}`)\n", "")
    .foundBy(unit("submission/reads/Fences")),
  plant("a fenced operation is never read by its key", "src/domain/Submission.ts")
    .edit("fence_started_at !== null && !acknowledged\n", "fence_started_at !== null && acknowledged\n")
    .foundBy(unit("submission/reads/Fences")),
  plant("the \"not found\" of a proxy begins no fence", "src/submission/reads/Reconciler.ts")
    .edit("answer?._tag === \"NotFound\" && answer.evidence !== null", "answer?._tag === \"NotFound\"")
    .foundBy(unit("submission/reads/Fences")),
  plant("an order of a fence that is not cancelled is no proof", "src/submission/http/HttpProvider.ts")
    .edit(
      "holder._tag === \"Unnamed\" || !holder.isCancelled) return stillWaits",
      "holder._tag === \"Unnamed\") return stillWaits"
    )
    .foundBy(unit("banks/FenceAnswers", "still waits after the cancellation")),
  plant("a fence never begins before clocks agree that send_before has passed", statusReads)
    .edit("o.send_before < now() - ${millis(String(longestSkew))}", "o.send_before < now()")
    .foundBy(postgres("services/queue/Fences")),
  plant("only an indeterminate operation is fenced", statusReads)
    .edit(
      "o.revision = $2 AND o.state = 'indeterminate' AND o.reference IS NULL",
      "o.revision = $2 AND o.reference IS NULL"
    )
    .foundBy(story("a fence needs an indeterminate operation"), story("no fence is sent of a claim")),
  plant("a fence needs a grant with all scopes of the accepting one", statusReads)
    .edit("o.due_at > now() AND ${standing(\"send\")}", "o.due_at > now() AND ${standing(\"read\")}")
    .foundBy(story("no grant with fewer scopes")),
  plant("a fence of another beginning ends no operation, in the database too", fencedOperations)
    .edit("evidence ->> 'fence_started_at'\n      = to_char", "evidence ->> 'fence_started_at'\n      <= to_char")
    .foundBy(postgres("services/queue/Fences", "fails only by a fence of that beginning")),
  plant("no status read ends a fenced operation whose order the provider has not named", fencedOperations)
    .edit("NEW.state = 'succeeded' OR OLD.acknowledged END", "true END")
    .foundBy(postgres("services/queue/Fences", "fails only by a fence of that beginning")),
  plant(
    "the answer to a person from before a minute after the end of a fence ends no operation as failed, in the database too",
    fencedOperations
  )
    .edit("::timestamptz >= OLD.fencing_until + interval '1 minute'", "::timestamptz >= OLD.fencing_until")
    .foundBy(postgres("services/queue/Fences", "fails only by a fence of that beginning")),
  plant("a person ends no operation while its fence may be under way", validateAskedAt)
    .edit("fencing_until !== null && now < fencing_until", "fencing_until !== null && now > fencing_until")
    .foundBy(
      unit("domain/OperatorEvidence", "after the last fence"),
      postgres("services/queue/Fences", "by an answer from after")
    ),
  plant("an answer from before a minute after the end of a fence ends no operation as failed", validateAskedAt)
    .edit("fencing_until !== null && at < fencing_until + tolerance", "fencing_until !== null && at < fencing_until")
    .foundBy(
      unit("domain/OperatorEvidence", "after the last fence"),
      postgres("services/queue/Fences", "by an answer from after")
    ),
  plant("the ledger records until when a fence may be sent", statusReads)
    .edit("greatest(o.fencing_until, o.due_at)", "coalesce(o.fencing_until, o.due_at)")
    .foundBy(postgres("services/queue/Fences", "by an answer from after its last fence")),
  plant("the ledger in memory records until when a fence may be sent", "src/services/memory/MemoryStatusReads.ts")
    .edit(
      "Math.max(record.fencing_until?.epochMilliseconds ?? 0, record.due_at!)",
      "record.fencing_until?.epochMilliseconds ?? record.due_at!"
    )
    .foundBy(
      postgres("services/queue/Fences", "by an answer from after its last fence"),
      unit("submission/reads/Fences", "however often")
    ),
  plant(
    "a person ends no fenced operation whose fence is sent meanwhile",
    "src/services/sql/ledger/SqlOperationLedger.ts"
  )
    .edit("AND NOT ($7::boolean AND", "AND NOT (NOT $7::boolean AND")
    .foundBy(postgres("services/queue/Fences", "is sent meanwhile")),
  plant("a person ends no operation while its fence may be under way, in the database too", fencedOperations)
    .edit("OLD.fencing_until <= now()", "OLD.fencing_until IS NOT NULL")
    .foundBy(postgres("services/queue/Fences", "fails only by a fence of that beginning")),
  plant("the lease of a read covers the whole time of a fence", "src/submission/reads/Reconciler.ts")
    .edit("providers.get(provider)?.fence === undefined", "providers.get(provider)?.fence !== undefined")
    .foundBy(unit("submission/reads/Fences", "leaves only while")),
  plant("no fence leaves after the time that its lease has for it", "src/submission/http/HttpProvider.ts")
    .edit("      const notAfter = yield* SendDeadline\n", "      const notAfter = null\n")
    .foundBy(unit("banks/FenceAnswers", "sends nothing once")),
  plant("no fence is sent while the circuit of the submissions is open", fencesFile)
    .edit(
      "(yield* passable(breaker, due.provider, \"submissions\")) === 0",
      "(yield* passable(breaker, due.provider, \"reads\")) === 0"
    )
    .foundBy(unit("submission/reads/Fences", "is not sent while the circuit")),
  plant("no fence is sent by an old authorization", fencesFile)
    .edit("age < Duration.toMillis(policy.storeTimeout) && held < within", "age < Infinity && held < within")
    .foundBy(unit("submission/reads/Fences", "by an authorization that is as old as storeTimeout")),
  plant("a reader that took the operation too long ago sends no fence", fencesFile)
    .edit(" && held < within", "")
    .foundBy(unit("submission/reads/Fences", "too long ago")),
  plant("the beginning of a fence never changes", "migrations/0029_fences.sql")
    .edit(
      "IF OLD.fence_started_at IS NOT NULL AND NEW.fence_started_at IS DISTINCT FROM OLD.fence_started_at THEN",
      "IF NEW.fence_started_at > now() + interval '1 day' THEN"
    )
    .foundBy(postgres("services/queue/Fences")),
  plant("the console knows until when a fence may be under way", "console/operation/AdvanceDialog.tsx")
    .edit(
      "fencing_until: schedule.fencing_until === null ? null :",
      "fencing_until: schedule.fencing_until !== null ? null :"
    )
    .foundBy(long("console/Actions", "that records a failure is refused")),
  plant("the database keeps the end of the last fence", "migrations/0029_fences.sql")
    .edit("NEW.fencing_until >= greatest(OLD.fencing_until, OLD.due_at)", "NEW.fencing_until IS NOT NULL")
    .foundBy(postgres("services/queue/Fences", "refuses any other record")),
  plant("the database lets only the reader of an operation send its fence", "migrations/0029_fences.sql")
    .edit(" AND OLD.due_at > now()) IS NOT TRUE", ") IS NOT TRUE")
    .foundBy(postgres("services/queue/Fences", "refuses any other record")),
  plant("the database refuses a fence of an operation that its provider has acknowledged", "migrations/0029_fences.sql")
    .edit("NEW.state <> OLD.state OR OLD.acknowledged OR NEW.reference", "NEW.state <> OLD.state OR NEW.reference")
    .foundBy(postgres("services/queue/Fences", "refuses any other record of a fence")),
  plant("a hint begins no fence", "migrations/0029_fences.sql")
    .edit("\n    OR NEW.hinted_at IS DISTINCT FROM OLD.hinted_at\n", "\n")
    .foundBy(postgres("services/queue/Fences", "refuses any other record of a fence")),
  plant("the database refuses a fence before send_before", "migrations/0029_fences.sql")
    .edit("IF (OLD.send_before < clock_timestamp()) IS NOT TRUE THEN", "IF OLD.send_before IS NULL THEN")
    .foundBy(postgres("services/queue/Fences")),
  plant("a fence needs the present revision", statusReads)
    .edit(
      "WHERE o.id = $1 AND o.revision = $2 AND o.state = 'indeterminate'",
      "WHERE o.id = $1 AND o.revision >= $2 AND o.state = 'indeterminate'"
    )
    .foundBy(story("a fence needs an indeterminate operation")),
  plant("no fence is sent of an operation whose provider has acknowledged it", statusReads)
    .edit("AND o.reference IS NULL AND NOT o.acknowledged\n", "\n")
    .foundBy(story("a fence needs an indeterminate operation"))
]
