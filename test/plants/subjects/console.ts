/** Mistakes in the console, in its access, and in what operators are told. */
import { long, type Plant, postgres, system, unit } from "../Plant.ts"

const guard = "src/operator/console/ConsoleGuard.ts"
const sessions = "src/operator/console/access/Sessions.ts"
const link = "src/operator/console/access/OneTimeLinkAccess.ts"
const oidc = "src/operator/console/access/OidcAccess.ts"
const cookies = "src/operator/console/access/ConsoleAddress.ts"

export const console: ReadonlyArray<Plant> = [
  {
    rule: "an operation that waits for an approval is in no queue of held ones",
    file: "src/services/sql/operators/searchStatements.ts",
    from: "held: `${isHeld} AND NOT ${needsDecision}`",
    to: "held: isHeld",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")]
  },
  {
    rule: "the overview names only operations that a lost worker may have claimed",
    file: "console/overview/openClaims.ts",
    from: "<= Date.parse(by.seen_at) + lostAfter",
    to: "<= Infinity",
    tests: [long("console/States", "lost worker")]
  },
  {
    rule: "the headline counts a lost worker that may have claimed operations",
    file: "console/overview/ProblemsPanel.tsx",
    from: "const count = problems.length + lost.length",
    to: "const count = problems.length",
    tests: [long("console/States", "counts a lost worker")]
  },
  {
    rule: "the overview counts the operations that wait for an approval as the queues do",
    file: "src/domain/operators/FiguresForm.ts",
    from: "named(\"held\", standing.filter(({ condition }) => condition === \"held\"))",
    to: "named(\"held\", figures.held)",
    tests: [unit("domain/OverviewColumns")]
  },
  {
    rule: "the overview shows the columns that have operations",
    file: "console/overview/ConditionsPanel.tsx",
    from: "figures.columns.some((column) => column.name === name)",
    to: "figures.columns.length > 0 && name !== undefined",
    tests: [long("console/States", "counts the operations by state as the plot does")]
  },
  {
    rule: "terms that a search by payee showed are not offered again",
    file: "console/parts/Terms.tsx",
    from: "terms: { ...before.terms, ...terms }",
    to: "terms: before.terms",
    tests: [long("console/ConsolePages", "offers to show no terms again")]
  },
  {
    rule: "operators are told of operations that an outage of their provider ended",
    file: "src/domain/operators/findProblems.ts",
    from: "    ...outageProblems(figures),\n",
    to: "",
    tests: [unit("cli/status/StatusProblems", "that an outage of their provider ended")]
  },
  {
    rule: "the queue of failed operations has those of the last 24 hours",
    file: "src/services/sql/operators/searchSources.ts",
    from: "o.updated_at > now() - interval '24 hours'",
    to: "o.updated_at > now() - interval '48 hours'",
    tests: [system("cli/OperationLists", "prints the operations that match all filters")]
  },
  {
    rule: "a worker without a WORKER_ID has one short name",
    file: "src/domain/operators/workerName.ts",
    from: "process_id.slice(0, 8)",
    to: "process_id",
    tests: [unit("cli/status/StatusProblems", "one short name")]
  },
  {
    rule: "after a fence a person gives the time of the answer",
    file: "console/operation/AdvanceDialog.tsx",
    from: "schedule.fencing_until === null\n",
    to: "schedule.fencing_until !== undefined\n",
    tests: [long("console/Actions", "a fence may be under way")]
  },
  {
    rule: "a pause for one operation is no problem once none waits",
    file: "src/domain/operators/findProblems.ts",
    from: "!isOfOperation(reason) || unsentOf(figures, provider) > 0",
    to: "!isOfOperation(reason) || unsentOf(figures, provider) >= 0",
    tests: [unit("cli/status/StatusProblems", "caused a pause")]
  },
  {
    rule: "an operation that nothing allows to send or to read stands under that condition alone",
    file: "src/services/sql/operators/figureStatements.ts",
    from: "ELSE state END, -1 FROM stopped",
    to: "ELSE state END, 0 FROM stopped",
    tests: [postgres("services/operators/LedgerFigures")]
  },
  {
    rule: "an operation that waits for an approval stands under that condition alone",
    file: "src/services/sql/operators/figureStatements.ts",
    from: "SELECT provider, 'held', -1 FROM undecided",
    to: "SELECT provider, 'held', 0 FROM undecided",
    tests: [postgres("services/ledger/ApprovalsInPostgres", "wait in a queue of operators")]
  },
  {
    rule: "late work of operations that nothing allows is no further problem",
    file: "src/domain/operators/findProblems.ts",
    from: "return count > told &&",
    to: "return count > 0 && told >= 0 &&",
    tests: [unit("cli/status/StatusProblems", "nothing allows")]
  },
  {
    rule: "operations whose status nothing allows to read are a problem at any age",
    file: "src/domain/operators/findProblems.ts",
    from: "unread: Duration.zero",
    to: "unread: Duration.hours(1)",
    tests: [unit("cli/status/StatusProblems")]
  },
  {
    rule: "a provider that no running worker serves is a problem",
    file: "src/domain/operators/findProblems.ts",
    from: "!isTerminal(state) && !served.has(provider)",
    to: "!isTerminal(state) && served.has(provider)",
    tests: [unit("cli/status/StatusProblems")]
  },
  {
    rule: "of a claimed operation it is open whether its request has left",
    file: "src/domain/operators/nextAction.ts",
    from: "has claimed it to send it. Whether its request has left is open until an outcome is recorded.",
    to: "has claimed it and may have sent it. It records the outcome.",
    tests: [unit("domain/NextAction", "names its worker")]
  },
  {
    rule: "operators are told when claimed operations of a provider that does not answer end",
    file: "src/domain/operators/nextAction.ts",
    from: "isAway(pause) ? `Its provider is paused: ${pause}. ${end} ${lost}` : lost",
    to: "lost",
    tests: [unit("domain/NextAction")]
  },
  {
    rule: "status tells when claimed operations of a provider that does not answer end",
    file: "src/domain/operators/findProblems.ts",
    from: "    ? endOfClaims(claims)\n",
    to: "    ? endOfClaims(undefined)\n",
    tests: [unit("cli/status/StatusProblems", "does not answer end")]
  },
  {
    rule: "a returned claim is none that permits sending",
    file: "src/services/sql/operators/figureStatements.ts",
    from: "o.return_reason IS NULL AND o.send_before > now() AS claimed",
    to: "o.send_before > now() AS claimed",
    tests: [postgres("services/operators/OperationViews", "until when it may be sent")]
  },
  {
    rule: "no worker is asked for where one runs",
    file: "src/domain/operators/findProblems.ts",
    from: "seen.some(({ pauses }) => pauses[provider] === null)",
    to: "seen.some(({ pauses }) => pauses[provider] === \"\")",
    tests: [unit("cli/status/StatusProblems", "where one runs"), unit("cli/status/StatusProblems", "is taken over")]
  },
  {
    rule: "each cause of a pause has its own next step",
    file: "src/domain/operators/nextAction.ts",
    from: "^status 40[13]",
    to: "^status 40[134]",
    tests: [unit("cli/status/StatusProblems")]
  },
  {
    rule: "an operation that nothing allows to send is a condition of its provider",
    file: "src/services/sql/operators/figureStatements.ts",
    from: "const stops = { unauthorized: \"o.state = 'accepted'\"",
    to: "const stops = { unauthorized: \"o.state = 'submitting'\"",
    tests: [postgres("services/operators/OperationViews", "waits, is listed and counted as")]
  },
  {
    rule: "every answer of the admin listener has its request id",
    file: "src/operator/AdminServer.ts",
    from: "return Effect.map(answer(handled, request), finish)",
    to:
      "return Effect.map(answer(handled, request), (response) => response.status < 400 ? response : finish(response))",
    tests: [unit("operator/AdminServer", "gives every answer the request id")]
  },
  {
    rule: "the problems of the admin listener never replace those of the public one",
    file: "src/operator/AdminServer.ts",
    from: "Layer.fresh(Problems.layer)",
    to: "Problems.layer",
    tests: [unit("operator/AdminServer", "share no route")]
  },
  {
    rule: "a failure of the console's API is a complete problem with the failures of its fields",
    file: guard,
    from: "answerEndpointFailure(problems, cause, options)",
    to: "answerFailure(problems, cause)",
    tests: [unit("operator/console/ConsoleGuard", "do not meet the contract")]
  },
  {
    rule: "a request that changes something always has an anti-forgery token",
    file: guard,
    from: "if (!changesNothing(method) && !isSameSecret(",
    to: "if (!changesNothing(method) && headers[csrfHeader] !== undefined && !isSameSecret(",
    tests: [unit("operator/console/ConsoleGuard")]
  },
  {
    rule: "a page of another origin never learns whether there is a session",
    file: guard,
    from:
      "      if (isForeign(address, method, headers)) return yield* problems.fail(\"foreign_origin\")\n      const session = yield* findSession(request)\n"
      + "      if (session === null) return yield* problems.fail(\"no_session\")\n",
    to:
      "      const session = yield* findSession(request)\n      if (session === null) return yield* problems.fail(\"no_session\")\n"
      + "      if (isForeign(address, method, headers)) return yield* problems.fail(\"foreign_origin\")\n",
    tests: [unit("operator/console/ConsoleGuard")]
  },
  {
    rule: "a request that changes something always has an Origin",
    file: guard,
    from: "return origin === undefined ? !changesNothing(method) : origin !==",
    to: "return origin === undefined ? false : origin !==",
    tests: [unit("operator/console/ConsoleGuard")]
  },
  {
    rule: "an automatic request never prolongs a session",
    file: guard,
    from: "sessions.find(id, { prolongs: !isAutomatic(headers) })",
    to: "sessions.find(id, { prolongs: true })",
    tests: [unit("operator/console/ConsoleGuard")]
  },
  {
    rule: "a session always ends by its age",
    file: sessions,
    from: "Math.min(entry.expiresAt.epochMilliseconds, entry.usedAt + maxIdle)",
    to: "entry.usedAt + maxIdle",
    tests: [unit("operator/console/Sessions")]
  },
  {
    rule: "an ended session is never found",
    file: sessions,
    from: "    removeEnded()\n    const entry = entries.get(digestOf(id))",
    to: "    const entry = entries.get(digestOf(id))",
    tests: [unit("operator/console/Sessions")]
  },
  {
    rule: "a link opens the console at most once",
    file: link,
    from: "      digest = null\n      return true",
    to: "      return true",
    tests: [unit("operator/console/OneTimeLink")]
  },
  {
    rule: "a link opens the console only within its time",
    file: link,
    from: "if (digest === null || !isValid() || !isSameSecret",
    to: "if (digest === null || !isSameSecret",
    tests: [unit("operator/console/OneTimeLink")]
  },
  {
    rule: "only an operator with the role signs in",
    file: oidc,
    from: "if (hasRole(claims, settings.roleClaim, settings.role)) return",
    to: "if (hasRole(claims, settings.roleClaim, settings.role) || operator !== \"unknown\") return",
    tests: [unit("operator/console/OidcAccess")]
  },
  {
    rule: "only the browser that began a sign-in finishes it",
    file: oidc,
    from: "if (attempt === null || !isSameSecret(answer.get(\"state\") ?? \"\", attempt.state)) {",
    to: "if (attempt === null) {",
    tests: [unit("operator/console/OidcAccess")]
  },
  {
    rule: "a sign-in leads only to paths of the console",
    file: "src/operator/console/access/OidcIssuer.ts",
    from: "path !== undefined && nextPattern.test(path) && !hasDotSegment(path) ? path",
    to: "path !== undefined && nextPattern.test(path) ? path",
    tests: [unit("operator/console/OidcAccess")]
  },
  {
    rule: "an email names an operator only if it is verified",
    file: "src/operator/console/access/OidcAccess.ts",
    from: "email_verified === true ? email : undefined",
    to: "email_verified === false ? undefined : email",
    tests: [unit("operator/console/ConsoleSettings")]
  },
  {
    rule: "a sign-in always ends the session before it",
    file: "src/operator/console/access/signIn.ts",
    from: "    if (old !== null) yield* sessions.end(old)\n",
    to: "",
    tests: [unit("operator/console/OneTimeLink"), unit("operator/console/OidcAccess")]
  },
  {
    rule: "no script reads the cookies of the console",
    file: cookies,
    from: "    httpOnly: true,\n",
    to: "",
    tests: [
      unit("operator/console/OneTimeLink"),
      unit("operator/console/OidcAccess"),
      unit("operator/console/ConsoleGuard")
    ]
  },
  {
    rule: "a cookie that is given twice never counts",
    file: cookies,
    from: "return values.length === 1 && values[0]!",
    to: "return values.length >= 1 && values[0]!",
    tests: [
      unit("operator/console/ConsoleGuard"),
      unit("operator/console/OneTimeLink"),
      unit("operator/console/OidcAccess")
    ]
  },
  {
    rule: "a claimed payment whose request may have left is never announced as unsent alone",
    file: "src/domain/operators/nextAction.ts",
    from: "\"If a request has left, and no answer comes, it becomes indeterminate, and status reads settle it. ",
    to: "\"",
    tests: [unit("domain/NextAction", "a claim that permits sending to a provider that does not answer")]
  }
]
