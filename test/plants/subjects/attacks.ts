/** Mistakes in what bounds an attacker: tokens, bodies, clocks of workers, the admin listener, and shared resources. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const sealed = "src/services/rules/sealedTokens.ts"
const feed = "src/services/sql/reads/SqlOperationFeed.ts"
const statements = "src/services/sql/reads/changeStatements.ts"
const lifecycle = "src/server/gate/Lifecycle.ts"
const body = "src/server/gate/RequestBody.ts"
const claims = "src/submission/attempts/claimOperations.ts"

export const attacks: ReadonlyArray<Plant> = [
  {
    rule: "a token is opened before any statement of the feed",
    file: feed,
    from:
      "    const from = query.after === null ? null : yield* openChangeToken(cipher, query.after, reader)\n    const position",
    to:
      "    const opened = query.after === null ? null : yield* Effect.result(openChangeToken(cipher, query.after, reader))\n"
      + "    const from = opened?._tag === \"Success\" ? opened.success : null\n    const position",
    tests: [postgres("server/ForgedChangeTokens")]
  },
  {
    rule: "pages that may look at more rows than they return run on the connections of lists",
    file: feed,
    from: "position.pending.length > 0 || isFiltered(query)",
    to: "isFiltered(query)",
    tests: [postgres("server/ForgedChangeTokens")]
  },
  {
    rule: "a client runs only a few slow pages of changes at once",
    file: "src/server/reads/OperationReads.ts",
    from: "runSlow: RunSlowRead = (read) => lifecycle.admitList(grant.client_id, read)",
    to: "runSlow: RunSlowRead = (read) => lifecycle === null ? lifecycle : read",
    tests: [postgres("server/ForgedChangeTokens")]
  },
  {
    rule: "a client sums only a few budgets at once",
    file: "src/server/reads/OperationReads.ts",
    from: "      lifecycle.admitList(\n        grant.client_id,\n        Effect.catch(Effect.map(store.limits",
    to: "      Effect.suspend(() =>\n        Effect.catch(Effect.map(store.limits",
    tests: [postgres("server/GreedyLists", "runs four reads of limits")]
  },
  {
    rule: "the sums of budgets run on the connections of lists",
    file: "src/services/sql/reads/SqlOperationStore.ts",
    from: "listing.unsafe<LimitsRow>",
    to: "sql.unsafe<LimitsRow>",
    tests: [postgres("server/GreedyLists", "runs four reads of limits")]
  },
  {
    rule: "the process gives the feed the connections of lists",
    file: "src/node/GatewayParts.ts",
    from: "OperationFeed.layer.pipe(Layer.provide([ReaderPool, ListPool]))",
    to: "OperationFeed.layer.pipe(Layer.provide(ReaderPool))",
    tests: [postgres("server/ForgedChangeTokens", "run slow pages of changes on the connections of lists")]
  },
  {
    rule: "slow reads of waiting requests never hold a place of other clients",
    file: "src/server/waits/Waits.ts",
    from: "isSlow ? lifecycle.admitList(client, withSlot) : withSlot",
    to: "isSlow ? turns.withPermit(lifecycle.admitList(client, read)) : withSlot",
    tests: [unit("server/waits/Waits")]
  },
  {
    rule: "the rows of a page are bounded over all its places together",
    file: statements,
    from: "       ORDER BY r.n ${rows}`",
    to: "       ORDER BY r.n`",
    tests: [long("costs/ChangeFeedCost")]
  },
  {
    rule: "a pending place ends with its transaction",
    file: statements,
    from: "THEN l.ceiling - 1 ELSE r.after END",
    to: "THEN l.ceiling - 1 ELSE l.ceiling - 1 END",
    tests: [postgres("services/reads/ChangeFeedTransactions"), long("costs/ChangeFeedCost")]
  },
  {
    rule: "a token opens only for its reader and its filters",
    file: sealed,
    from: "bytes.subarray(nameLength, start), aad: additional(context) }",
    to: "bytes.subarray(nameLength, start), aad: additional([]) }",
    tests: [unit("services/ChangeToken"), unit("server/reads/PageToken")]
  },
  {
    rule: "a process seals only with a key that every process has read",
    file: sealed,
    from: "found.findLast(({ isSettled }) => isSettled) ?? found[0]",
    to: "found.at(-1)!",
    tests: [postgres("services/reads/TokenCipher")]
  },
  {
    rule: "keys that cannot be read stay known",
    file: sealed,
    from: "known === null ? Effect.fail(error) : Effect.succeed(known)",
    to: "Effect.fail(error)",
    tests: [postgres("services/reads/TokenCipher")]
  },
  {
    rule: "a change token belongs to one resource owner",
    file: feed,
    from: "if (from !== null && from.owner !== owner)",
    to: "if (from !== null && from.owner === \"\")",
    tests: [postgres("services/reads/ChangeFeed")]
  },
  {
    rule: "each ledger has keys of its own",
    file: "migrations/0016_token_keys.sql",
    from:
      "DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))",
    to: "DEFAULT sha256('key')",
    tests: [postgres("services/reads/TokenCipher")]
  },
  {
    rule: "a reader that has not moved gets its own token again",
    file: "src/services/rules/changeToken.ts",
    from: "if (from !== null && textOf(from) === text)",
    to: "if (from !== null && from.token === text)",
    tests: [unit("services/ChangeToken")]
  },
  {
    rule: "a request holds no slot while its body arrives",
    file: body,
    from: "if (body !== null && slot !== null) lifecycle.pause(slot)",
    to: "if (body !== null && slot === null) return body",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "the arriving bodies of one client are bounded",
    file: lifecycle,
    from: "bodiesOf.of(client) >= options.maxBodiesPerClient",
    to: "bodiesOf.of(client) >= options.maxInFlightPerClient * 1000",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "the bytes of all arriving bodies are bounded",
    file: lifecycle,
    from: "return bodyBytes <= options.maxBodyBytes",
    to: "return bytes <= options.maxBodyBytes",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "a body that arrived takes a slot only if one is free",
    file: lifecycle,
    from: "if (inFlight >= options.maxInFlight) return \"saturated\"",
    to: "if (draining && inFlight >= options.maxInFlight) return \"saturated\"",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "a body takes a slot of its client only if one is left",
    file: lifecycle,
    from: "return \"client_saturated\"",
    to: "return null",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "an announced body that is too long never takes a place",
    file: body,
    from: "if (Number(request.headers[\"content-length\"] ?? 0) > maxBody) return tooLarge",
    to: "if (Number(request.headers[\"content-length\"] ?? 0) > maxBody * 2) return tooLarge",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "a path with an empty parameter is always an unknown path",
    file: "src/server/gate/RequestContext.ts",
    from: "names.some((name) => params[name] === \"\")",
    to: "false",
    tests: [unit("server/gate/InvalidRequests", "if a parameter of its path is empty")]
  },
  {
    rule: "an answer that names only some failures always says so",
    file: "src/domain/InvalidMember.ts",
    from: "length < maxNamed ?",
    to: "length <= maxNamed ?",
    tests: [unit("server/gate/InvalidRequests", "gets at most 32 failures")]
  },
  {
    rule: "an answer names the member of a body that is not the literal of the only payload",
    file: "src/server/gate/InvalidFields.ts",
    from: "issue.ast.types.length !== 1) return",
    to: "issue.ast.types.length === 1) return",
    tests: [unit("server/ComposedApplication", "names the member of a body")]
  },
  {
    rule: "an answer names the failures of the member of a union that fits best",
    file: "src/domain/InvalidMember.ts",
    from: "length === fewest",
    to: "length >= fewest",
    tests: [unit("server/ComposedApplication", "names the failures of the member of a union")]
  },
  {
    rule: "only a parameter that may not be repeated is said to be expected once",
    file: "src/server/gate/InvalidFields.ts",
    from: " && !takesSeveral(endpoint, name)",
    to: "",
    tests: [unit("server/gate/InvalidRequests", "gets one failure for a parameter")]
  },
  {
    rule: "chunks of a body count with what they take in memory",
    file: body,
    from: "body.add(length + chunkOverhead)",
    to: "body.add(length)",
    tests: [unit("server/gate/UnfinishedBodies")]
  },
  {
    rule: "an operation is never unreceived before its deadline by the clock of the database",
    file: "src/submission/providers/ProviderPromises.ts",
    from: "if (from === null || !DateTime.isGreaterThan(due.taken_at, from)) return false",
    to: "if (from === null) return false",
    tests: [unit("submission/providers/ProviderPromises")]
  },
  {
    rule: "a body has no two members of one name",
    file: "src/domain/JsonLimits.ts",
    from: "        container.names.add(container.name)\n",
    to: "",
    tests: [unit("server/gate/WideJson")]
  },
  {
    rule: "a name is compared without its escapes",
    file: "src/domain/JsonLimits.ts",
    from: "    return String(JSON.parse(quoted))\n",
    to: "    return quoted\n",
    tests: [unit("server/gate/WideJson")]
  },
  {
    rule: "the kit tests each answer that the bank documents",
    file: "src/testing/ContractCase.ts",
    from: "  outcomes.flatMap(([name, answers, ...rules]) =>\n    numbered(answers).map(",
    to: "  outcomes.flatMap(([name, answers, ...rules]) =>\n    numbered(answers).slice(0, 1).map(",
    tests: [unit("testing/ContractMistakes")]
  },
  {
    rule: "the kit tests 403 as a wrong key",
    file: "src/testing/ProviderContract.ts",
    from: "[401, 403].map",
    to: "[401].map",
    tests: [unit("testing/ContractMistakes")]
  },
  {
    rule: "the kit demands an amount that floating point changes",
    file: "src/testing/ProviderContract.ts",
    from: "!Number.isInteger(Number(amount) * 100)",
    to: "true",
    tests: [unit("testing/ContractKit")]
  },
  {
    rule: "the kit demands requests of each declared type",
    file: "src/testing/submissionCases.ts",
    from: "filter((declared) => !tested.includes(declared))",
    to: "filter(() => false)",
    tests: [unit("testing/ContractKit")]
  },
  {
    rule: "an answer names 32 failures of a value at most",
    file: "src/domain/InvalidMember.ts",
    from: "    .slice(0, maxNamed)\n",
    to: "",
    tests: [unit("server/gate/WideJson")]
  },
  {
    rule: "a worker sends nothing by a clock that may be wrong",
    file: "src/domain/ClockSkew.ts",
    from: "if (most <= longestSkew) return null",
    to: "if (Math.abs(proven) <= longestSkew) return null",
    tests: [unit("domain/ClockSkew"), unit("submission/attempts/WrongClocks")]
  },
  {
    rule: "a wrong clock returns the claims",
    file: claims,
    from: "refusal: timed.refusal ?? refused.get(timed.claim.batch) ?? null",
    to: "refusal: refused.get(timed.claim.batch) ?? null",
    tests: [unit("submission/attempts/WrongClocks")]
  },
  {
    rule: "a wrong clock pauses the claims for the provider",
    file: claims,
    from: "if (skewed !== undefined) yield* pauses.fail(provider, probeOf, skewed.refusal!)",
    to: "if (skewed !== undefined && limit < 0) yield* pauses.fail(provider, probeOf, skewed.refusal!)",
    tests: [unit("submission/attempts/WrongClocks")]
  },
  {
    rule: "the deadline of a submission is always by the clock of the database",
    file: "src/submission/attempts/attemptUntilSent.ts",
    from: "DateTime.addDuration(claim.claimed_at, policy.sendWithin)",
    to: "DateTime.makeUnsafe(askedAt.wall + Duration.toMillis(policy.sendWithin))",
    tests: [unit("submission/attempts/WrongClocks")]
  },
  {
    rule: "a clock that was set between two attempts allows no second one",
    file: "src/submission/attempts/attemptUntilSent.ts",
    from: "if (Math.abs(yield* clockSet(askedAt)) > longestSkew)",
    to: "if (Math.abs(yield* clockSet(askedAt)) > Infinity)",
    tests: [unit("submission/attempts/WrongClocks")]
  },
  {
    rule: "a provider never uses a failure code of the gateway",
    file: "src/domain/GatewayFailures.ts",
    from: "isOperationFailure(failure) && !isGatewayFailureCode(code) ?",
    to: "isOperationFailure(failure) ?",
    tests: [unit("submission/providers/AnswerRecord")]
  },
  {
    rule: "clients read only failures that the adapter declares",
    file: "src/submission/providers/AnswerRecord.ts",
    from: "declaredFailure(failures, code) ?? rejected",
    to: "declaredFailure(failures, code) ?? { code, message: rejected.message }",
    tests: [unit("submission/providers/AnswerRecord")]
  },
  {
    rule: "an adapter that declares a failure which clients cannot read does not start",
    file: "src/submission/providers/Providers.ts",
    from: "if (declaredFailure(adapter.failures, code) === null) {",
    to: "if (code === \"\") {",
    tests: [unit("submission/providers/Providers")]
  },
  {
    rule: "the conformance kit finds a code that the adapter does not declare",
    file: "src/testing/contractRules.ts",
    from: "if (said.isDeclared !== true) {",
    to: "if (said.code === \"none\") {",
    tests: [unit("testing/ContractMistakes")]
  },
  {
    rule: "the conformance kit finds a request that the bank does not document",
    file: "src/testing/contractRules.ts",
    from: "wanted !== got",
    to: "wanted === undefined && got === undefined",
    tests: [unit("testing/ContractMistakes")]
  },
  {
    rule: "a member of the terms that does not change the request fails the conformance kit",
    file: "src/testing/ProviderContract.ts",
    from: "if (pairs.length === 0) {",
    to: "if (pairs.length > 99) {",
    tests: [unit("testing/ContractMistakes")]
  },
  {
    rule: "a body of /mcp that is no JSON is refused with a problem",
    file: "src/server/agents/McpEndpoint.ts",
    from:
      "    return yield* problems.fail(\"invalid_request\", { fields: [{ path: \"body\", message: \"Expected JSON\" }] })",
    to: "    return { refusal: errorResponse(null, internalError) }",
    tests: [unit("server/agents/McpTransport", "until JSON-RPC begins")]
  },
  {
    rule: "a refusal in JSON-RPC is logged with the request id",
    file: "src/server/agents/McpEndpoint.ts",
    from: "status < 400 || !(\"error\" in response) ?",
    to: "status > 0 ?",
    tests: [unit("server/agents/McpTransport", "with the request id of the response")]
  },
  {
    rule: "an error code without a page is a problem for browsers, too",
    file: "src/server/SystemHandlers.ts",
    from: "if (found === undefined) return unknownCode",
    to:
      "if (found === undefined) return isForBrowser(request) ? Effect.succeed(respondWithPage(problemsPage)) : unknownCode",
    tests: [unit("server/pages/PublicPages", "of an unknown code do not exist")]
  },
  {
    rule: "the log never has the message of a provider",
    file: "src/submission/submissionLog.ts",
    from: "code: outcome.failure.code,",
    to: "code: outcome.failure.code, failure: outcome.failure.message,",
    tests: [unit("submission/providers/AnswerRecord")]
  },
  {
    rule: "the admin listener answers only under its own names",
    file: "src/operator/AdminServer.ts",
    from: "if (!admits(request.headers)) return",
    to: "if (!admits(request.headers) && request.url === \"\") return",
    tests: [unit("node/AdminPort", "answers under loopback names with its port, and under allowed names")]
  },
  {
    rule: "idle connections never close the admin listener",
    file: "src/node/http/AdminListener.ts",
    from: "makesRoom: true",
    to: "makesRoom: false",
    tests: [unit("node/AdminPort", "The admin listener answers each scrape")]
  },
  {
    rule: "a stolen role takes only the connections of its pools",
    file: "src/services/sql/roles.ts",
    from: "pg_export_snapshot|pg_logical_emit_message|",
    to: "",
    tests: [postgres("services/schema/SharedResources", "writes no WAL, no large object and no snapshot by functions")]
  },
  {
    rule: "roles that may write no message still confirm what they have seen",
    file: "src/services/sql/roles.ts",
    from: "EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO ${nameOf(naming, \"owner\")}', f);",
    to: "NULL;",
    tests: [postgres("services/schema/SharedResources", "may still confirm what it has seen")]
  },
  {
    rule: "of keys with one name only a few are tried",
    file: "src/oauth/KeySet.ts",
    from: "const mostTried = 4",
    to: "const mostTried = 400",
    tests: [unit("oauth/SharedKeyNames")]
  },
  {
    rule: "a process that drains takes no new connection on a shared port",
    file: "src/node/http/NodeServer.ts",
    from: "if (!reusePort ||",
    to: "if (reusePort ||",
    tests: [long("node/SharedPort", "get no new connection from the start of their drain on")]
  },
  {
    rule: "root uses only a data directory that no other user can exchange",
    file: "src/node/embedded/System.ts",
    from: "if (isRoot()) refuseExchangeable(existing)",
    to: "if (isRoot() && existing === \"/\") refuseExchangeable(existing)",
    tests: [long("embedded/ReplaceableDirectories", "it belongs to that user")]
  },
  {
    rule: "no start follows a link in the data directory",
    file: "src/node/embedded/System.ts",
    from: "flags | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK",
    to: "flags | fs.constants.O_NONBLOCK",
    tests: [long("embedded/SymbolicLinks", "is refused with a link or a pipe in place of a file")]
  },
  {
    rule: "text in a log cannot drive the terminal of an operator",
    file: "src/node/process/Observability.ts",
    from: "...[...texts, ...values, ...times].map(visible)",
    to: "...texts, ...values, ...times",
    tests: [unit("node/process/terminalLine", "shows escapes")]
  },
  {
    rule: "a pid file that PostgreSQL replaces while it is opened is no hard link",
    file: "src/node/embedded/System.ts",
    from: "if (stat.nlink === 0) return openFile(file, flags)\n",
    to: "",
    tests: [unit("node/ReplacedFile")]
  }
]
