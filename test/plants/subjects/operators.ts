/** Mistakes in the actions of operators, in their commands, in roles and in what is logged. */
import { long, type Plant, postgres, system, unit } from "../Plant.ts"

const actions = "src/services/operators/OperatorActions.ts"
const table = "migrations/0012_operator_actions.sql"
const roles = "src/services/sql/roles.ts"
const terms = [postgres("services/ledger/Terms")]

export const operators: ReadonlyArray<Plant> = [
  {
    rule: "no operation that a lost worker may have sent is said to wait",
    file: "src/domain/operators/findProblems.ts",
    from: "  - (claimsOf(figures, provider)?.lost ?? 0)\n",
    to: "",
    tests: [unit("cli/status/StatusProblems", "lost worker of a paused provider")]
  },
  {
    rule: "a problem of the oldest operation says that its number counts young ones, too",
    file: "src/domain/operators/findProblems.ts",
    from: "count === 1 ? \"\" : \", young ones included\"",
    to: "\"\"",
    tests: [unit("cli/status/StatusProblems", "the age of the oldest")]
  },
  {
    rule: "a problem says neither that a claimed operation was sent nor that it was not",
    file: "src/domain/operators/findProblems.ts",
    from: "whether a request has left is open until its try ends",
    to: "it may have been sent",
    tests: [unit("cli/status/StatusProblems", "that does not answer end")]
  },
  {
    rule: "a claim that permits no sending any more counts as lost, a returned one never",
    file: "src/services/sql/operators/figureStatements.ts",
    from: "o.return_reason IS NULL AND o.send_before <= now() AS lost",
    to: "o.send_before <= now() + interval '1 hour' AS lost",
    tests: [postgres("services/operators/OperationViews", "until when it may be sent")]
  },
  {
    rule: "an advance by filters changes nothing without --apply",
    file: "src/cli/operations/advance.ts",
    from: "      apply\n        ? Effect.as(actions.advance(",
    to: "      found.length > 0\n        ? Effect.as(actions.advance(",
    tests: [system("cli/OperatorCommands", "changes nothing without --apply")]
  },
  {
    rule: "operators read until when an operation may be sent only before it is settled",
    file: "src/cli/operations/show.ts",
    from: "...isTerminal(operation.state) ? [] : instantFact(",
    to: "...instantFact(",
    tests: [unit("cli/screen/Rendering", "unless it is settled")]
  },
  {
    rule: "the record of a refused action says that it was refused",
    file: "src/cli/operations/show.ts",
    from: ": `refused: ${result}`",
    to: ": result",
    tests: [unit("cli/screen/Rendering", "done or refused")]
  },
  {
    rule: "a command that may not be the first refuses a directory without a database",
    file: "src/cli/program.ts",
    from: "const ExistingDatabase = flagged({ mustExist: true })",
    to: "const ExistingDatabase = flagged({ mustExist: false })",
    tests: [system("cli/Commands", "refuses a directory without a database")]
  },
  {
    rule: "a code says that nothing was sent only if no request left",
    file: "src/domain/GatewayFailures.ts",
    from: "    \"provider_unreachable\",\n",
    to: "    \"provider_unreachable\",\n    \"provider_unavailable\",\n",
    tests: [unit("domain/GatewayFailures", "are unsent if no request left")]
  },
  {
    rule: "a pause for one operation ends after the operation waits no more, and not before",
    file: "src/submission/attempts/claimOperations.ts",
    from: "pauses.releaseUnused(provider, probeOf, latestReturn)",
    to: "pauses.release(probeOf)",
    tests: [unit("submission/attempts/LocalFailures", "which ends after the operation is cancelled")]
  },
  {
    rule: "a misspelt setting is named at the start",
    file: "src/cli/program.ts",
    from: "warnOfMisspeltSettings.pipe(",
    to: "Effect.void.pipe(",
    tests: [system("cli/Commands", "warns of a misspelt setting")]
  },
  {
    rule: "a short variable of another program is no misspelt setting",
    file: "src/node/process/misspeltSettings.ts",
    from: "setting.length < 7 ? 0",
    to: "setting.length < 4 ? 0",
    tests: [unit("node/process/misspeltSettings", "no variables of other programs")]
  },
  {
    rule: "a command says in text that an action changed nothing",
    file: "src/cli/operations/OperationsCommand.ts",
    from: "record.result !== \"done\"",
    to: "record.result === \"\"",
    tests: [system("cli/OperatorCommands", "is recorded with the name and the reason")]
  },
  {
    rule: "a role that may not migrate is told what to set",
    file: "src/node/GatewayApp.ts",
    from: "const insufficientPrivilege = \"42501\"",
    to: "const insufficientPrivilege = \"42502\"",
    tests: [system("node/GatewayApp", "documented roles")]
  },
  {
    rule: "the client on fetch checks each member of the contract",
    file: "src/client/members.ts",
    from: "  revision: \"number\",\n",
    to: "",
    tests: [unit("package/Surface", "has the members that the client on fetch checks")]
  },
  {
    rule: "the message of a problem names its fields",
    file: "src/client/problemText.ts",
    from: "detail === named ? \"\" : ` ${named}`",
    to: "detail === named ? \"\" : \"\"",
    tests: [unit("client/FetchClient", "names the fields of a problem")]
  },
  {
    rule: "a refused connection names the setting of its role",
    file: "src/node/postgres/DatabaseRoles.ts",
    from: "setting: variables[role]",
    to: "setting: \"DATABASE_URL\"",
    tests: [system("cli/Commands", "names the setting of a database")]
  },
  {
    rule: "a repeated cancellation is not recorded as done",
    file: actions,
    from: "operation.revision === before ? \"it was cancelled already\" : \"done\"",
    to: "operation.revision === before ? \"done\" : \"done\"",
    tests: [postgres("services/operators/OperatorActions", "does what the ledger does")]
  },
  {
    rule: "a taken port is named before an embedded database starts",
    file: "src/cli/program.ts",
    from: "Effect.as(requireFree(addresses), database)",
    to: "Effect.as(requireFree([]), database)",
    tests: [system("cli/Serve", "names a port that is taken")]
  },
  {
    rule: "a taken port of an application is named before its embedded database starts",
    file: "src/node/GatewayApp.ts",
    from: "    yield* requirePorts(options, settings)\n",
    to: "",
    tests: [system("cli/Serve", "names a port that is taken")]
  },
  {
    rule: "init writes nothing if the Node of npm is too old for the project",
    file: "src/cli/InitCommand.ts",
    from: "    yield* requireProjectNode\n",
    to: "",
    tests: [system("cli/Init", "copies the template")]
  },
  {
    rule: "a line of the demo has the time at which it is printed",
    file: "src/cli/serve/Demo.ts",
    from: "formatIso(yield* DateTime.now).slice",
    to: "formatIso(operation.updated_at).slice",
    tests: [long("embedded/Demo")]
  },
  {
    rule: "a later start of the demo prints no line for what is settled",
    file: "src/cli/serve/Demo.ts",
    from: "approval?.state === \"pending\"",
    to: "approval?.state !== \"denied\"",
    tests: [long("embedded/Demo")]
  },
  {
    rule: "a list names the pause that an operation waits for",
    file: "src/cli/operations/list.ts",
    from: "  if (pause !== undefined) return shortPause(pause)\n",
    to: "",
    tests: [unit("cli/operations/NextText", "names the pause")]
  },
  {
    rule: "an amount with too many digits is named by its member",
    file: "src/domain/Terms.ts",
    from: "path: [\"amount\"]",
    to: "path: []",
    tests: [unit("domain/Terms", "fails at its member")]
  },
  {
    rule: "the client warns of a request that keeps failing",
    file: "src/client/FetchClient.ts",
    from: "hasWarned || elapsed + pause < warnAfter",
    to: "hasWarned || elapsed + pause > warnAfter",
    tests: [unit("client/FetchClient", "warns once of a request")]
  },
  {
    rule: "a question to a provider counts in the state in which it arose",
    file: "src/services/sql/queueFragments.ts",
    from: "(o.last_read ->> 'at')::float8 >= ${",
    to: "(o.last_read ->> 'at')::float8 + 1e15 >= ${",
    tests: [postgres("services/operators/OperationViews", "has an operator next while it has a question")]
  },
  {
    rule: "the record of an outcome needs a reason",
    file: "migrations/0021_operator_advances.sql",
    from: "CHECK (action <> 'advance' OR reason IS NOT NULL)",
    to: "CHECK (action <> '' OR reason IS NOT NULL)",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "an outcome that an operator records has the name and the reason of the operator in its evidence",
    file: "src/services/operators/OperatorActions.ts",
    from: "recorded = { by: \"operator\", operator: name, reason }",
    to: "recorded = { by: name, reason }",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "an operation whose status nothing allows to read is found",
    file: "src/services/sql/queue/SqlStatusReads.ts",
    from: " waiting = NOT due.active,",
    to: "",
    tests: [postgres("services/operators/OperationViews", "waits, is listed and counted as")]
  },
  {
    rule: "a list ends with a full page, also if it may look at further operations",
    file: "src/services/operators/OperationSearch.ts",
    from: "found.length === limit) break",
    to: "matches.length > left) break",
    tests: [long("costs/OperationSearchCost", "is one statement if the first has as many")]
  },
  {
    rule: "an operation that was claimed waits no more",
    file: "migrations/0022_pauses.sql",
    from: "  NEW.waiting := false;\n",
    to: "",
    tests: [postgres("services/operators/OperationViews", "waits, is listed and counted as")]
  },
  {
    rule: "an operator sees no terms without a record",
    file: actions,
    from: "        if (rows.length > 0) {\n",
    to: "        if (rows.length > 1000) {\n",
    tests: terms
  },
  {
    rule: "reads of operators mask the amount",
    file: "src/domain/Terms.ts",
    from: "=> ({\n  amount: mask,",
    to: "=> ({\n  amount: `${mask}${currency}`,",
    tests: terms
  },
  {
    rule: "a ciphertext of a payload is never read as terms",
    file: "src/services/PayloadCipher.ts",
    from: "part === \"payload\" ? id : `${id} ${part}`",
    to: "part === \"payload\" ? id : id",
    tests: terms
  },
  {
    rule: "invalid terms never keep a repetition from its operation",
    file: "src/services/sql/ledger/SqlAcceptances.ts",
    from: "const unsendable = earlier === undefined ? refusalOf(prepared, provider) : undefined",
    to: "const unsendable = refusalOf(prepared, provider)",
    tests: terms
  },
  {
    rule: "terms end with the payload only if the type says so",
    file: "migrations/0024_payee_index.sql",
    from: "OR NEW.erases_terms AND NEW.state IN",
    to: "OR NEW.state IN",
    tests: terms
  },
  {
    rule: "the end of the terms erases what finds their payee",
    file: "migrations/0024_payee_index.sql",
    from: "  NEW.payee_index := NULL;\n",
    to: "",
    tests: terms
  },
  {
    rule: "a payee is found only with a key of its operation",
    file: "src/services/PayloadCipher.ts",
    from: "Mac.key(Mac.hmacSha256, yield* kdf.derive(Kdf.hkdfSha256, Redacted.value(key.key), options))",
    to: "Mac.key(Mac.hmacSha256, macInfo)",
    tests: terms
  },
  {
    rule: "a search by payee is recorded",
    file: "src/services/operators/OperationSearch.ts",
    from: "if (query.payee === undefined || page",
    to: "if (query.payee !== undefined || page",
    tests: terms
  },
  {
    rule: "the database refuses the evidence of an operator that an operation failed which may still be sent",
    file: "migrations/0025_sendable_operations.sql",
    from: "OLD.send_before > now()",
    to: "OLD.send_before < now()",
    tests: [postgres("services/ledger/Cancellation", "is refused by the database, if a person says")]
  },
  {
    rule: "an operator records no failure while a request may still be sent",
    file: "src/services/sql/ledger/SqlOperationLedger.ts",
    from: "coalesce(o.send_before <= now(), true)",
    to: "coalesce(o.send_before <= now(), true) OR true",
    tests: [postgres("services/ledger/Cancellation", "may still be sent is no failure")]
  },
  {
    rule: "an endpoint gives the ledger the terms that it declares",
    file: "src/server/mutations/MutationEndpoints.ts",
    from: "termsOf === null ? undefined : termsIn(termsOf, payload as never)",
    to: "undefined",
    tests: [system("examples/paymentsEndpoint", "the terms of the payment")]
  },
  {
    rule: "a tool of agents gives the ledger the terms that it declares",
    file: "src/server/agents/MutationTool.ts",
    from: "...terms === undefined ? {} : { terms: termsIn(terms, payload) }",
    to: "",
    tests: [long("examples/paymentsTool", "accepts a confirmed payment once")]
  },
  {
    rule: "the terms that an operator sees are in no log",
    file: "src/services/operators/OperatorActions.ts",
    from: "const shown = yield* Effect.forEach(rows, (row) => openTerms(...sealedTermsOf(row)))",
    to:
      "const shown = yield* Effect.tap(Effect.forEach(rows, (row) => openTerms(...sealedTermsOf(row))), Effect.logDebug)",
    tests: [postgres("services/ledger/PayloadSecrecy", "are in no span and no log either")]
  },
  {
    rule: "an action happens only at the revision that the operator saw",
    file: actions,
    from: "  if (row.revision !== expected) return yield* new StaleOperation",
    to: "  if (row.revision < expected) return yield* new StaleOperation",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "the revision that an operator saw stays until the action",
    file: actions,
    from: "WHERE id = $1 FOR NO KEY UPDATE\"",
    to: "WHERE id = $1\"",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "an action happens only together with its record",
    file: actions,
    from:
      "      orUnavailable(sql.withTransaction(\n        Effect.tap(all, (affected) => record(operator, { action, affected, result: \"done\" }))\n      ))",
    to: "      Effect.tap(all, (affected) => record(operator, { action, affected, result: \"done\" }))",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "a refused action is always recorded",
    file: actions,
    from: "error instanceof StoreUnavailable ? Effect.void : record(error.message)",
    to: "error instanceof StoreUnavailable ? Effect.void : Effect.void",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "the record of actions is append-only",
    file: table,
    from: "CREATE TRIGGER operator_actions_permanent BEFORE UPDATE OR DELETE OR TRUNCATE",
    to: "CREATE TRIGGER operator_actions_permanent BEFORE DELETE OR TRUNCATE",
    tests: [postgres("services/operators/OperatorActions")]
  },
  {
    rule: "the reader never writes",
    file: roles,
    from: "      operation_counts: { SELECT: \"all\" },\n      worker_reports: { SELECT: \"all\" },\n",
    to: "      operation_counts: { SELECT: \"all\", DELETE: true },\n      worker_reports: { SELECT: \"all\" },\n",
    tests: [unit("services/roles")]
  },
  {
    rule: "the database chooses id and time of an action, never the writer",
    file: roles,
    from: "INSERT: [\"operator\", \"via\"",
    to: "INSERT: [\"at\", \"operator\", \"via\"",
    tests: [unit("services/roles")]
  },
  {
    rule: "a token never appears in a path of the log",
    file: "src/server/gate/TokenMask.ts",
    from: "  if (isEncodedToken(before)) return \"…\"\n",
    to: "",
    tests: [unit("server/gate/TokensInSpans"), postgres("server/Privacy")]
  },
  {
    rule: "a confirmation counts only for the request that the person saw",
    file: "src/mcp/HumanConfirmation.ts",
    from: "  if (requestState !== state) return \"confirmation_mismatch\"\n",
    to: "",
    tests: [long("examples/paymentsTool", "of 2026-07-28 counts for its own payment")]
  },
  {
    rule: "an accepted form without the confirmation confirms nothing",
    file: "src/mcp/HumanConfirmation.ts",
    from: "action === \"accept\" && isObject(content) && content[\"confirm\"] === true",
    to: "action === \"accept\"",
    tests: [long("examples/paymentsTool", "accepts nothing that the person declines")]
  },
  {
    rule: "text of a provider never closes a tag in the prompt of a host",
    file: "src/mcp/QuotedText.ts",
    from: "const marks = /[<>&`]/gu",
    to: "const marks = /[<&`]/gu",
    tests: [unit("mcp/QuotedText")]
  },
  {
    rule: "a process with ADMIN_PORT has an admin listener, or does not start",
    file: "src/node/process/ProcessSettings.ts",
    from: "if (admin !== null && hasAdmin === undefined) {",
    to: "if (admin === null && hasAdmin !== undefined) {",
    tests: [unit("node/GatewayAppParts", "fail to start on an invalid setting")]
  },
  {
    rule: "no files of the source import each other in a circle",
    file: "src/services/GrantBlockers.ts",
    from: "\"./StoreUnavailable.ts\"",
    to: "\"./sql/grants/SqlGrants.ts\"",
    tests: [unit("architecture", "no file imports itself, by way of any others")]
  },
  {
    rule: "a list of operations shows amount and payee, masked as the ledger gives them",
    file: "src/cli/operations/list.ts",
    from: "text: whatText(operation.type, terms)",
    to: "text: operation.type",
    tests: [unit("cli/screen/Rendering", "of a list has amount and payee")]
  },
  {
    rule: "a person records no code of the gateway as a failure",
    file: "src/domain/GatewayFailures.ts",
    from: "(code) => !isGatewayFailureCode(code), {",
    to: "(code) => code !== \"\", {",
    tests: [unit("operator/console/performAction", "with a code of the gateway")]
  }
]
