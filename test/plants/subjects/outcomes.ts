/** Mistakes in attempts, evidence and status reads: an uncertain outcome stays uncertain until evidence ends it. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const outcomesFile = "src/services/sql/queue/SqlOutcomes.ts"
const settlement = "src/submission/attempts/Settlement.ts"
const decision = "src/submission/reads/decideAfterRead.ts"
const attempts = "src/submission/attempts/attemptUntilSent.ts"
const statusReads = "src/services/sql/queue/SqlStatusReads.ts"
const fences = "src/submission/reads/fences.ts"

export const outcomes: ReadonlyArray<Plant> = [
  {
    rule: "an adapter may say a common failure in words of its own",
    file: "src/domain/GatewayFailures.ts",
    from: "{ ...commonFailures, ...failures }",
    to: "{ ...failures, ...commonFailures }",
    tests: [unit("submission/providers/AnswerRecord")]
  },
  {
    rule: "a common code needs no declaration",
    file: "src/domain/GatewayFailures.ts",
    from: "{ ...commonFailures, ...failures }",
    to: "{ ...failures }",
    tests: [unit("submission/providers/AnswerRecord")]
  },
  {
    rule: "a record of an earlier claim is never applied",
    file: outcomesFile,
    from: "      AND (i.send_before IS NULL OR o.send_before = i.send_before)\n",
    to: "",
    tests: [postgres("services/queue/Outcomes"), postgres("services/queue/OutcomeBatches")]
  },
  {
    rule: "a record is applied only at its revision",
    file: outcomesFile,
    from: "WHERE o.revision = i.revision AND o.return_reason IS NULL",
    to: "WHERE o.revision >= i.revision AND o.return_reason IS NULL",
    tests: [postgres("services/queue/Outcomes"), postgres("services/queue/OutcomeBatches")]
  },
  {
    rule: "a returned claim records nothing",
    file: outcomesFile,
    from: "WHERE o.revision = i.revision AND o.return_reason IS NULL",
    to: "WHERE o.revision = i.revision",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "an outcome with another reference than the stored one is never recorded",
    file: outcomesFile,
    from: "      AND coalesce(o.reference = i.reference, true)\n",
    to: "",
    tests: [postgres("services/queue/Outcomes"), postgres("services/queue/ForeignEvidence")]
  },
  {
    rule: "a locked row delays no other outcome of its batch",
    file: outcomesFile,
    from: "recordInput(\" SKIP LOCKED\")",
    to: "recordInput(\"\")",
    tests: [postgres("services/queue/OutcomeBatches")]
  },
  {
    rule: "an answer that names another operation is no evidence of a submission",
    file: settlement,
    from: "findContradiction(names, { id, reference: null })",
    to: "findContradiction({ ...names, operation_id: id }, { id, reference: null })",
    tests: [
      postgres(
        "services/queue/ForeignEvidence",
        "is indeterminate if the answer to a submission names another operation id"
      )
    ]
  },
  {
    rule: "an interruption while sending is always uncertain",
    file: settlement,
    from: "  return isSending\n    ? uncertain(",
    to: "  return isSending && !isStopped\n    ? uncertain(",
    tests: [unit("submission/attempts/Settlement")]
  },
  {
    rule: "an error of an unknown kind is always uncertain",
    file: settlement,
    from: "return uncertain(\"the adapter failed with an error of an unknown kind\")",
    to: "return returned(\"the adapter failed with an error of an unknown kind\")",
    tests: [unit("submission/attempts/Settlement")]
  },
  {
    rule: "not found proves nothing about an indeterminate operation",
    file: decision,
    from: " || !provesNeverReceived(due, answer, promises)) {",
    to: ") {",
    tests: [unit("submission/reads/ReconcilerRules")]
  },
  {
    rule: "never received counts only if the provider has not acknowledged",
    file: decision,
    from: "if (due.acknowledged || !provesNeverReceived",
    to: "if (!provesNeverReceived",
    tests: [unit("submission/reads/ReconcilerRules")]
  },
  {
    rule: "a status answer that names another operation proves nothing",
    file: decision,
    from: "  if (contradiction !== null) return",
    to: "  if (contradiction?.member === \"reference\") return",
    tests: [postgres("services/queue/ForeignEvidence", "is only a review if a status read names another operation id")]
  },
  {
    rule: "after a revocation the worker never begins another attempt",
    file: attempts,
    from:
      "  if (mayStillSend === false) return yield* new AuthorizationRevoked()\n  if (mayStillSend === true && (yield*",
    to: "  if (mayStillSend !== null && (yield*",
    tests: [
      unit("submission/attempts/PaymentsAfterRevocation", "and no byte of it reaches the provider that comes up later")
    ]
  },
  {
    rule: "without an answer of the database the worker never begins another attempt",
    file: attempts,
    from:
      "Effect.as(logFailure(\"Could not ask whether an operation may still be sent; it is not sent for now\", cause), null)",
    to:
      "Effect.as(logFailure(\"Could not ask whether an operation may still be sent; it is not sent for now\", cause), true)",
    tests: [unit("submission/attempts/PaymentsAfterRevocation", "it sends nothing while the store does not answer")]
  },
  {
    rule: "no attempt begins after the send deadline",
    file: attempts,
    from: "if ((yield* elapsed(askedAt)) >= Duration.toMillis(policy.sendWithin)) {",
    to: "if ((yield* elapsed(askedAt)) >= Duration.toMillis(policy.rescueAfter)) {",
    tests: [unit("submission/attempts/SubmissionWorker"), unit("submission/attempts/LocalFailures")]
  },
  {
    rule: "no attempt follows one that may have sent a byte",
    file: attempts,
    from:
      "else if (error._tag === \"NotSent\" && error.isLocal !== true && error.isPermanent !== true) failure = error",
    to: "else if (error._tag === \"Uncertain\") failure = local(error.reason)\n"
      + "    else if (error._tag === \"NotSent\" && error.isLocal !== true && error.isPermanent !== true) failure = error",
    tests: [unit("submission/attempts/SubmissionWorker")]
  },
  {
    rule: "an attempt that timed out is always uncertain",
    file: attempts,
    from: "(reason) => Effect.fail(new Uncertain({ reason }))",
    to: "(reason) => Effect.fail(new NotSent({ reason }))",
    tests: [unit("submission/attempts/SubmissionWorker")]
  },
  {
    rule: "the marker of a running attempt is set before the attempt",
    file: attempts,
    from: "  progress.isSending = true\n  return yield* Effect.tapError(\n    attempt(services, timed, payload),",
    to:
      "  return yield* Effect.tapError(\n    Effect.tap(attempt(services, timed, payload), () => Effect.sync(() => {\n"
      + "      progress.isSending = true\n    })),",
    tests: [unit("submission/attempts/SubmissionWorker"), unit("submission/attempts/Drain")]
  },
  {
    rule: "the log tells no outcome that was not recorded",
    file: "src/submission/attempts/SubmissionWorker.ts",
    from: "    Effect.tap(() => logOutcome(",
    to: "    Effect.onExit(() => logOutcome(",
    tests: [unit("submission/attempts/Recording", "rescued")]
  },
  {
    rule: "a failure that an operator can repair, such as a wrong key, ends no operation",
    file: "src/submission/attempts/Settlement.ts",
    from: "  if (isLocal === true) return returned(reason)\n",
    to: "",
    tests: [unit("submission/attempts/LocalFailures", "ends none of 200 operations")]
  },
  {
    rule: "a claim is returned only while it is held: a stale one is left to the rescuer",
    file: "src/submission/attempts/SubmissionWorker.ts",
    from: "(yield* elapsed(askedAt)) < Duration.toMillis(policy.rescueAfter) && ",
    to: "",
    tests: [
      unit("submission/attempts/Recording"),
      unit("submission/attempts/SubmissionWorker"),
      unit("submission/attempts/LocalFailures")
    ]
  },
  {
    rule: "a late outcome of a sent operation is always reported",
    file: "src/submission/attempts/SubmissionWorker.ts",
    from: "() => settlement.isSent ? withinStore(outcomes.report(id, reference)) : Effect.void",
    to: "() => Effect.void",
    tests: [unit("submission/attempts/Recording"), unit("submission/attempts/SubmissionWorker")]
  },
  {
    rule: "a status read belongs to one reader at most",
    file: statusReads,
    from:
      "      AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}\n"
      + "    FOR UPDATE OF o SKIP LOCKED",
    to: "      AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}",
    tests: [postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")]
  },
  {
    rule: "a held operation is examined by one reader at most",
    file: statusReads,
    from: "      AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}\n    FOR UPDATE OF o SKIP LOCKED",
    to: "      AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}",
    tests: [postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")]
  },
  {
    rule: "a status is read only while a grant allows it",
    file: statusReads,
    from:
      "SET due_at = now() + CASE WHEN due.active THEN ${millis(\"$2\")} ELSE ${idle(\"$3\")} END, waiting = NOT due.active,\n      reads = ${countRead}, reading_since = ${readingSince},\n      ${reviewAfter",
    to:
      "SET due_at = now() + ${millis(\"$2\")},\n      reads = ${countRead}, reading_since = ${readingSince},\n      ${reviewAfter",
    tests: [postgres("services/queue/StatusReads")]
  },
  {
    rule: "a hint concerns only operations of its provider",
    file: statusReads,
    from: "o.client_id = f.client_id AND o.provider = $1\n",
    to: "o.client_id = f.client_id\n",
    tests: [postgres("services/queue/Hints")]
  },
  {
    rule: "hints ask for a status read at most once an interval",
    file: statusReads,
    from: "${present} + ${millis(\"$3\")}) + ${millis(\"$3\")}) END`",
    to: "${present} + ${millis(\"$3\")})) END`",
    tests: [postgres("services/queue/Hints")]
  },
  {
    rule: "a fence is recorded before it is sent, and needs the authorization of a submission each time",
    file: fences,
    from:
      "  if ((yield* withinStore(statusReads.mayFence(due))) === null) return notSent(\"nothing allows to send the operation\")\n",
    to: "",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "a fence begins in the ledger by the read that precedes it",
    file: fences,
    from: "  const fence_started_at = yield* withinStore(services.statusReads.mayFence(due))\n",
    to: "  const fence_started_at = null\n",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "the answer of a read from before a fence is not recorded",
    file: "src/services/sql/queue/SqlOutcomes.ts",
    from: "      AND (i.is_read IS NOT TRUE OR o.fence_started_at IS NOT DISTINCT FROM i.fence_started_at)\n",
    to: "",
    tests: [postgres("services/queue/Fences", "refuses what a read")]
  },
  {
    rule: "a read from before a fence leaves no reference",
    file: statusReads,
    from: "    AND (NOT $9::boolean OR o.fence_started_at IS NOT DISTINCT FROM $10::timestamptz)\n",
    to: "",
    tests: [postgres("services/queue/Fences", "refuses what a read")]
  },
  {
    rule: "a reconciler says with an outcome whether it read before a fence",
    file: "src/submission/reads/Reconciler.ts",
    from: "send_before, fence_started_at, ...reversible }",
    to: "send_before, ...reversible }",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "a person is asked about an old fence",
    file: "src/submission/reads/Reconciler.ts",
    from: "DateTime.isLessThan(taken_at, oldFrom)",
    to: "!DateTime.isLessThan(taken_at, oldFrom)",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "a fence is never sent to a paused provider",
    file: fences,
    from: "  if (pause !== null) return notSent(`the provider is paused: ${pause}`)\n",
    to: "",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "a fenced operation is never read by its key",
    file: "src/domain/Submission.ts",
    from: "fence_started_at !== null && !acknowledged\n",
    to: "fence_started_at !== null && acknowledged\n",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "the \"not found\" of a proxy begins no fence",
    file: "src/submission/reads/Reconciler.ts",
    from: "answer?._tag === \"NotFound\" && answer.evidence !== null",
    to: "answer?._tag === \"NotFound\"",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "an order of a fence that is not cancelled is no proof",
    file: "src/submission/http/HttpProvider.ts",
    from: "holder._tag === \"Unnamed\" || !holder.isCancelled) return stillWaits",
    to: "holder._tag === \"Unnamed\") return stillWaits",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "a fence never begins before clocks agree that send_before has passed",
    file: statusReads,
    from: "o.send_before < now() - ${millis(String(longestSkew))}",
    to: "o.send_before < now()",
    tests: [postgres("services/queue/Fences")]
  },
  {
    rule: "only an indeterminate operation is fenced",
    file: statusReads,
    from: "o.revision = $2 AND o.state = 'indeterminate' AND o.reference IS NULL",
    to: "o.revision = $2 AND o.reference IS NULL",
    tests: [postgres("services/queue/Fences")]
  },
  {
    rule: "a fence needs a grant with all scopes of the accepting one",
    file: statusReads,
    from: "o.due_at > now() AND ${standing(\"send\")}",
    to: "o.due_at > now() AND ${standing(\"read\")}",
    tests: [postgres("services/queue/Fences")]
  },
  {
    rule: "a fence of another beginning ends no operation, in the database too",
    file: "migrations/0031_fenced_operations.sql",
    from: "evidence ->> 'fence_started_at'\n      = to_char",
    to: "evidence ->> 'fence_started_at'\n      <= to_char",
    tests: [postgres("services/queue/Fences", "fails only by a fence of that beginning")]
  },
  {
    rule: "no status read ends a fenced operation whose order the provider has not named",
    file: "migrations/0031_fenced_operations.sql",
    from: "NEW.state = 'succeeded' OR OLD.acknowledged END",
    to: "true END",
    tests: [postgres("services/queue/Fences", "fails only by a fence of that beginning")]
  },
  {
    rule:
      "the answer to a person from before a minute after the end of a fence ends no operation as failed, in the database too",
    file: "migrations/0031_fenced_operations.sql",
    from: "::timestamptz >= OLD.fencing_until + interval '1 minute'",
    to: "::timestamptz >= OLD.fencing_until",
    tests: [postgres("services/queue/Fences", "fails only by a fence of that beginning")]
  },
  {
    rule: "a person ends no operation while its fence may be under way",
    file: "src/domain/operators/validateAskedAt.ts",
    from: "fencing_until !== null && now < fencing_until",
    to: "fencing_until !== null && now > fencing_until",
    tests: [
      unit("domain/OperatorEvidence", "after the last fence"),
      postgres("services/queue/Fences", "by an answer from after")
    ]
  },
  {
    rule: "an answer from before a minute after the end of a fence ends no operation as failed",
    file: "src/domain/operators/validateAskedAt.ts",
    from: "fencing_until !== null && at < fencing_until + tolerance",
    to: "fencing_until !== null && at < fencing_until",
    tests: [
      unit("domain/OperatorEvidence", "after the last fence"),
      postgres("services/queue/Fences", "by an answer from after")
    ]
  },
  {
    rule: "the ledger records until when a fence may be sent",
    file: statusReads,
    from: "greatest(o.fencing_until, o.due_at)",
    to: "coalesce(o.fencing_until, o.due_at)",
    tests: [postgres("services/queue/Fences", "by an answer from after its last fence")]
  },
  {
    rule: "the ledger in memory records until when a fence may be sent",
    file: "src/services/memory/MemoryStatusReads.ts",
    from: "Math.max(record.fencing_until?.epochMilliseconds ?? 0, record.due_at!)",
    to: "record.fencing_until?.epochMilliseconds ?? record.due_at!",
    tests: [
      postgres("services/queue/Fences", "by an answer from after its last fence"),
      unit("submission/reads/Fences", "however often")
    ]
  },
  {
    rule: "a person ends no fenced operation whose fence is sent meanwhile",
    file: "src/services/sql/ledger/SqlOperationLedger.ts",
    from: "AND NOT ($7::boolean AND",
    to: "AND NOT (NOT $7::boolean AND",
    tests: [postgres("services/queue/Fences", "is sent meanwhile")]
  },
  {
    rule: "a person ends no operation while its fence may be under way, in the database too",
    file: "migrations/0031_fenced_operations.sql",
    from: "OLD.fencing_until <= now()",
    to: "OLD.fencing_until IS NOT NULL",
    tests: [postgres("services/queue/Fences", "fails only by a fence of that beginning")]
  },
  {
    rule: "the lease of a read covers all of its pages",
    file: "src/submission/reads/Reconciler.ts",
    from: "? Duration.sum(policy.readTimeout, Duration.times",
    to: "? Duration.sum(Duration.zero, Duration.times",
    tests: [unit("submission/reads/Reconciler", "gives all pages of a read")]
  },
  {
    rule: "the lease of a read covers the whole time of a fence",
    file: "src/submission/reads/Reconciler.ts",
    from: "providers.get(provider)?.fence === undefined",
    to: "providers.get(provider)?.fence !== undefined",
    tests: [unit("submission/reads/Fences", "leaves only while")]
  },
  {
    rule: "no fence leaves after the time that its lease has for it",
    file: "src/submission/http/HttpProvider.ts",
    from: "      const notAfter = yield* SendDeadline\n",
    to: "      const notAfter = null\n",
    tests: [unit("banks/Fences", "sends nothing once")]
  },
  {
    rule: "a reader that took the operation too long ago sends no fence",
    file: fences,
    from: " && held < within",
    to: "",
    tests: [unit("submission/reads/Fences", "too long ago")]
  },
  {
    rule: "an operation that was sent to another account is not asked about",
    file: "src/submission/reads/askForStatus.ts",
    from: "!mayBeOfAccount(due, adapter)",
    to: "!mayBeOfAccount({ provider_account: null }, adapter)",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "\"not found\" proves nothing of an operation whose account is not known",
    file: "src/submission/reads/askForStatus.ts",
    from: "given?._tag === \"NotFound\" ? { ...given, evidence: null } : given",
    to: "given",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "a worker names its account in each claim",
    file: "src/submission/attempts/claimOperations.ts",
    from: "providers.get(provider)?.account",
    to: "undefined",
    tests: [unit("submission/reads/Fences")]
  },
  {
    rule: "the account of a claim that may have been sent never changes",
    file: "migrations/0032_provider_accounts.sql",
    from: "OLD.return_reason IS NOT NULL AND NEW.return_reason IS NULL",
    to: "true",
    tests: [postgres("services/queue/Fences", "account")]
  },
  {
    rule: "the beginning of a fence never changes",
    file: "migrations/0029_fences.sql",
    from: "IF OLD.fence_started_at IS NOT NULL AND NEW.fence_started_at IS DISTINCT FROM OLD.fence_started_at THEN",
    to: "IF NEW.fence_started_at > now() + interval '1 day' THEN",
    tests: [postgres("services/queue/Fences")]
  },
  {
    rule: "the console knows until when a fence may be under way",
    file: "console/operation/AdvanceDialog.tsx",
    from: "fencing_until: schedule.fencing_until === null ? null :",
    to: "fencing_until: schedule.fencing_until !== null ? null :",
    tests: [long("console/Actions", "that records a failure is refused")]
  },
  {
    rule: "the database keeps the end of the last fence",
    file: "migrations/0029_fences.sql",
    from: "NEW.fencing_until >= greatest(OLD.fencing_until, OLD.due_at)",
    to: "NEW.fencing_until IS NOT NULL",
    tests: [postgres("services/queue/Fences", "refuses any other record")]
  },
  {
    rule: "the database lets only the reader of an operation send its fence",
    file: "migrations/0029_fences.sql",
    from: " AND OLD.due_at > now()) IS NOT TRUE",
    to: ") IS NOT TRUE",
    tests: [postgres("services/queue/Fences", "refuses any other record")]
  },
  {
    rule: "the database refuses a fence before send_before",
    file: "migrations/0029_fences.sql",
    from: "IF (OLD.send_before < clock_timestamp()) IS NOT TRUE THEN",
    to: "IF OLD.send_before IS NULL THEN",
    tests: [postgres("services/queue/Fences")]
  }
]
