/** Mistakes in what bounds an attacker: tokens, bodies, clocks of workers, the admin listener, and shared resources. */
import { long, type Plant, plant, postgres, system, unit } from "../Plant.ts"

const attemptUntilSent = "src/submission/attempts/attemptUntilSent.ts"
const invalidFields = "src/server/gate/InvalidFields.ts"
const mcpEndpoint = "src/server/agents/McpEndpoint.ts"
const providerContract = "src/testing/ProviderContract.ts"
const providerPromises = "src/submission/providers/ProviderPromises.ts"
const sealed = "src/services/sealedTokens.ts"
const feed = "src/services/sql/reads/SqlOperationFeed.ts"
const statements = "src/services/sql/reads/changeStatements.ts"
const lifecycle = "src/server/gate/Lifecycle.ts"
const body = "src/server/gate/RequestBody.ts"
const listener = "src/node/http/NodeListener.ts"
const claims = "src/submission/attempts/claimOperations.ts"

export const attacks: ReadonlyArray<Plant> = [
  plant("a token is opened before any statement of the feed", feed)
    .edit(
      "    const from = query.after === null ? null : yield* openChangeToken(cipher, query.after, reader)\n    const position",
      "    const opened = query.after === null ? null : yield* Effect.result(openChangeToken(cipher, query.after, reader))\n" +
        "    const from = opened?._tag === \"Success\" ? opened.success : null\n    const position"
    )
    .foundBy(postgres("server/ForgedChangeTokens")),
  plant("pages that may look at more rows than they return run on the connections of lists", feed)
    .edit("position.pending.length > 0 || isFiltered(query)", "isFiltered(query)")
    .foundBy(postgres("server/ForgedChangeTokens")),
  plant("a client runs only a few slow pages of changes at once", "src/server/reads/OperationReads.ts")
    .edit(
      "runSlow: RunSlowRead = (read) => lifecycle.admitList(grant.client_id, read)",
      "runSlow: RunSlowRead = (read) => lifecycle === null ? lifecycle : read"
    )
    .foundBy(postgres("server/ForgedChangeTokens")),
  plant("a client sums only a few budgets at once", "src/server/reads/OperationReads.ts")
    .edit(
      "      lifecycle.admitList(\n        grant.client_id,\n        Effect.catch(Effect.map(store.limits",
      "      Effect.suspend(() =>\n        Effect.catch(Effect.map(store.limits"
    )
    .foundBy(postgres("server/GreedyLists", "runs four reads of limits")),
  plant("the sums of budgets run on the connections of lists", "src/services/sql/reads/SqlOperationStore.ts")
    .edit("listing.unsafe<LimitsRow>", "sql.unsafe<LimitsRow>")
    .foundBy(postgres("server/GreedyLists", "runs four reads of limits")),
  plant("PostgreSQL compiles no statement of the gateway", "src/node/postgres/Pools.ts")
    .edit("  jit: \"off\",\n", "")
    .foundBy(unit("node/postgres/Database", "compile no statement")),
  plant("the process gives the feed the connections of lists", "src/node/GatewayParts.ts")
    .edit(
      "OperationFeed.layer.pipe(Layer.provide([ReaderPool, ListPool]))",
      "OperationFeed.layer.pipe(Layer.provide(ReaderPool))"
    )
    .foundBy(postgres("server/ForgedChangeTokens", "run slow pages of changes on the connections of lists")),
  plant("slow reads of waiting requests never hold a place of other clients", "src/server/waits/Waits.ts")
    .edit(
      "isSlow ? lifecycle.admitList(client, withSlot) : withSlot",
      "isSlow ? turns.withPermit(lifecycle.admitList(client, read)) : withSlot"
    )
    .foundBy(unit("server/waits/Waits")),
  plant("the rows of a page are bounded over all its places together", statements)
    .edit("       ORDER BY r.n ${rows}`", "       ORDER BY r.n`")
    .foundBy(long("costs/ChangeFeedCost")),
  plant("a pending place ends with its transaction", statements)
    .edit("THEN l.ceiling - 1 ELSE r.after END", "THEN l.ceiling - 1 ELSE l.ceiling - 1 END")
    .foundBy(postgres("services/reads/ChangeFeedTransactions"), long("costs/ChangeFeedCost")),
  plant("a token opens only for its reader and its filters", sealed)
    .edit(
      "bytes.subarray(nameLength, start), aad: additional(context) }",
      "bytes.subarray(nameLength, start), aad: additional([]) }"
    )
    .foundBy(unit("services/rules/ChangeToken"), unit("server/reads/PageToken")),
  plant("a process seals only with a key that every process has read", sealed)
    .edit("found.findLast(({ isSettled }) => isSettled) ?? found[0]", "found.at(-1)!")
    .foundBy(postgres("services/reads/TokenCipher")),
  plant("keys that cannot be read stay known", sealed)
    .edit("known === null ? Effect.fail(error) : Effect.succeed(known)", "Effect.fail(error)")
    .foundBy(postgres("services/reads/TokenCipher")),
  plant("a change token belongs to one resource owner", feed)
    .edit("if (from !== null && from.owner !== owner)", "if (from !== null && from.owner === \"\")")
    .foundBy(postgres("services/reads/ChangeFeed")),
  plant("each ledger has keys of its own", "migrations/0016_token_keys.sql")
    .edit(
      "DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))",
      "DEFAULT sha256('key')"
    )
    .foundBy(postgres("services/reads/TokenCipher")),
  plant("a reader that has not moved gets its own token again", "src/services/rules/changeToken.ts")
    .edit("if (from !== null && textOf(from) === text)", "if (from !== null && from.token === text)")
    .foundBy(unit("services/rules/ChangeToken")),
  plant("a request holds no slot while its body arrives", body)
    .edit(
      "if (body !== null && slot !== null) lifecycle.pause(slot)",
      "if (body !== null && slot === null) return body"
    )
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("the arriving bodies of one client are bounded", lifecycle)
    .edit(
      "bodiesOf.of(sender) >= options.maxBodiesPerClient",
      "bodiesOf.of(sender) >= options.maxInFlightPerClient * 1000"
    )
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("the bytes of all arriving bodies are bounded", lifecycle)
    .edit("return bodyBytes <= options.maxBodyBytes", "return bytes <= options.maxBodyBytes")
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("the proxy of the example removes forwarded certificates of clients", "deploy/haproxy/haproxy.cfg")
    .edit("http-request del-header Client-Cert", "http-request del-header Client-Certificate")
    .foundBy(system("deploy/Cluster", "lets no client name a certificate")),
  plant("bodies without a grant leave half of the bytes to clients", lifecycle)
    .edit("anonymousBytes <= options.maxBodyBytes / 2", "anonymousBytes <= options.maxBodyBytes")
    .foundBy(unit("server/gate/UnfinishedBodies", "leaves half of the bytes")),
  plant("bodies without a grant count by the address of the client behind a trusted proxy", body)
    .edit("(yield* RateLimits)?.addressOf ?? clientAddress([])", "clientAddress([])")
    .foundBy(unit("server/gate/UnfinishedBodies", "counts by the address of its client")),
  plant("a body that arrived takes a slot only if one is free", lifecycle)
    .edit(
      "if (inFlight >= options.maxInFlight) return \"saturated\"",
      "if (draining && inFlight >= options.maxInFlight) return \"saturated\""
    )
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("a body takes a slot of its client only if one is left", lifecycle)
    .edit("return \"client_saturated\"", "return null")
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("an announced body that is too long never takes a place", body)
    .edit(
      "if (Number(request.headers[\"content-length\"] ?? 0) > maxBody) return tooLarge",
      "if (Number(request.headers[\"content-length\"] ?? 0) > maxBody * 2) return tooLarge"
    )
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("a path with an empty parameter is always an unknown path", "src/server/gate/RequestContext.ts")
    .edit("names.some((name) => params[name] === \"\")", "false")
    .foundBy(unit("server/gate/InvalidRequests", "if a parameter of its path is empty")),
  plant("an answer that names only some failures always says so", "src/domain/InvalidMember.ts")
    .edit("length < maxNamed ?", "length <= maxNamed ?")
    .foundBy(unit("server/gate/InvalidRequests", "gets at most 32 failures")),
  plant("an answer names the member of a body that is not the literal of the only payload", invalidFields)
    .edit("issue.ast.types.length !== 1) return", "issue.ast.types.length === 1) return")
    .foundBy(unit("server/ComposedApplication", "names the member of a body")),
  plant("an answer names the failures of the member of a union that fits best", "src/domain/InvalidMember.ts")
    .edit("length === fewest", "length >= fewest")
    .foundBy(unit("server/ComposedApplication", "names the failures of the member of a union")),
  plant("only a parameter that may not be repeated is said to be expected once", invalidFields)
    .edit(" && !takesSeveral(endpoint, name)", "")
    .foundBy(unit("server/gate/InvalidRequests", "gets one failure for a parameter")),
  plant("chunks of a body count with what they take in memory", body)
    .edit("body.add(length + chunkOverhead)", "body.add(length)")
    .foundBy(unit("server/gate/UnfinishedBodies")),
  plant("an operation is never unreceived before its deadline by the clock of the database", providerPromises)
    .edit("DateTime.min(due.taken_at, DateTime.makeUnsafe(due.askedAt.wall))", "DateTime.makeUnsafe(due.askedAt.wall)")
    .foundBy(unit("submission/providers/ProviderPromises", "by both clocks")),
  plant("an operation is never unreceived before its deadline by the clock of the reader", providerPromises)
    .edit("DateTime.min(due.taken_at, DateTime.makeUnsafe(due.askedAt.wall))", "due.taken_at")
    .foundBy(
      unit("submission/providers/ProviderPromises", "by both clocks"),
      unit("submission/reads/Reconciler", "clock of the database was set forward")
    ),
  plant("a key never stands for two bodies that are not UTF-8", body)
    .edit("new TextDecoder(\"utf-8\", { fatal: true })", "new TextDecoder()")
    .foundBy(unit("server/gate/BodyText", "is refused if it is not UTF-8")),
  plant("a body of another charset is never read as UTF-8", body)
    .edit("if (namesOtherCharset(headers)) return", "if (namesOtherCharset({})) return")
    .foundBy(unit("server/gate/BodyText", "is refused if it names another charset")),
  plant("a key never stands for two lines that are not UTF-8", "src/cli/Flags.ts")
    .edit("new TextDecoder(\"utf-8\", { fatal: true })", "new TextDecoder()")
    .foundBy(unit("cli/operations/Accept", "accepts no line that is not UTF-8")),
  plant("a character that the end cuts off is not dropped without a word", "src/cli/Flags.ts")
    .edit("{ stream: part !== undefined }", "{ stream: true }")
    .foundBy(unit("cli/operations/Accept", "accepts no line that is not UTF-8")),
  plant("the Effect client follows no redirect", "src/api/Client.ts")
    .edit("redirect: \"manual\"", "redirect: \"follow\"")
    .foundBy(unit("client/Redirects", "never followed by the Effect client")),
  plant("the client on fetch follows no redirect", "src/client/Exchange.ts")
    .edit("redirect: \"manual\"", "redirect: \"follow\"")
    .foundBy(unit("client/Redirects", "never followed by the client on fetch")),
  plant("no span shows the arguments of a tool", "src/mcp/McpConnections.ts")
    .edit(
      "if (span?._tag !== \"Span\") return handled",
      "if (span?._tag !== \"Span\" || method === \"tools/call\") return handled"
    )
    .foundBy(unit("server/gate/TokensInSpans", "none of its arguments")),
  plant("a body has no two members of one name", "src/domain/JsonLimits.ts")
    .edit("        container.names.add(container.name)\n", "")
    .foundBy(unit("server/gate/WideJson")),
  plant("a name is compared without its escapes", "src/domain/JsonLimits.ts")
    .edit("    return String(JSON.parse(quoted))\n", "    return quoted\n")
    .foundBy(unit("server/gate/WideJson")),
  plant("the kit tests each answer that the bank documents", "src/testing/ContractCase.ts")
    .edit(
      "  outcomes.flatMap(([name, answers, ...rules]) =>\n    numbered(answers).map(",
      "  outcomes.flatMap(([name, answers, ...rules]) =>\n    numbered(answers).slice(0, 1).map("
    )
    .foundBy(unit("testing/ContractMistakes")),
  plant("the kit tests 403 as a wrong key", providerContract)
    .edit("[401, 403].map", "[401].map")
    .foundBy(unit("testing/ContractMistakes")),
  plant("the kit demands an amount that floating point changes", providerContract)
    .edit("!Number.isInteger(Number(amount) * 100)", "true")
    .foundBy(unit("testing/ContractKit")),
  plant("the kit demands requests of each declared type", "src/testing/submissionCases.ts")
    .edit("filter((declared) => !tested.includes(declared))", "filter(() => false)")
    .foundBy(unit("testing/ContractKit")),
  plant("an answer names 32 failures of a value at most", "src/domain/InvalidMember.ts")
    .edit("    .slice(0, maxNamed)\n", "")
    .foundBy(unit("server/gate/WideJson")),
  plant("a worker sends nothing by a clock that may be wrong", "src/domain/ClockSkew.ts")
    .edit("if (most <= longestSkew) return null", "if (Math.abs(proven) <= longestSkew) return null")
    .foundBy(unit("domain/ClockSkew"), unit("submission/attempts/WrongClocks")),
  plant("a wrong clock returns the claims", claims)
    .edit(
      "refusal: timed.refusal ?? refused.get(timed.claim.batch) ?? null",
      "refusal: refused.get(timed.claim.batch) ?? null"
    )
    .foundBy(unit("submission/attempts/WrongClocks")),
  plant("a wrong clock pauses the claims for the provider", claims)
    .edit(
      "if (skewed !== undefined) yield* pauses.fail(provider, probeOf, skewed.refusal!)",
      "if (skewed !== undefined && limit < 0) yield* pauses.fail(provider, probeOf, skewed.refusal!)"
    )
    .foundBy(unit("submission/attempts/WrongClocks")),
  plant("the deadline of a submission is always by the clock of the database", attemptUntilSent)
    .edit(
      "DateTime.addDuration(claim.claimed_at, policy.sendWithin)",
      "DateTime.makeUnsafe(askedAt.wall + Duration.toMillis(policy.sendWithin))"
    )
    .foundBy(unit("submission/attempts/WrongClocks")),
  plant("a clock that was set between two attempts allows no second one", attemptUntilSent)
    .edit("if (Math.abs(yield* clockSet(askedAt)) > longestSkew)", "if (Math.abs(yield* clockSet(askedAt)) > Infinity)")
    .foundBy(unit("submission/attempts/WrongClocks")),
  plant("a provider never uses a failure code of the gateway", "src/domain/GatewayFailures.ts")
    .edit("isOperationFailure(failure) && !isGatewayFailureCode(code) ?", "isOperationFailure(failure) ?")
    .foundBy(unit("submission/providers/AnswerRecord")),
  plant("clients read only failures that the adapter declares", "src/submission/providers/AnswerRecord.ts")
    .edit(
      "declaredFailure(failures, code) ?? rejected",
      "declaredFailure(failures, code) ?? { code, message: rejected.message }"
    )
    .foundBy(unit("submission/providers/AnswerRecord")),
  plant(
    "an adapter that declares a failure which clients cannot read does not start",
    "src/submission/providers/Providers.ts"
  )
    .edit("if (declaredFailure(adapter.failures, code) === null) {", "if (code === \"\") {")
    .foundBy(unit("submission/providers/Providers")),
  plant("the conformance kit finds a code that the adapter does not declare", "src/testing/contractRules.ts")
    .edit("if (said.isDeclared !== true) {", "if (said.code === \"none\") {")
    .foundBy(unit("testing/ContractMistakes")),
  plant("the conformance kit finds a request that the bank does not document", "src/testing/contractRules.ts")
    .edit("wanted !== got", "wanted === undefined && got === undefined")
    .foundBy(unit("testing/ContractMistakes")),
  plant("a member of the terms that does not change the request fails the conformance kit", providerContract)
    .edit("if (pairs.length === 0) {", "if (pairs.length > 99) {")
    .foundBy(unit("testing/ContractMistakes")),
  plant("a name of a tool that is no text causes no internal error", "src/mcp/OperationTools.ts")
    .edit(
      "typeof name === \"string\" && Object.hasOwn(operationTools, name)",
      "Object.hasOwn(operationTools, name as string)"
    )
    .foundBy(unit("server/agents/McpFuzz")),
  plant("no client chooses the trace of its requests", "src/server/MaskedTracer.ts")
    .edit("mask(tracer.span(restart(options)))", "mask(tracer.span(options))")
    .foundBy(unit("server/gate/TokensInSpans", "begins a trace")),
  plant("no client hides its requests from traces", "src/server/MaskedTracer.ts")
    .edit("sampled: options.sampled || !parent.sampled }", "sampled: options.sampled }")
    .foundBy(unit("server/gate/TokensInSpans", "begins a trace")),
  plant("no shared cache gives the request id of one reader to others", "src/server/Documentation.ts")
    .edit("\"private, max-age=300\"", "\"public, max-age=300\"")
    .foundBy(unit("server/Documentation", "may be cached for five minutes")),
  plant("a body of /mcp that is no JSON is refused with a problem", mcpEndpoint)
    .edit(
      "    return yield* problems.fail(\"invalid_request\", { fields: [{ path: \"body\", message: \"Expected JSON\" }] })",
      "    return { refusal: errorResponse(null, internalError) }"
    )
    .foundBy(unit("server/agents/McpTransport", "until JSON-RPC begins")),
  plant("a call that reports its progress has a connection to its client", "src/mcp/ReadCalls.ts")
    .edit(" && name !== \"wait_for_operation\"", "")
    .foundBy(unit("server/agents/McpTransport", "reports progress only")),
  plant("a call without a connection has the result that one with a connection has", "src/mcp/ReadCalls.ts")
    .edit("...isModern ? { resultType: \"complete\" } : {},", "")
    .foundBy(unit("server/agents/McpAnswers", "same with and without")),
  plant("a call without a connection that is denied access gets the problem of the read", mcpEndpoint)
    .edit(
      "        const problem = granted.denial()\n        return problem",
      "        const problem = null\n        return problem"
    )
    .foundBy(unit("server/agents/McpAnswers", "finds the grant revoked")),
  plant("a refusal in JSON-RPC is logged with the request id", mcpEndpoint)
    .edit("status < 400 || !(\"error\" in response) ?", "status > 0 ?")
    .foundBy(unit("server/agents/McpTransport", "with the request id of the response")),
  plant("an error code without a page is a problem for browsers, too", "src/server/SystemHandlers.ts")
    .edit(
      "if (found === undefined) return unknownCode",
      "if (found === undefined) return isForBrowser(request) ? Effect.succeed(respondWithPage(problemsPage)) : unknownCode"
    )
    .foundBy(unit("server/pages/PublicPages", "of an unknown code do not exist")),
  plant("the log never has the message of a provider", "src/submission/submissionLog.ts")
    .edit("code: outcome.failure.code,", "code: outcome.failure.code, failure: outcome.failure.message,")
    .foundBy(unit("submission/providers/AnswerRecord")),
  plant("the admin listener answers only under its own names", "src/operator/AdminServer.ts")
    .edit("if (!admits(request.headers)) return", "if (!admits(request.headers) && request.url === \"\") return")
    .foundBy(unit("node/http/AdminPort", "answers under loopback names with its port, and under allowed names")),
  plant("idle connections never close the admin listener", "src/node/http/AdminListener.ts")
    .edit("makesRoom: true", "makesRoom: false")
    .foundBy(unit("node/http/AdminPort", "The admin listener answers each scrape")),
  plant("a stolen role takes only the connections of its pools", "src/services/sql/roles.ts")
    .edit("pg_export_snapshot|pg_logical_emit_message|", "")
    .foundBy(
      postgres("services/schema/SharedResources", "writes no WAL, no large object and no snapshot by functions")
    ),
  plant("roles that may write no message still confirm what they have seen", "src/services/sql/roles.ts")
    .edit("EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO ${nameOf(naming, \"owner\")}', f);", "NULL;")
    .foundBy(postgres("services/schema/SharedResources", "may still confirm what it has seen")),
  plant("of keys with one name only a few are tried", "src/oauth/KeySet.ts")
    .edit("const mostTried = 4", "const mostTried = 400")
    .foundBy(unit("oauth/SharedKeyNames")),
  plant("a process that drains takes no new connection on a shared port", "src/node/http/NodeServer.ts")
    .edit("if (!reusePort ||", "if (reusePort ||")
    .foundBy(long("node/SharedPort", "get no new connection from the start of their drain on")),
  plant("root uses only a data directory that no other user can exchange", "src/node/embedded/System.ts")
    .edit(
      "if (isRoot()) refuseExchangeable(existing)",
      "if (isRoot() && existing === \"/\") refuseExchangeable(existing)"
    )
    .foundBy(long("embedded/ReplaceableDirectories", "it belongs to that user")),
  plant("no start follows a link in the data directory", "src/node/embedded/System.ts")
    .edit("flags | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK", "flags | fs.constants.O_NONBLOCK")
    .foundBy(long("embedded/SymbolicLinks", "is refused with a link or a pipe in place of a file")),
  plant("text in a log cannot drive the terminal of an operator", "src/node/process/Observability.ts")
    .edit("...[...texts, ...values, ...times].map(visible)", "...texts, ...values, ...times")
    .foundBy(unit("node/process/terminalLine", "shows escapes")),
  plant("a pid file that PostgreSQL replaces while it is opened is no hard link", "src/node/embedded/System.ts")
    .edit("if (stat.nlink === 0) return openFile(file, flags)\n", "")
    .foundBy(unit("node/embedded/ReplacedFile")),
  plant("an operator is warned of an admin listener that other machines may reach", "src/node/http/AdminListener.ts")
    .edit("  isLoopback(host)\n    ? Effect.void", "  host !== \"\"\n    ? Effect.void")
    .foundBy(unit("node/http/AdminPort", "under its own address")),
  plant("the admin listener answers under its own address", "src/node/http/AdminListener.ts")
    .edit("http://${name}:${port}`), addressOf(host, port)]", "http://${name}:${port}`)]")
    .foundBy(unit("node/http/AdminPort", "under its own address")),
  plant("an allowed name of the admin listener has no case", "src/node/http/AdminListener.ts")
    .edit("...allowed.map((name) => name.toLowerCase())", "...allowed")
    .foundBy(unit("node/http/AdminPort", "and under allowed names")),
  plant("the requests of a connection without responses are bounded", "src/node/http/ConnectionLimits.ts")
    .edit("    if (this.#unanswered >= maxUnanswered) return false\n", "")
    .foundBy(unit("node/http/NodeListener", "lack their responses")),
  plant("only requests without responses count towards the bound of a connection", "src/node/http/ConnectionLimits.ts")
    .edit("    this.#unanswered--\n", "")
    .foundBy(unit("node/http/NodeListener", "lack their responses")),
  plant("requests before the routes count towards the bound of a connection", listener)
    .edit(
      "    if (!this.onRequest(request, response)) return true\n",
      "    if (this.listenerCount(\"request\") > 0 && !this.onRequest(request, response)) return true\n"
    )
    .foundBy(unit("node/http/NodeListener", "lack their responses")),
  plant("no request runs after the answer that ends its connection", listener)
    .edit("?.start(response) !== true", "?.start(response) === false")
    .foundBy(unit("node/http/NodeListener", "after the answer that ends its connection")),
  plant("a fault in a body is answered at once", listener)
    .edit("    if (req.complete) return isOver", "    if (req.url !== \"\") return isOver")
    .foundBy(unit("server/gate/MalformedHttp", "is 400 in a body, too")),
  plant("no request gets two answers", listener)
    .edit(
      "if (headersSent) return isOver ? endSocket(socket)",
      "if (headersSent) return isOver ? answerNow(socket, code, unread)"
    )
    .foundBy(unit("server/gate/MalformedHttp", "gets no second answer")),
  plant("a target above its limit is 414 in a header section above its own limit, too", listener)
    .edit(").length > maxTarget ?", ").length < 0 ?")
    .foundBy(unit("server/gate/Limits", "of the target come first")),
  plant("an empty line before a request is no part of it", listener)
    .edit(".trimStart().split(", ".split(")
    .foundBy(unit("server/gate/Limits", "of the target come first")),
  plant("each further packet of bytes that are no request is ignored", listener)
    .edit(
      "    if (connection === undefined || connection.isRefused) return\n    connection.isRefused = true\n",
      ""
    )
    .foundBy(unit("server/gate/MalformedHttp", "is answered once")),
  plant("a request with a whole URL has one Host, too", "src/server/gate/Edge.ts")
    .edit("lacksHost(source.headers as RequestHeaders)", "(source.headers as RequestHeaders)[\"host\"] === \"\"")
    .foundBy(unit("server/gate/MalformedHttp", "without exactly one valid Host")),
  plant("the value of Host is a host", "src/server/gate/RequestChecks.ts")
    .edit("!hostForm.test(host)", "host.includes(\",\")")
    .foundBy(unit("server/gate/MalformedHttp", "without exactly one valid Host")),
  plant("an answer does not grow with the name of a parameter", "src/server/gate/InvalidFields.ts")
    .edit("name.slice(0, maxName)", "name")
    .foundBy(unit("server/gate/InvalidRequests", "gets the first 64 characters"))
]
