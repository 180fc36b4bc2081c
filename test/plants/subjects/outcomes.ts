/** Mistakes in attempts, evidence and status reads: an uncertain outcome stays uncertain until evidence ends it. */
import { type Plant, plant, postgres, story, unit } from "../Plant.ts"

const askForStatus = "src/submission/reads/askForStatus.ts"
const submissionWorker = "src/submission/attempts/SubmissionWorker.ts"
const outcomesFile = "src/services/sql/queue/SqlOutcomes.ts"
const settlement = "src/submission/attempts/Settlement.ts"
const decision = "src/submission/reads/decideAfterRead.ts"
const attempts = "src/submission/attempts/attemptUntilSent.ts"
const statusReads = "src/services/sql/queue/SqlStatusReads.ts"
const memoryClaims = "src/services/memory/MemoryClaims.ts"
const lateProof = "src/submission/lateProof.ts"
const promisesFile = "src/submission/providers/ProviderPromises.ts"

export const outcomes: ReadonlyArray<Plant> = [
  plant("an adapter may say a common failure in words of its own", "src/domain/GatewayFailures.ts")
    .edit("{ ...commonFailures, ...failures }", "{ ...failures, ...commonFailures }")
    .foundBy(unit("submission/providers/AnswerRecord")),
  plant("a common code needs no declaration", "src/domain/GatewayFailures.ts")
    .edit("{ ...commonFailures, ...failures }", "{ ...failures }")
    .foundBy(unit("submission/providers/AnswerRecord")),
  plant("a record of an earlier claim is never applied", outcomesFile)
    .edit("      AND (i.send_before IS NULL OR o.send_before = i.send_before)\n", "")
    .foundBy(
      story("a returned claim gives no right to send"),
      postgres("services/queue/OutcomeBatches", "records each outcome")
    ),
  plant("a record is applied only at its revision", outcomesFile)
    .edit(
      "WHERE o.revision = i.revision AND o.return_reason IS NULL",
      "WHERE o.revision >= i.revision AND o.return_reason IS NULL"
    )
    .foundBy(story("recorded through submitting"), postgres("services/queue/OutcomeBatches", "records each outcome")),
  plant("a returned claim records nothing", outcomesFile)
    .edit("WHERE o.revision = i.revision AND o.return_reason IS NULL", "WHERE o.revision = i.revision")
    .foundBy(story("a returned claim gives no right to send")),
  plant("an outcome with another reference than the stored one is never recorded", outcomesFile)
    .edit("      AND coalesce(o.reference = i.reference, true)\n", "")
    .foundBy(story("an operation keeps its first reference")),
  plant("a not found ends nothing that the provider has acknowledged meanwhile", outcomesFile)
    .edit("OR NOT o.acknowledged AND o.sent_as IS", "OR o.sent_as IS")
    .foundBy(postgres("services/queue/LateProof", "has acknowledged meanwhile")),
  plant("in memory, a not found ends nothing that the provider has acknowledged meanwhile", memoryClaims)
    .edit("  acknowledged || sent_as !== (", "  sent_as !== (")
    .foundBy(postgres("services/queue/LateProof", "has acknowledged meanwhile")),
  plant(
    "no version ends what the provider has acknowledged as never received",
    "migrations/0049_acknowledged_receipts.sql"
  )
    .edit("WHEN (OLD.acknowledged AND", "WHEN (false AND")
    .foundBy(postgres("services/schema/ForbiddenStatements", "as never received")),
  plant("a locked row delays no other outcome of its batch", outcomesFile)
    .edit("recordInput(\" SKIP LOCKED\")", "recordInput(\"\")")
    .foundBy(postgres("services/queue/OutcomeBatches")),
  plant("an answer that names another operation is no evidence of a submission", settlement)
    .edit(
      "findContradiction(names, { id, reference: null })",
      "findContradiction({ ...names, operation_id: id }, { id, reference: null })"
    )
    .foundBy(postgres("services/queue/ForeignEvidence", "answer to a submission names another operation id")),
  plant("the answer about another operation stays in the history", settlement)
    .edit("describeContradiction(contradiction), answer.evidence)", "describeContradiction(contradiction))")
    .foundBy(unit("submission/attempts/Settlement", "keeps an answer about another operation")),
  plant("the reference that a refusal names is kept", settlement)
    .edit(
      "publicFailure(failures, answer.code) },\n        evidence,\n        reference,",
      "publicFailure(failures, answer.code) },\n        evidence,\n        reference: null,"
    )
    .foundBy(unit("submission/attempts/Settlement", "has the reference that the provider gave")),
  plant("an interruption while sending is always uncertain", settlement)
    .edit("  return isSending\n    ? uncertain(", "  return isSending && !isStopped\n    ? uncertain(")
    .foundBy(unit("submission/attempts/Settlement")),
  plant("an error of an adapter never passes for one of the worker", attempts)
    .edit("        Effect.mapError(ofAdapter),\n", "")
    .foundBy(unit("submission/attempts/SubmissionWorker", "and is not sent again")),
  plant("not found proves nothing about an indeterminate operation", decision)
    .edit(" || !provesNeverReceived(due, answer, promises)) {", ") {")
    .foundBy(unit("submission/reads/ReconcilerRules")),
  plant("never received counts only if the provider has not acknowledged", decision)
    .edit("if (due.acknowledged || !mayProve", "if (!mayProve")
    .foundBy(unit("submission/reads/ReconcilerRules")),
  plant("the evidence of an operation that was never received says until when it could be sent", decision)
    .edit("evidence: { ...evidence, send_before: DateTime.formatIso(send_before!) }", "evidence: { ...evidence }")
    .foundBy(unit("submission/reads/ReconcilerRules", "says of an operation that was never received")),
  plant("a person is asked about an order without a result and a reference", decision)
    .edit("answer.question === undefined && answer.reason !== \"ordered\"", "answer.question === undefined")
    .foundBy(unit("submission/reads/ReconcilerRules", "asks a person about an order")),
  plant("a person is asked no more once the provider has the operation", decision)
    .edit(
      "return { _tag: \"Postpone\", reference, question: null }\n      }\n      const outcome",
      "return { _tag: \"Postpone\", reference }\n      }\n      const outcome"
    )
    .foundBy(unit("submission/reads/ReconcilerRules", "takes the question to a person back")),
  plant("a status answer that names another operation proves nothing", decision)
    .edit("  if (contradiction !== null) return", "  if (contradiction?.member === \"reference\") return")
    .foundBy(postgres("services/queue/ForeignEvidence", "if a status read names another operation id")),
  plant("after a revocation the worker never begins another attempt", attempts)
    .edit(
      "  if (mayStillSend === false) return yield* new AuthorizationRevoked()\n  if (mayStillSend === true && (yield*",
      "  if (mayStillSend !== null && (yield*"
    )
    .foundBy(unit("submission/attempts/PaymentsAfterRevocation", "no byte of it reaches the provider")),
  plant("without an answer of the database the worker never begins another attempt", attempts)
    .edit(
      "Effect.as(logFailure(\"Could not ask whether an operation may still be sent; it is not sent for now\", cause), null)",
      "Effect.as(logFailure(\"Could not ask whether an operation may still be sent; it is not sent for now\", cause), true)"
    )
    .foundBy(unit("submission/attempts/PaymentsAfterRevocation", "it sends nothing while the store does not answer")),
  plant("no attempt begins after the send deadline", attempts)
    .edit(
      "if ((yield* elapsed(askedAt)) >= Duration.toMillis(policy.sendWithin)) {",
      "if ((yield* elapsed(askedAt)) >= Duration.toMillis(policy.rescueAfter)) {"
    )
    .foundBy(unit("submission/attempts/SubmissionWorker"), unit("submission/attempts/LocalFailures")),
  plant("no attempt follows one that may have sent a byte", attempts)
    .edit(
      "else if (error._tag === \"NotSent\" && error.isLocal !== true && error.isPermanent !== true) failure = error",
      "else if (error._tag === \"Uncertain\") failure = local(error.reason)\n" +
        "    else if (error._tag === \"NotSent\" && error.isLocal !== true && error.isPermanent !== true) failure = error"
    )
    .foundBy(unit("submission/attempts/SubmissionWorker")),
  plant("an attempt that timed out is always uncertain", attempts)
    .edit("(reason) => Effect.fail(new Uncertain({ reason }))", "(reason) => Effect.fail(new NotSent({ reason }))")
    .foundBy(unit("submission/attempts/SubmissionWorker")),
  plant("the marker of a running attempt is set before the attempt", attempts)
    .edit(
      "  progress.isSending = true\n  return yield* Effect.tapError(\n    attempt(services, timed, payload),",
      "  return yield* Effect.tapError(\n    Effect.tap(attempt(services, timed, payload), () => Effect.sync(() => {\n" +
        "      progress.isSending = true\n    })),"
    )
    .foundBy(unit("submission/attempts/SubmissionWorker"), unit("submission/attempts/Drain")),
  plant("the log tells no outcome that was not recorded", submissionWorker)
    .edit("    Effect.tap(() => logOutcome(", "    Effect.onExit(() => logOutcome(")
    .foundBy(unit("submission/attempts/Recording", "rescued")),
  plant("the log tells no outcome of a status read that was not recorded", "src/submission/reads/Reconciler.ts")
    .edit("        Effect.tap(() => logOutcome(", "        Effect.onExit(() => logOutcome(")
    .foundBy(unit("submission/LateProof", "is not logged as the outcome")),
  plant("a failure that an operator can repair, such as a wrong key, ends no operation", settlement)
    .edit("  if (isLocal === true) return returned(reason, isOfOperation)\n", "")
    .foundBy(unit("submission/attempts/LocalFailures", "ends none of 200 operations")),
  plant("a claim is returned only while it is held: a stale one is left to the rescuer", submissionWorker)
    .edit("(yield* elapsed(askedAt)) < Duration.toMillis(policy.rescueAfter) && ", "")
    .foundBy(unit("submission/attempts/ClaimReturns", "until it is stale")),
  plant("an outcome is recorded for as long as the store is away", submissionWorker)
    .edit(
      "whileUnavailable(record, mayRepeat)",
      "whileUnavailable(record, Effect.map(elapsed(timed.askedAt), (age) => age < 90_000))"
    )
    .foundBy(unit("submission/attempts/Recording", "away from this worker alone")),
  plant("the log has an answer that the store never took", submissionWorker)
    .edit("isSent ? logLostProof(", "false ? logLostProof(")
    .foundBy(unit("submission/attempts/Recording", "in the log if the store never takes it")),
  plant("a late outcome of a sent operation is always reported", lateProof)
    .edit("claimed_at === undefined\n", "claimed_at !== null\n")
    .foundBy(unit("submission/LateProof", "the answer to a submission holds it")),
  plant("a late outcome is reported until the store takes it", lateProof)
    .edit(
      "yield* whileUnavailable(withinStore(outcomes.report(id, { ...proof, claimed_at })), mayRepeat)",
      "yield* withinStore(outcomes.report(id, { ...proof, claimed_at }))"
    )
    .foundBy(unit("submission/LateProof", "the answer to a submission holds it")),
  plant("the log has a late outcome of an operation that another worker may send again", lateProof)
    .edit("reported?.as === \"claimed\"", "false")
    .foundBy(unit("submission/LateProof", "another worker has claimed it")),
  plant("the log has a late outcome that a report stores nowhere", lateProof)
    .edit("reported === null || reported.isKept ?", "true ?")
    .foundBy(unit("submission/LateProof", "without a reference is in the log")),
  plant("the log has both references of a second order, before the end too", "src/services/rules/contradictions.ts")
    .edit(" || !isTerminal(known.state)) return", ") return")
    .foundBy(unit("submission/LateProof", "with another reference is in the log with both")),
  plant("a late report of another claim begins a review", outcomesFile)
    .edit("false) OR ${isOfOtherClaim},", "false),")
    .foundBy(postgres("services/queue/LateProof", "of another claim than")),
  plant("a late report of the stored claim begins no review", outcomesFile)
    .edit("interval '5 seconds'", "interval '1 millisecond'")
    .foundBy(postgres("services/queue/LateProof", "of another claim than")),
  plant("a status read that finds a held operation is no claim of another worker", outcomesFile)
    .edit("NOT IN ('status_read', 'operator')", "NOT IN ('operator')")
    .foundBy(postgres("services/queue/LateProof", "of a claim that a failover lost")),
  plant("after a late success without a reference, no not found ends the operation", outcomesFile)
    .edit("CASE WHEN $4 THEN NULL ELSE o.sent_as END", "o.sent_as")
    .foundBy(postgres("services/queue/LateProof", "lets no not found")),
  plant("a not found from before a late success ends nothing", outcomesFile)
    .edit("OR NOT o.acknowledged AND o.sent_as IS NOT DISTINCT FROM i.sent_as)", "OR NOT o.acknowledged)")
    .foundBy(postgres("services/queue/LateProof", "lets no not found")),
  plant("in memory, after a late success without a reference, no not found ends the operation", memoryClaims)
    .edit("namesNoOrder(proof) ? null : found.sent_as", "found.sent_as")
    .foundBy(
      unit("submission/LateProof", "no later not found"),
      postgres("services/queue/LateProof", "lets no not found")
    ),
  plant("the log has a late outcome that a stop of the process ends", lateProof)
    .edit(
      "onError((cause) => logLostProof(about, proof, describeCause(cause)))",
      "tapError(() => logLostProof(about, proof, \"\"))"
    )
    .foundBy(unit("submission/LateProof", "the process stops")),
  plant("a proof of a held operation holds it again after a release", "src/submission/reads/Reconciler.ts")
    .edit("claimed_at: due.state === \"accepted\" ? null : undefined", "claimed_at: undefined")
    .foundBy(unit("submission/LateProof", "as a status read holds it")),
  plant("a status read belongs to one reader at most", statusReads)
    .edit(
      "      AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}\n" +
        "    FOR UPDATE OF o SKIP LOCKED",
      "      AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}"
    )
    .foundBy(postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")),
  plant("a held operation is examined by one reader at most", statusReads)
    .edit(
      "      AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}\n    FOR UPDATE OF o SKIP LOCKED",
      "      AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT ${limit}"
    )
    .foundBy(postgres("services/queue/ConcurrentClaims", "is left to the holder of the lock")),
  plant("a status is read only while a grant allows it", statusReads)
    .edit(
      "SET due_at = now() + CASE WHEN due.active THEN ${millis(\"$2\")} ELSE ${idle(\"$3\")} END, waiting = NOT due.active,\n      reads = ${countRead}, reading_since = ${readingSince},\n      ${reviewAfter",
      "SET due_at = now() + ${millis(\"$2\")},\n      reads = ${countRead}, reading_since = ${readingSince},\n      ${reviewAfter"
    )
    .foundBy(story("neither claimed, sent nor read while")),
  plant("a hint by reference concerns the operations that changed last", statusReads)
    .edit(
      "WHERE reference = $2 ORDER BY updated_at DESC, id DESC LIMIT",
      "WHERE reference = $2 ORDER BY updated_at, id LIMIT"
    )
    .foundBy(postgres("services/queue/StatusReads", "is due by a hint, whose reference")),
  plant("a hint concerns only operations of its provider", statusReads)
    .edit("o.client_id = f.client_id AND o.provider = $1\n", "o.client_id = f.client_id\n")
    .foundBy(story("of its provider alone")),
  plant("hints ask for a status read at most once an interval", statusReads)
    .edit("${present} + ${millis(\"$3\")}) + ${millis(\"$3\")}) END`", "${present} + ${millis(\"$3\")})) END`")
    .foundBy(story("hints ask for a status read once an interval")),
  plant("the lease of a read covers all of its pages", "src/submission/reads/Reconciler.ts")
    .edit("? Duration.sum(policy.readTimeout, Duration.times", "? Duration.sum(Duration.zero, Duration.times")
    .foundBy(unit("submission/reads/Reconciler", "gives all pages of a read")),
  plant("an operation that was sent to another account is not asked about", askForStatus)
    .edit("!mayBeOfAccount(due, adapter)", "!mayBeOfAccount({ provider_account: null }, adapter)")
    .foundBy(unit("submission/reads/Fences")),
  plant("\"not found\" proves nothing of an operation whose account is not known", askForStatus)
    .edit("given?._tag === \"NotFound\" ? { ...given, evidence: null } : given", "given")
    .foundBy(unit("submission/reads/Fences")),
  plant("a worker names its account in each claim", "src/submission/attempts/claimOperations.ts")
    .edit("providers.get(provider)?.account", "undefined")
    .foundBy(unit("submission/reads/Fences")),
  plant("\"not found\" proves nothing of what another version of the adapter sent", decision)
    .edit("due.acknowledged || !mayProve || ", "due.acknowledged || ")
    .foundBy(unit("submission/reads/SentAs", "is never proven unsent")),
  plant("\"not found\" ends no held operation", decision)
    .edit("return due.state === \"indeterminate\"\n", "return due.state !== \"submitted\"\n")
    .foundBy(unit("submission/reads/ReconcilerRules", "The decision after a status read")),
  plant("a person is asked about what another version of the adapter sent", promisesFile)
    .edit("due.acknowledged || !due.mayProve || ", "due.acknowledged || ")
    .foundBy(unit("submission/reads/SentAs", "is never proven unsent")),
  plant("what another version of the adapter sent is never fenced", "src/submission/reads/fences.ts")
    .edit(" || !isSentAs(due, adapter)) return", ") return")
    .foundBy(unit("submission/reads/SentAs", "is never fenced, and a person is asked")),
  plant("a worker says in each claim how it sends", "src/submission/attempts/claimOperations.ts")
    .edit("sentAs(providers.get(provider) ?? {})", "null")
    .foundBy(unit("submission/reads/SentAs", "in the same way is proven unsent")),
  plant("an indirect read without an account proves nothing of what another version sent", promisesFile)
    .edit("account === undefined && readByOperationId !== \"indirectly\"", "account === undefined")
    .foundBy(unit("submission/reads/SentAs", "unless the read is indirect")),
  plant("at another base URL an adapter sends in another way", "src/submission/http/HttpProvider.ts")
    .edit("keyIn: `${adapter.baseUrl} ${", "keyIn: `${")
    .foundBy(unit("submission/reads/SentAs", "differs by the base URL")),
  plant("a claim keeps a short text of how the adapter sends", promisesFile)
    .edit("Math.max(keyIn.length, ", "Math.max(")
    .foundBy(unit("submission/reads/SentAs", "refused at the start")),
  plant("a return forgets how the adapter would have sent", "src/services/sql/queue/SqlClaims.ts")
    .edit("SET return_reason = $4, sent_as = NULL, due_at", "SET return_reason = $4, due_at")
    .foundBy(postgres("services/queue/Fences", "how it was sent")),
  plant("the account of a claim that may have been sent never changes", "migrations/0047_sent_as.sql")
    .edit("OLD.return_reason IS NOT NULL AND NEW.return_reason IS NULL", "true")
    .foundBy(postgres("services/queue/Fences", "account")),
  plant(
    "a failure of this machine proves that nothing was sent only while it connects",
    "src/submission/http/HttpExchange.ts"
  )
    .edit("if (syscall === \"connect\" && localCodes.has(code))", "if (localCodes.has(code))")
    .foundBy(unit("submission/http/HttpProviderProperties", "proves nothing otherwise")),
  plant("what a status read finds of a held operation is recorded in full or not at all", outcomesFile)
    .edit("        sql.withTransaction(Effect.andThen(", "        (Effect.andThen(")
    .foundBy(story("in full or not at all")),
  plant("an outcome is recorded in any standing of its client", outcomesFile)
    .edit(
      "    WHERE o.revision = i.revision AND o.return_reason IS NULL\n",
      "    WHERE o.revision = i.revision AND o.return_reason IS NULL\n      AND EXISTS (SELECT FROM clients c WHERE c.id = o.client_id AND c.active)\n"
    )
    .foundBy(story("without any standing")),
  plant("a late report changes no operation that another worker has claimed", outcomesFile)
    .edit(
      "o.state IN ('accepted', 'submitted', 'indeterminate')\n",
      "o.state IN ('accepted', 'submitting', 'submitted', 'indeterminate')\n"
    )
    .foundBy(story("a late report makes a status read due")),
  plant("a late report makes a status read due at once", outcomesFile)
    .edit("SET due_at = now(), reference = coalesce(o.reference, $2)", "SET reference = coalesce(o.reference, $2)")
    .foundBy(story("a late report makes a status read due")),
  plant("a hint leaves an accepted operation alone", statusReads)
    .edit(
      "OR o.state = 'accepted' AND ${claimableTimeline} < (SELECT",
      "OR o.state = 'accepted' AND ${claimableTimeline} <= (SELECT"
    )
    .foundBy(story("a hint leaves alone")),
  plant("a hint during a submission makes the first read due, and not the rescue", statusReads)
    .edit(
      "const underWay = underWayOf(\"WHEN o.state = 'submitting' THEN o.updated_at\")",
      "const underWay = underWayOf(\"\")"
    )
    .foundBy(story("a hint during a submission")),
  plant("a hint during a read starts no second one", statusReads)
    .edit(
      "CASE ${state} WHEN o.due_at > now() THEN o.reading_since END`",
      "CASE ${state} WHEN o.due_at < now() THEN o.reading_since END`"
    )
    .foundBy(story("a hint during a read")),
  plant("a hint never delays a status read", statusReads)
    .edit("IS NULL THEN o.due_at > ${asked} ELSE", "IS NULL THEN true ELSE")
    .foundBy(story("hints ask for a status read once an interval")),
  plant("status reads are taken in the order of their due times", statusReads)
    .edit(
      "AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()\n    ORDER BY o.due_at LIMIT",
      "AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()\n    ORDER BY o.due_at DESC LIMIT"
    )
    .foundBy(story("status reads are taken in the order")),
  plant("a status read belongs to one reader for the lease", statusReads)
    .edit(
      "THEN ${millis(\"$2\")} ELSE ${idle(\"$3\")} END, waiting",
      "THEN ${millis(\"$2\")} / 2 ELSE ${idle(\"$3\")} END, waiting"
    )
    .foundBy(story("a status read belongs to one reader")),
  plant("a status read is postponed at its revision alone", statusReads)
    .edit(
      "  WHERE o.id = $1 AND o.revision = $2\n    AND (NOT $9",
      "  WHERE o.id = $1 AND o.revision >= $2\n    AND (NOT $9"
    )
    .foundBy(story("a status read is postponed at its revision"))
]
