/** Mistakes in the actions of operators, in their commands, in roles and in what is logged. */
import { long, type Plant, plant, postgres, story, system, unit } from "../Plant.ts"

const findProblems = "src/domain/operators/findProblems.ts"
const operationSearch = "src/services/operators/OperationSearch.ts"
const actions = "src/services/operators/OperatorActions.ts"
const records = "src/services/sql/actionRecords.ts"
const table = "migrations/0012_operator_actions.sql"
const roles = "src/services/sql/roles.ts"
const terms = [postgres("services/ledger/Terms")]

export const operators: ReadonlyArray<Plant> = [
  plant("no operation that a lost worker may have sent is said to wait", findProblems)
    .edit("  - (claimsOf(figures, provider)?.lost ?? 0)\n", "")
    .foundBy(unit("domain/operators/FindProblems", "lost worker of a paused provider")),
  plant("returned claims are said to tell why, although nothing is paused", findProblems)
    .edit("Each of them tells why its claim was returned, if it was: repair that. ", "")
    .foundBy(unit("domain/operators/FindProblems", "is taken over")),
  plant("due reads of successes are figures of the ledger", "src/services/sql/operators/figureStatements.ts")
    .edit("reversal_reads o WHERE true", "reversal_reads o WHERE false")
    .foundBy(postgres("services/queue/Reversals", "due reads that no worker makes")),
  plant("a success that may be reversed is work for a worker", findProblems)
    .edit("work === \"read_success\")\n  const sum", "work === \"rescue\")\n  const sum")
    .foundBy(unit("domain/operators/FindProblems", "that no worker reads")),
  plant("a problem of the oldest operation says that its number counts young ones, too", findProblems)
    .edit("count === 1 ? \"\" : \", young ones included\"", "\"\"")
    .foundBy(unit("domain/operators/FindProblems", "the age of the oldest")),
  plant("a problem says neither that a claimed operation was sent nor that it was not", findProblems)
    .edit("whether a request has left is open until its try ends", "it may have been sent")
    .foundBy(unit("domain/operators/FindProblems", "that does not answer end")),
  plant(
    "a claim that permits no sending any more counts as lost, a returned one never",
    "src/services/sql/operators/figureStatements.ts"
  )
    .edit(
      "o.return_reason IS NULL AND o.send_before <= now() AS lost",
      "o.send_before <= now() + interval '1 hour' AS lost"
    )
    .foundBy(postgres("services/operators/OperationViews", "until when it may be sent")),
  plant("a read that an operator asks for is due now", actions)
    .edit("{ operation_id: id }, Duration.zero)", "{ operation_id: id }, Duration.hours(1))")
    .foundBy(postgres("services/operators/OperatorActions", "next status read due now")),
  plant("an operation that was not sent has no status to read", actions)
    .edit("if (row === undefined || state === \"accepted\" && row.is_unsent) return", "if (row === undefined) return")
    .foundBy(postgres("services/operators/OperatorActions", "next status read due now")),
  plant("the end of a review keeps the question to the provider", records)
    .edit("CASE WHEN $3 = 'end_review' THEN", "CASE WHEN $3 = 'none' THEN")
    .foundBy(postgres("services/operators/OperatorActions", "keeps the question to the provider")),
  plant("a number in place of an amount is told the form of the text", "src/domain/InvalidMember.ts")
    .edit("typeof expected === \"string\"", "typeof expected === \"number\"")
    .foundBy(unit("domain/InvalidMember", "the form of the text")),
  plant("a variable that is not set is told with what to do", "src/node/process/failureLine.ts")
    .edit("is not set: set it in the environment of this process", "is not set")
    .foundBy(unit("node/process/failureLine", "is not set and what to do")),
  plant("operators tell a provider's own not found from that of a wrong path", "src/submission/reads/Reconciler.ts")
    .edit("answer.evidence === null ? unproven : \"not found\"", "\"not found\"")
    .foundBy(unit("submission/providers/ProviderPromises", "of a wrong path")),
  plant("a check of an action takes back what the ledger did", actions)
    .edit("sql.withTransaction(Effect.flip(actAt(...called)))", "Effect.flip(actAt(...called))")
    .foundBy(postgres("services/operators/OperatorActions", "which a check tells before")),
  plant("advance names all that a call lacks at once", "src/cli/operations/advance.ts")
    .edit("isTo(\"failed\") && Option.isNone(failureMessage)", "isTo(\"cancelled\") && Option.isNone(failureMessage)")
    .foundBy(system("cli/OperatorCommands", "changes nothing without --apply")),
  plant("a call that lacks several required flags is told all of them", "src/cli/Output.ts")
    .edit("missing.length < 2", "missing.length < 9")
    .foundBy(system("cli/Commands", "all required flags that lack")),
  plant("an action by filters changes nothing without --apply", "src/cli/operations/selection.ts")
    .edit("apply ? act(summary) : check(summary)", "found.length > 0 ? act(summary) : check(summary)")
    .foundBy(system("cli/OperatorCommands", "changes nothing without --apply")),
  plant("operators read until when an operation may be sent only before it is settled", "src/cli/operations/show.ts")
    .edit("...isTerminal(operation.state) ? [] : instantFact(", "...instantFact(")
    .foundBy(unit("cli/screen/Rendering", "unless it is settled")),
  plant("the record of a refused action says that it was refused", "src/cli/operations/show.ts")
    .edit("`${outcome}: ${result}`", "result")
    .foundBy(unit("cli/screen/Rendering", "done or refused")),
  plant("the record of an action that changed nothing is no refusal", "src/domain/operators/recordTexts.ts")
    .edit("(nothingToDo).includes(result)", "(nothingToDo).includes(\"\")")
    .foundBy(unit("cli/screen/Rendering", "done or refused")),
  plant("a list cuts no code of a failure", "src/cli/operations/list.ts")
    .edit("least: codeWidth(operations)", "least: 6")
    .foundBy(unit("cli/screen/Rendering", "cuts no code of a failure")),
  plant("status shows a lost worker for as long as the console does", "src/cli/status/StatusCommand.ts")
    .edit("seen_at.epochMilliseconds < shownAfterReport", "seen_at.epochMilliseconds < Infinity")
    .foundBy(unit("cli/status/Status", "ten minutes after its last report")),
  plant("a held operation that may have been sent is never said to be unsent", actions)
    .edit("state === \"accepted\" && row.is_unsent", "state === \"accepted\"")
    .foundBy(postgres("services/operators/OperatorActions", "reads a held operation that may have been sent")),
  plant("the history says that a rescue may have moved the end of sending", "src/cli/operations/show.ts")
    .edit("note: moveOfDeadline(entry)", "note: null")
    .foundBy(unit("cli/screen/Rendering", "moved the end of sending")),
  plant("a command that may not be the first refuses a directory without a database", "src/cli/program.ts")
    .edit(
      "const ExistingDatabase = flagged({ mustExist: true })",
      "const ExistingDatabase = flagged({ mustExist: false })"
    )
    .foundBy(system("cli/Commands", "refuses a directory without a database")),
  plant("a code says that nothing was sent only if no request left", "src/domain/GatewayFailures.ts")
    .edit("    \"provider_unreachable\",\n", "    \"provider_unreachable\",\n    \"provider_unavailable\",\n")
    .foundBy(unit("domain/GatewayFailures", "are unsent if no request left")),
  plant("a misspelt setting is named at the start", "src/cli/program.ts")
    .edit("warnOfMisspeltSettings.pipe(", "Effect.void.pipe(")
    .foundBy(system("cli/Commands", "warns of a misspelt setting")),
  plant("a short variable of another program is no misspelt setting", "src/node/process/misspeltSettings.ts")
    .edit("setting.length < 7 ? 0", "setting.length < 4 ? 0")
    .foundBy(unit("node/process/misspeltSettings", "no variables of other programs")),
  plant("a command says in text that an action changed nothing", "src/cli/operations/OperationsCommand.ts")
    .edit("result !== \"done\"", "result === \"\"")
    .foundBy(system("cli/OperatorCommands", "is recorded with the name and the reason")),
  plant("a role that may not migrate is told what to set", "src/node/GatewayApp.ts")
    .edit("const insufficientPrivilege = \"42501\"", "const insufficientPrivilege = \"42502\"")
    .foundBy(system("node/GatewayApp", "documented roles")),
  plant("the client on fetch checks each member of the contract", "src/client/answerMembers.ts")
    .edit("  revision: \"number\",\n", "")
    .foundBy(unit("package/Surface", "has the members that the client on fetch checks")),
  plant("an application can provide each service whose layers the API index lists", "src/server/Gateway.ts")
    .edit("export { TokenCipher }", "export type { TokenCipher }")
    .foundBy(unit("package/Surface", "has the value of each service whose layers it lists")),
  plant("the message of a problem names its fields", "src/client/problemText.ts")
    .edit("detail === named ? \"\" : ` ${named}`", "detail === named ? \"\" : \"\"")
    .foundBy(unit("client/FetchClient", "names the fields of a problem")),
  plant("a refused connection names the setting of its role", "src/node/postgres/DatabaseRoles.ts")
    .edit("setting: variables[role]", "setting: \"DATABASE_URL\"")
    .foundBy(system("cli/Commands", "names the setting of a database")),
  plant("administration connects as the role that the documentation names", "src/cli/database/SchemaCommands.ts")
    .edit("Layer.provide(databaseAs(\"writer\"))", "Layer.provide(databaseAs(\"reader\"))")
    .foundBy(system("cli/Commands", "names the setting of a database")),
  plant("migrations connect as the owner", "src/cli/database/SchemaCommands.ts")
    .edit("Layer.provide(MigrationPool, databaseAs(\"owner\"))", "MigrationPool")
    .foundBy(system("cli/Commands", "names the setting of a database")),
  plant("privileges that are granted again take no right to check DPoP proofs", "src/services/sql/roles.ts")
    .edit("...closedTables]\n", "...Object.keys(proofTables), ...closedTables]\n")
    .foundBy(system("services/Roles", "but for the reader's right to check proofs")),
  plant("a repeated cancellation is not recorded as done", actions)
    .edit(
      "operation.revision === before?.revision ? nothingToDo.cancelled : \"done\"",
      "operation.revision === before?.revision ? \"done\" : \"done\""
    )
    .foundBy(postgres("services/operators/OperatorActions", "does what the ledger does")),
  plant("a repeated hold or release is not recorded as done", actions)
    .edit("before?.may_hold === true : before?.is_free === false", "before !== undefined : before !== undefined")
    .foundBy(postgres("services/operators/OperatorActions", "holds what is held")),
  plant("a list says whether its last column has codes of failures", "src/cli/operations/list.ts")
    .edit("if (failed.length === 0) return", "if (failed.length < 9) return")
    .foundBy(unit("cli/screen/Rendering", "heads the last column")),
  plant("an operation that failed before it was sent is shown as never sent", "src/cli/operations/show.ts")
    .edit("isUnsentFailure(operation.failure.code) ?", "!isUnsentFailure(operation.failure.code) ?")
    .foundBy(unit("cli/screen/Rendering", "never sent, if its code")),
  plant("an action on all operations needs a reason", "src/cli/operations/OperationsCommand.ts")
    .edit("if (Option.isNone(flags.reason))", "if (false)")
    .foundBy(system("cli/OperatorCommands", "is recorded with the name and the reason")),
  plant("an age counts by the clock of the database", "src/services/sql/operators/searchStatements.ts")
    .edit(
      "now() - ${millis(add(Duration.toMillis(query.unchanged_for)))}",
      "${add(new Date(Date.now() - Duration.toMillis(query.unchanged_for)))}::timestamptz"
    )
    .foundBy(system("cli/OperationLists", "takes an age from the clock of the database")),
  plant("a hold of all operations tells how many claims it ended", "src/services/sql/queue/SqlHolds.ts")
    .edit("indeterminate: ended.length", "indeterminate: 0")
    .foundBy(postgres("services/operators/OperatorActions", "on all operations is recorded with their number")),
  plant("the record of a hold of all counts the claims that it ended", actions)
    .edit("=> held + indeterminate)", "=> held)")
    .foundBy(postgres("services/operators/OperatorActions", "on all operations is recorded with their number")),
  plant("the records of an operation have the actions on all since its creation", actions)
    .edit("action IN ('hold_all', 'release_all')", "action IN ('none')")
    .foundBy(system("cli/OperatorCommands", "is recorded with the name and the reason")),
  plant("a taken port is named before an embedded database starts", "src/cli/program.ts")
    .edit("Effect.as(requireFree(addresses), database)", "Effect.as(requireFree([]), database)")
    .foundBy(system("cli/Serve", "names a port that is taken")),
  plant("a taken port of an application is named before its embedded database starts", "src/node/GatewayApp.ts")
    .edit("    yield* requirePorts(options, settings)\n", "")
    .foundBy(system("cli/Serve", "names a port that is taken")),
  plant("no secret of the folder enters the image of a project", "template/.dockerignore")
    .edit("**/.env*\n", "")
    .foundBy(system("cli/Init", "copies the template")),
  plant("no secret of the folder enters the repository of a project", "template/gitignore")
    .edit(".env*\n", "")
    .foundBy(system("cli/Init", "copies the template")),
  plant("init writes nothing if the Node of npm is too old for the project", "src/cli/InitCommand.ts")
    .edit("    yield* requireProjectNode\n", "")
    .foundBy(system("cli/Init", "copies the template")),
  plant("a line of the demo has the time at which it is printed", "src/cli/serve/Demo.ts")
    .edit("formatIso(yield* DateTime.now).slice", "formatIso(operation.updated_at).slice")
    .foundBy(long("embedded/Demo")),
  plant("a later start of the demo prints no line for what is settled", "src/cli/serve/Demo.ts")
    .edit("approval?.state === \"pending\"", "approval?.state !== \"denied\"")
    .foundBy(long("embedded/Demo")),
  plant("a list names the pause that an operation waits for", "src/cli/operations/list.ts")
    .edit("  if (pause !== undefined) return shortPause(pause)\n", "")
    .foundBy(unit("cli/operations/NextText", "names the pause")),
  plant("an amount with too many digits is named by its member", "src/domain/Terms.ts")
    .edit("path: [\"amount\"]", "path: []")
    .foundBy(unit("domain/Terms", "fails at its member")),
  plant("the client warns of each request of an iteration that keeps failing", "src/client/FetchClient.ts")
    .edit("    if (failures === 1) hasWarned = false\n", "")
    .foundBy(unit("client/FetchClient", "warns once of a request")),
  plant("the client warns of a request that keeps failing", "src/client/FetchClient.ts")
    .edit("hasWarned || elapsed + pause < warnAfter", "hasWarned || elapsed + pause > warnAfter")
    .foundBy(unit("client/FetchClient", "warns once of a request")),
  plant("a question to a provider counts in the state in which it arose", "src/services/sql/queueFragments.ts")
    .edit("(o.last_read ->> 'at')::float8 >= ${", "(o.last_read ->> 'at')::float8 + 1e15 >= ${")
    .foundBy(postgres("services/operators/OperationViews", "has an operator next while it has a question")),
  plant("the record of an outcome needs a reason", "migrations/0021_operator_advances.sql")
    .edit("CHECK (action <> 'advance' OR reason IS NOT NULL)", "CHECK (action <> '' OR reason IS NOT NULL)")
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("an outcome that an operator records has the name and the reason of the operator in its evidence", actions)
    .edit("recorded = { by: \"operator\", operator: name, reason }", "recorded = { by: name, reason }")
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("an operation whose status nothing allows to read is found", "src/services/sql/queue/SqlStatusReads.ts")
    .edit(" waiting = NOT due.active,", "")
    .foundBy(postgres("services/operators/OperationViews", "waits, is listed and counted as")),
  plant("a list ends with a full page, also if it may look at further operations", operationSearch)
    .edit("found.length === limit) break", "matches.length > left) break")
    .foundBy(long("costs/OperationSearchCost", "is one statement if the first has as many")),
  plant("an operation that was claimed waits no more", "migrations/0022_pauses.sql")
    .edit("  NEW.waiting := false;\n", "")
    .foundBy(postgres("services/operators/OperationViews", "waits, is listed and counted as")),
  plant("an operator sees no terms without a record", actions)
    .edit("        if (rows.length > 0) {\n", "        if (rows.length > 1000) {\n")
    .foundBy(...terms),
  plant("reads of operators mask the amount", "src/domain/Terms.ts")
    .edit("=> ({\n  amount: mask,", "=> ({\n  amount: `${mask}${currency}`,")
    .foundBy(...terms),
  plant("a ciphertext of a payload is never read as terms", "src/services/PayloadCipher.ts")
    .edit("part === \"payload\" ? id : `${id} ${part}`", "part === \"payload\" ? id : id")
    .foundBy(...terms),
  plant("invalid terms never keep a repetition from its operation", "src/services/sql/ledger/SqlAcceptances.ts")
    .edit(
      "const unsendable = earlier === undefined ? refusalOf(prepared, provider) : undefined",
      "const unsendable = refusalOf(prepared, provider)"
    )
    .foundBy(...terms),
  plant("terms end with the payload only if the type says so", "migrations/0024_payee_index.sql")
    .edit("OR NEW.erases_terms AND NEW.state IN", "OR NEW.state IN")
    .foundBy(...terms),
  plant("the end of the terms erases what finds their payee", "migrations/0024_payee_index.sql")
    .edit("  NEW.payee_index := NULL;\n", "")
    .foundBy(...terms),
  plant("a payee is found only with a key of its operation", "src/services/PayloadCipher.ts")
    .edit(
      "Mac.key(Mac.hmacSha256, yield* kdf.derive(Kdf.hkdfSha256, Redacted.value(key.key), options))",
      "Mac.key(Mac.hmacSha256, macInfo)"
    )
    .foundBy(...terms),
  plant("a search by payee is recorded", operationSearch)
    .edit("if (query.payee === undefined || page", "if (query.payee !== undefined || page")
    .foundBy(...terms),
  plant(
    "the database refuses the evidence of an operator that an operation failed which may still be sent",
    "migrations/0025_sendable_operations.sql"
  )
    .edit("OLD.send_before > now()", "OLD.send_before < now()")
    .foundBy(postgres("services/ledger/Cancellation", "is refused by the database, if a person says")),
  plant(
    "an operator records no failure while a request may still be sent",
    "src/services/sql/ledger/SqlOperationLedger.ts"
  )
    .edit("coalesce(o.send_before <= now(), true)", "coalesce(o.send_before <= now(), true) OR true")
    .foundBy(story("an uncertain operation does not fail")),
  plant("an endpoint gives the ledger the terms that it declares", "src/server/mutations/MutationEndpoints.ts")
    .edit("termsOf === null ? undefined : termsIn(termsOf, payload as never)", "undefined")
    .foundBy(system("examples/paymentsEndpoint", "the terms of the payment")),
  plant("a tool of agents gives the ledger the terms that it declares", "src/server/agents/MutationTool.ts")
    .edit("...terms === undefined ? {} : { terms: termsIn(terms, payload) }", "")
    .foundBy(long("examples/paymentsTool", "accepts a confirmed payment once")),
  plant("the terms that an operator sees are in no log", actions)
    .edit(
      "const shown = yield* Effect.forEach(rows, (row) => openTerms(...sealedTermsOf(row)))",
      "const shown = yield* Effect.tap(Effect.forEach(rows, (row) => openTerms(...sealedTermsOf(row))), Effect.logDebug)"
    )
    .foundBy(postgres("services/ledger/PayloadSecrecy", "are in no span and no log either")),
  plant("an action happens only at the revision that the operator saw", actions)
    .edit(
      "  if (row.revision !== expected) return yield* new StaleOperation",
      "  if (row.revision < expected) return yield* new StaleOperation"
    )
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("the revision that an operator saw stays until the action", actions)
    .edit("WHERE o.id = $1 FOR NO KEY UPDATE`", "WHERE o.id = $1`")
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("an action happens only together with its record", actions)
    .edit(
      "      orUnavailable(sql.withTransaction(\n        Effect.tap(all, (changed) => record(operator, { action, affected: countOf(changed), result: \"done\" }))\n      ))",
      "      Effect.tap(all, (changed) => record(operator, { action, affected: countOf(changed), result: \"done\" }))"
    )
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("a refused action is always recorded", records)
    .edit(
      "error instanceof StoreUnavailable ? Effect.void : record(error.message)",
      "error instanceof StoreUnavailable ? Effect.void : Effect.void"
    )
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("the record of actions is append-only", table)
    .edit(
      "CREATE TRIGGER operator_actions_permanent BEFORE UPDATE OR DELETE OR TRUNCATE",
      "CREATE TRIGGER operator_actions_permanent BEFORE DELETE OR TRUNCATE"
    )
    .foundBy(postgres("services/operators/OperatorActions")),
  plant("the reader never writes", roles)
    .edit(
      "      operation_counts: { SELECT: \"all\" },\n      worker_reports: { SELECT: \"all\" },\n",
      "      operation_counts: { SELECT: \"all\", DELETE: true },\n      worker_reports: { SELECT: \"all\" },\n"
    )
    .foundBy(unit("services/sql/roles")),
  plant("the database chooses id and time of an action, never the writer", roles)
    .edit("columns(\"operator via", "columns(\"at operator via")
    .foundBy(unit("services/sql/roles")),
  plant("a token never appears in a path of the log", "src/server/gate/TokenMask.ts")
    .edit("  if (isEncodedToken(before)) return \"…\"\n", "")
    .foundBy(unit("server/gate/TokensInSpans"), postgres("server/Privacy")),
  plant("a confirmation counts only for the request that the person saw", "src/mcp/HumanConfirmation.ts")
    .edit("  if (requestState !== state) return \"confirmation_mismatch\"\n", "")
    .foundBy(long("examples/paymentsTool", "of 2026-07-28 counts for its own payment")),
  plant("an accepted form without the confirmation confirms nothing", "src/mcp/HumanConfirmation.ts")
    .edit("action === \"accept\" && isObject(content) && content[\"confirm\"] === true", "action === \"accept\"")
    .foundBy(long("examples/paymentsTool", "accepts nothing that the person declines")),
  plant("text of a provider never closes a tag in the prompt of a host", "src/mcp/QuotedText.ts")
    .edit("const marks = /[<>&`]/gu", "const marks = /[<&`]/gu")
    .foundBy(unit("mcp/QuotedText")),
  plant("a process with ADMIN_PORT has an admin listener, or does not start", "src/node/process/ProcessSettings.ts")
    .edit("if (admin !== null && hasAdmin === undefined) {", "if (admin === null && hasAdmin !== undefined) {")
    .foundBy(unit("node/GatewayAppParts", "fail to start on an invalid setting")),
  plant("no two rooms of the source import each other", "src/node/http/NodeServer.ts")
    .edit("\"../youngGeneration.ts\"", "\"../process/runProgram.ts\"")
    .foundBy(unit("architecture", "no two rooms import each other, if none is inside the other")),
  plant("each room says what it is", "src/cli/approvals/ApprovalsCommand.ts")
    .edit("The room `cli/approvals`", "The room `approvals`")
    .foundBy(unit("architecture", "each room says in one of its files what it is")),
  plant("a test lies in the room of its source file", "test/unit/domain/Polling.test.ts")
    .edit("\"../../../src/domain/Operation.ts\"", "\"../../../src/services/Polling.ts\"")
    .foundBy(unit("architecture", "lies in the room of that file")),
  plant("no files of the source import each other in a circle", "src/services/GrantBlockers.ts")
    .edit("\"./StoreUnavailable.ts\"", "\"./sql/grants/SqlGrants.ts\"")
    .foundBy(unit("architecture", "no file imports itself, by way of any others")),
  plant("a list of operations shows amount and payee, masked as the ledger gives them", "src/cli/operations/list.ts")
    .edit("text: whatText(operation.type, terms)", "text: operation.type")
    .foundBy(unit("cli/screen/Rendering", "of a list has amount and payee")),
  plant("a person records no code of the gateway as a failure", "src/domain/GatewayFailures.ts")
    .edit("(code) => !isGatewayFailureCode(code), {", "(code) => code !== \"\", {")
    .foundBy(unit("operator/console/performAction", "with a code of the gateway")),
  plant("a value on a bound of a histogram counts in its bucket", "src/metrics/Series.ts")
    .edit("value > bounds[at]!", "value >= bounds[at]!")
    .foundBy(unit("metrics/SubmissionMetrics", "counts in its bucket")),
  plant("a process begins reviews of old operations", "src/submission/attempts/Rescuer.ts")
    .edit(
      "Effect.andThen(Effect.sleep(reviewInterval), Effect.andThen(expireApprovals, review))",
      "Effect.andThen(Effect.sleep(reviewInterval), expireApprovals)"
    )
    .foundBy(unit("submission/attempts/Rescuer", "ends approvals in time")),
  plant("a lost worker pauses no operation", "src/services/sql/operators/OperatorRow.ts")
    .edit(" AND w.seen_at >= now() - ${seenInterval}\n", "\n")
    .foundBy(postgres("services/operators/OperationViews", "while every worker that runs has paused it")),
  plant("a cancelled call of an agent reads no more", "src/mcp/RpcClients.ts")
    .edit("              Effect.onInterrupt(() => interrupt),\n", "")
    .foundBy(unit("mcp/McpConnections", "reads no more")),
  plant("the wait of an agent ends by the monotonic clock", "src/mcp/OperationTools.ts")
    .edit(
      "const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e9",
      "const now = () => clock.currentTimeMillisUnsafe() / 1e3"
    )
    .foundBy(unit("mcp/McpConnections", "while the wall clock steps back")),
  plant("a person finds no form in which the confirmation is filled in", "src/mcp/HumanConfirmation.ts")
    .edit("title: \"I confirm this\" } },", "title: \"I confirm this\", default: true } },")
    .foundBy(unit("mcp/HumanConfirmation", "a form that nothing has filled in")),
  plant("a dropped connection is reported once", "src/node/http/ConnectionLimits.ts")
    .edit("    report(dropped)\n    dropped = 0\n", "    report(dropped)\n")
    .foundBy(unit("node/http/ConnectionLimits", "Dropped connections are reported once each")),
  plant("the answer to a waiting agent quotes the words of a provider", "src/mcp/OperationTools.ts")
    .edit(
      "...adviceOnWait(operation, yield* DateTime.now), operation: quoteFailure(operation) }",
      "...adviceOnWait(operation, yield* DateTime.now), operation }"
    )
    .foundBy(unit("mcp/McpConnections", "quotes the words of a provider")),
  plant("an agent that waits for a final operation gets the answer, and no task", "src/mcp/McpConnections.ts")
    .edit("operation === null || operation.terminal ? null", "operation === null ? null")
    .foundBy(unit("mcp/McpConnections", "makes no task")),
  plant("an agent reads another state of the same revision", "src/mcp/AgentReads.ts")
    .edit("a.revision !== b.revision || a.state !== b.state ||", "a.revision !== b.revision ||")
    .foundBy(unit("mcp/McpConnections", "under the same revision")),
  plant("a fraction is no id of a message", "src/mcp/JsonRpc.ts")
    .edit("Number.isSafeInteger(value)", "typeof value === \"number\"")
    .foundBy(unit("mcp/Messages", "a request may have the id")),
  plant("no sandbox of another host settles operations of a database", "src/cli/work/WorkCommand.ts")
    .edit("if (!isEmbedded && !loopbackHosts", "if (isEmbedded && !loopbackHosts")
    .foundBy(system("cli/Work", "reports invalid flags")),
  plant("held operations are releasable once the last of them is", "src/services/sql/operators/searchStatements.ts")
    .edit("max(o.send_before) FILTER", "min(o.send_before) FILTER")
    .foundBy(postgres("services/operators/HeldOperations"))
]
