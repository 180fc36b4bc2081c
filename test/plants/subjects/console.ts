/** Mistakes in the console, in its access, and in what operators are told. */
import { long, type Plant, plant, postgres, system, unit } from "../Plant.ts"

const figureStatements = "src/services/sql/operators/figureStatements.ts"
const findProblems = "src/domain/operators/findProblems.ts"
const nextAction = "src/domain/operators/nextAction.ts"
const guard = "src/operator/console/ConsoleGuard.ts"
const sessions = "src/operator/console/access/Sessions.ts"
const link = "src/operator/console/access/OneTimeLinkAccess.ts"
const oidc = "src/operator/console/access/OidcAccess.ts"
const cookies = "src/operator/console/access/ConsoleAddress.ts"

export const console: ReadonlyArray<Plant> = [
  plant(
    "an operation that waits for an approval is in no queue of held ones",
    "src/services/sql/operators/searchStatements.ts"
  )
    .edit("held: `${isHeld} AND (o.hold_outlasts_approval OR NOT ${needsDecision})`", "held: isHeld")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant("the overview names only operations that a lost worker may have claimed", "console/overview/openClaims.ts")
    .edit("<= Date.parse(by.seen_at) + lostAfter", "<= Infinity")
    .foundBy(long("console/States", "lost worker")),
  plant("an action is refused only if the API says so with a declared code", "console/operation/useConfirmation.ts")
    .edit("refused !== undefined && refused.code in instead ? refused", "refused !== undefined ? refused")
    .foundBy(long("console/ActionResults", "is unknown after any answer but a refusal of the API")),
  plant("the headline counts a lost worker that may have claimed operations", "console/overview/ProblemsPanel.tsx")
    .edit("const count = problems.length + lost.length", "const count = problems.length")
    .foundBy(long("console/States", "counts a lost worker")),
  plant(
    "the overview counts the operations that wait for an approval as the queues do",
    "src/domain/operators/FiguresForm.ts"
  )
    .edit(
      "named(\"held\", standing.filter(({ condition }) => condition === \"held\"))",
      "named(\"held\", figures.held)"
    )
    .foundBy(unit("domain/operators/OverviewColumns")),
  plant("the overview shows the columns that have operations", "console/overview/ConditionsPanel.tsx")
    .edit("figures.columns.some((column) => column.name === name)", "figures.columns.length > 0 && name !== undefined")
    .foundBy(long("console/States", "counts the operations by state as the plot does")),
  plant("terms that a search by payee showed are not offered again", "console/parts/Terms.tsx")
    .edit("terms: { ...before.terms, ...terms }", "terms: before.terms")
    .foundBy(long("console/ConsolePages", "offers to show no terms again")),
  plant("operators are told of operations that an outage of their provider ended", findProblems)
    .edit("    ...outageProblems(figures),\n", "")
    .foundBy(unit("domain/operators/FindProblems", "that an outage of their provider ended")),
  plant("the queue of failed operations has those of the last 24 hours", "src/services/sql/operators/searchSources.ts")
    .edit("o.updated_at > now() - interval '24 hours'", "o.updated_at > now() - interval '48 hours'")
    .foundBy(system("cli/OperationLists", "prints the operations that match all filters")),
  plant("a worker without a WORKER_ID has one short name", "src/domain/operators/workerName.ts")
    .edit("process_id.slice(0, 8)", "process_id")
    .foundBy(unit("domain/operators/FindProblems", "one short name")),
  plant("a person gives the time of the answer", "console/operation/AdvanceDialog.tsx")
    .edit(
      "question: last_read?.question ?? \"\",",
      "question: last_read?.question ?? \"\", asked_at: \"2026-11-22T12:00:00\","
    )
    .foundBy(long("console/Actions", "a fence may be under way")),
  plant("a pause for payloads is no problem once none waits", findProblems)
    .edit(
      "!isOfPayload(reason) || unsentOf(figures, provider) > 0",
      "!isOfPayload(reason) || unsentOf(figures, provider) >= 0"
    )
    .foundBy(unit("domain/operators/FindProblems", "caused a pause")),
  plant("an operation that nothing allows to send or to read stands under that condition alone", figureStatements)
    .edit("ELSE state END, -1 FROM stopped", "ELSE state END, 0 FROM stopped")
    .foundBy(postgres("services/operators/LedgerFigures")),
  plant("an operation that waits for an approval stands under that condition alone", figureStatements)
    .edit("SELECT provider, 'held', -1 FROM undecided", "SELECT provider, 'held', 0 FROM undecided")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant("an operation that waits for an approval stands under held while an operator holds it", figureStatements)
    .edit(" AND NOT o.hold_outlasts_approval AS only_waits", " AS only_waits")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant(
    "the hold of an operator on an operation that waits is shown after a failover, too",
    "src/services/sql/operators/OperatorRow.ts"
  )
    .edit("${heldByOperator} AS by_operator", "(${needsDecision} AND ${heldByOperator}) AS by_operator")
    .foundBy(postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")),
  plant("an operation that waits for an approval can be held after a failover, too", "console/operation/actions.ts")
    .edit(
      "operation.state === \"accepted\" && !schedule.hold?.by_operator",
      "operation.state === \"accepted\" && schedule.hold?.kind !== \"failover\" && !schedule.hold?.by_operator"
    )
    .foundBy(long("console/Actions", "is offered after a failover")),
  plant("operations whose status nothing allows to read are a problem at any age", findProblems)
    .edit("unread: Duration.zero", "unread: Duration.hours(1)")
    .foundBy(unit("domain/operators/FindProblems")),
  plant("a provider that no running worker serves is a problem", findProblems)
    .edit("!tellsNone && !served.has(provider)", "!tellsNone && served.has(provider)")
    .foundBy(unit("domain/operators/FindProblems")),
  plant("of a claimed operation it is open whether its request has left", nextAction)
    .edit(
      "has claimed it to send it. Whether its request has left is open until an outcome is recorded.",
      "has claimed it and may have sent it. It records the outcome."
    )
    .foundBy(unit("domain/operators/NextAction", "names its worker")),
  plant("operators are told when claimed operations of a provider that does not answer end", nextAction)
    .edit("isAway(pause) ? `Its provider is paused: ${pause}. ${end} ${lost}` : lost", "lost")
    .foundBy(unit("domain/operators/NextAction")),
  plant("status tells when claimed operations of a provider that does not answer end", findProblems)
    .edit("    ? endOfClaims(claims)\n", "    ? endOfClaims(undefined)\n")
    .foundBy(unit("domain/operators/FindProblems", "does not answer end")),
  plant("a returned claim is none that permits sending", figureStatements)
    .edit("o.return_reason IS NULL AND o.send_before > now() AS claimed", "o.send_before > now() AS claimed")
    .foundBy(postgres("services/operators/OperationViews", "until when it may be sent")),
  plant("no worker is asked for where one runs", findProblems)
    .edit(
      "seen.some(({ pauses }) => pauses[provider] === null)",
      "seen.some(({ pauses }) => pauses[provider] === \"\")"
    )
    .foundBy(
      unit("domain/operators/FindProblems", "where one runs"),
      unit("domain/operators/FindProblems", "is taken over")
    ),
  plant("each cause of a pause has its own next step", nextAction)
    .edit("^status 40[13]", "^status 40[134]")
    .foundBy(unit("domain/operators/FindProblems")),
  plant("an operation that nothing allows to send is a condition of its provider", figureStatements)
    .edit(
      "unauthorized: { states: \"o.state = 'accepted'\"",
      "unauthorized: { states: \"o.state = 'submitting'\""
    )
    .foundBy(postgres("services/operators/OperationViews", "waits, is listed and counted as")),
  plant("a missing payload key is never told as missing consent", "src/services/sql/queue/SqlClaims.ts")
    .edit("waiting = true, lacks_key = due.is_allowed", "waiting = true, lacks_key = false")
    .foundBy(postgres("services/operators/OperationViews", "is keyless or unauthorized")),
  plant("a returned claim tells that its payload key is missing", "src/services/sql/queue/SqlClaims.ts")
    .edit("${idle(\"$5\")}, lacks_key = due.is_allowed", "${idle(\"$5\")}")
    .foundBy(postgres("services/operators/OperationViews", "is not to be cancelled while")),
  plant("a return forgets that a payload key was missing before", "src/services/sql/queue/SqlClaims.ts")
    .edit("lacks_key = false, ${", "${")
    .foundBy(postgres("services/operators/OperationViews", "is not to be cancelled while")),
  plant("missing consent is never told as a missing payload key", "src/services/sql/queue/SqlClaims.ts")
    .edit("waiting = true, lacks_key = due.is_allowed", "waiting = true, lacks_key = true")
    .foundBy(postgres("services/operators/OperationViews", "is keyless or unauthorized")),
  plant("an operation without a payload key is no unauthorized one", "src/services/sql/operators/figureStatements.ts")
    .edit("reason: \"AND NOT o.lacks_key\"", "reason: \"\"")
    .foundBy(postgres("services/operators/OperationViews", "is keyless or unauthorized")),
  plant("operations that are put off hide no late work", findProblems)
    .edit(
      "!isTold(provider, dueWorkTexts[work].of)",
      "countOf(figures, provider, \"unread\") === 0 && !isTold(provider, dueWorkTexts[work].of)"
    )
    .foundBy(unit("domain/operators/FindProblems", "however many operations are put off")),
  plant("every answer of the admin listener has its request id", "src/operator/AdminServer.ts")
    .edit(
      "return Effect.map(answer(handled, request), finish)",
      "return Effect.map(answer(handled, request), (response) => response.status < 400 ? response : finish(response))"
    )
    .foundBy(unit("operator/AdminServer", "gives every answer the request id")),
  plant("the problems of the admin listener never replace those of the public one", "src/operator/AdminServer.ts")
    .edit("Layer.fresh(Problems.layer)", "Problems.layer")
    .foundBy(unit("operator/AdminServer", "share no route")),
  plant("a failure of the console's API is a complete problem with the failures of its fields", guard)
    .edit("answerEndpointFailure(problems, cause, options)", "answerFailure(problems, cause)")
    .foundBy(unit("operator/console/ConsoleGuard", "do not meet the contract")),
  plant("a request that changes something always has an anti-forgery token", guard)
    .edit(
      "if (!changesNothing(method) && !isSameSecret(",
      "if (!changesNothing(method) && headers[csrfHeader] !== undefined && !isSameSecret("
    )
    .foundBy(unit("operator/console/ConsoleGuard")),
  plant("a page of another origin never learns whether there is a session", guard)
    .edit(
      "      if (isForeign(address, method, headers)) return yield* problems.fail(\"foreign_origin\")\n      const session = yield* findSession(request)\n" +
        "      if (session === null) return yield* problems.fail(\"no_session\")\n",
      "      const session = yield* findSession(request)\n      if (session === null) return yield* problems.fail(\"no_session\")\n" +
        "      if (isForeign(address, method, headers)) return yield* problems.fail(\"foreign_origin\")\n"
    )
    .foundBy(unit("operator/console/ConsoleGuard")),
  plant("a request that changes something always has an Origin", guard)
    .edit(
      "return origin === undefined ? !changesNothing(method) : origin !==",
      "return origin === undefined ? false : origin !=="
    )
    .foundBy(unit("operator/console/ConsoleGuard")),
  plant("an automatic request never prolongs a session", guard)
    .edit("sessions.find(id, { prolongs: !isAutomatic(headers) })", "sessions.find(id, { prolongs: true })")
    .foundBy(unit("operator/console/ConsoleGuard")),
  plant("a session always ends by its age", sessions)
    .edit("Math.min(entry.expiresAt.epochMilliseconds, entry.usedAt + maxIdle)", "entry.usedAt + maxIdle")
    .foundBy(unit("operator/console/access/Sessions")),
  plant("an ended session is never found", sessions)
    .edit(
      "    removeEnded()\n    const entry = entries.get(digestOf(id))",
      "    const entry = entries.get(digestOf(id))"
    )
    .foundBy(unit("operator/console/access/Sessions")),
  plant("a link opens the console at most once", link)
    .edit("      digest = null\n      return true", "      return true")
    .foundBy(unit("operator/console/access/OneTimeLink")),
  plant("a link opens the console only within its time", link)
    .edit("if (digest === null || !isValid() || !isSameSecret", "if (digest === null || !isSameSecret")
    .foundBy(unit("operator/console/access/OneTimeLink")),
  plant("only an operator with the role signs in", oidc)
    .edit(
      "if (hasRole(claims, settings.roleClaim, settings.role)) return",
      "if (hasRole(claims, settings.roleClaim, settings.role) || operator !== \"unknown\") return"
    )
    .foundBy(unit("operator/console/access/OidcAccess")),
  plant("only the browser that began a sign-in finishes it", oidc)
    .edit(
      "if (attempt === null || !isSameSecret(answer.get(\"state\") ?? \"\", attempt.state)) {",
      "if (attempt === null) {"
    )
    .foundBy(unit("operator/console/access/OidcAccess")),
  plant("a sign-in through an issuer takes less than ten minutes", "src/operator/console/access/OidcIssuer.ts")
    .edit("Number(end) > clock.currentTimeMillisUnsafe()", "Number(end) >= clock.currentTimeMillisUnsafe()")
    .foundBy(unit("operator/console/access/OidcAccess")),
  plant("the page of the console is in no cache", "src/operator/console/ConsoleRoutes.ts")
    .edit("name === \"index.html\" ? asset", "name === \"\" ? asset")
    .foundBy(unit("operator/console/PageRoutes")),
  plant("a sign-in leads only to paths of the console", "src/operator/console/access/OidcIssuer.ts")
    .edit(
      "path !== undefined && nextPattern.test(path) && !hasDotSegment(path) ? path",
      "path !== undefined && nextPattern.test(path) ? path"
    )
    .foundBy(unit("operator/console/access/OidcAccess")),
  plant("an email names an operator only if it is verified", oidc)
    .edit("email_verified === true ? email : undefined", "email_verified === false ? undefined : email")
    .foundBy(unit("operator/console/ConsoleSettings")),
  plant("a sign-in always ends the session before it", "src/operator/console/access/signIn.ts")
    .edit("    if (old !== null) yield* sessions.end(old)\n", "")
    .foundBy(unit("operator/console/access/OneTimeLink"), unit("operator/console/access/OidcAccess")),
  plant("no script reads the cookies of the console", cookies)
    .edit("    httpOnly: true,\n", "")
    .foundBy(
      unit("operator/console/access/OneTimeLink"),
      unit("operator/console/access/OidcAccess"),
      unit("operator/console/ConsoleGuard")
    ),
  plant("a cookie that is given twice never counts", cookies)
    .edit("return values.length === 1 && values[0]!", "return values.length >= 1 && values[0]!")
    .foundBy(
      unit("operator/console/ConsoleGuard"),
      unit("operator/console/access/OneTimeLink"),
      unit("operator/console/access/OidcAccess")
    ),
  plant("a claimed payment whose request may have left is never announced as unsent alone", nextAction)
    .edit("\"If a request has left, and no answer comes, it becomes indeterminate, and status reads settle it. ", "\"")
    .foundBy(unit("domain/operators/NextAction", "a claim that permits sending to a provider that does not answer")),
  plant("a hold, a release and a cancellation in the console have a reason", "src/operator/console/ConsoleApi.ts")
    .edit("!needsReason.includes(action)", "action !== undefined")
    .foundBy(unit("operator/console/performAction", "is refused without a reason")),
  plant("the console lists the latest failures first", "src/operator/console/ConsoleHandlers.ts")
    .edit("queue === undefined || queue === \"failed\"", "queue === undefined")
    .foundBy(unit("operator/console/performAction", "lists what waits for people by its age"))
]
