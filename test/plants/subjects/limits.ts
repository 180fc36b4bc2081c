/** Mistakes in limits: of providers, which all workers share, and of clients, which never take the share of others. */
import { long, type Plant, plant, postgres, system, unit } from "../Plant.ts"

const httpProvider = "src/submission/http/HttpProvider.ts"
const httpStatusReads = "src/submission/http/HttpStatusReads.ts"
const providerPauses = "src/submission/providers/ProviderPauses.ts"
const submissionWorker = "src/submission/attempts/SubmissionWorker.ts"
const templateProviders = "template/src/Providers.ts"
const workerReports = "src/submission/WorkerReports.ts"
const permits = "src/services/rules/providerPermits.ts"
const sql = "src/services/sql/queue/SqlSubmissionQueue.ts"
const requests = "src/submission/providers/RequestPermits.ts"
const lifecycle = "src/server/gate/Lifecycle.ts"
const circuit = "src/submission/providers/Circuit.ts"
const limitsAfterProof = "migrations/0044_limits_after_proof.sql"
const afterProof = [
  postgres("services/ledger/Limits", "again once the provider proves"),
  postgres("services/ledger/LimitsInPostgres", "answer as in memory")
]

export const limits: ReadonlyArray<Plant> = [
  plant(
    "an agent whose payment a limit refuses reads what remains, not a refusal of its access",
    "src/server/agents/GrantReads.ts"
  )
    .edit(
      "if (isDenied && !(refusedByLimits as ReadonlyArray<ProblemCode>).includes(problem.code)) denial = problem",
      "if (isDenied) denial = problem"
    )
    .foundBy(long("examples/paymentsTool", "not to split the amount")),
  plant("in memory, an operation with an uncertain outcome keeps its amount", "src/services/memory/recordRules.ts")
    .edit(
      "(state !== \"failed\" && state !== \"cancelled\" ||",
      "(![\"failed\", \"cancelled\", \"indeterminate\"].includes(state) ||"
    )
    .foundBy(system("simulation/Simulation", "keep the limits of grants")),
  plant("in memory, a cancelled operation gives its amount back", "src/services/memory/recordRules.ts")
    .edit("(state !== \"failed\" && state !== \"cancelled\" ||", "(state !== \"failed\" ||")
    .foundBy(system("simulation/Simulation", "keep the limits of grants")),
  plant("in memory, a limit counts a failed operation that was paid after all", "src/services/memory/recordRules.ts")
    .edit(" || reversal !== null)\n", ")\n")
    .foundBy(...afterProof),
  plant("a limit counts a failed operation that was paid after all", limitsAfterProof)
    .edit("v_left - coalesce(sum(o.limit_amount), 0) INTO v_left", "v_left INTO v_left")
    .foundBy(...afterProof),
  plant("a credential whose limits the database cannot hold is refused, not a defect", "src/services/sql/limitRows.ts")
    .edit("sqlState(error) === \"22023\"", "sqlState(error) === \"\"")
    .foundBy(postgres("services/ledger/Limits", "refuses limits in it")),
  plant("the description of the API tells that a limit begins anew at an instant", "src/domain/AuthorizationDetails.ts")
    .edit(
      "  resets_at: Schema.NullOr(Timestamp)\n})\nexport",
      "  resets_at: Schema.NullOr(Schema.DateTimeUtcFromString)\n})\nexport"
    )
    .foundBy(system("api/OpenApi", "tells an instant")),
  plant("an operation without terms is refused because its endpoint declares none", "src/server/gate/Refusals.ts")
    .edit(
      "return problems.fail(\"terms_required\")",
      "return problems.fail(\"payee_not_allowed\") as Effect.Effect<never>"
    )
    .foundBy(unit("server/ComposedApplication", "each refusal by limits")),
  plant("limits are read by one statement, which checks the grant", "src/services/sql/reads/SqlOperationStore.ts")
    .edit(
      "        const refused = refusalOf(grant, row?.standing)\n",
      "        const refused = row === undefined ? refusalOf(grant, undefined) : null\n"
    )
    .foundBy(postgres("services/reads/GrantStandings"), postgres("server/GrantStanding")),
  plant("an event gives a grant no other limits", "migrations/0036_registered_limits.sql")
    .edit("g.authorization_details <> p_details", "g.authorization_details IS NULL")
    .foundBy(postgres("services/grants/GrantsRegistration", "with different limits concurrently")),
  plant("a registration with other limits of an event changes nothing", "src/services/rules/grantRules.ts")
    .edit(
      "(learned_from === \"token\" || !hasOtherLimits(known, registration))",
      "(learned_from === \"token\" || true)"
    )
    .foundBy(postgres("services/grants/GrantsRegistration", "gives limits once")),
  plant("a token gives a grant no other limits", "migrations/0036_registered_limits.sql")
    .edit(" AND g.authorization_details IS NULL", "")
    .foundBy(postgres("services/grants/GrantsRegistration", "gives limits once")),
  plant("the command line gives the limits to the grant", "src/cli/grants/GrantsCommand.ts")
    .edit("return { authorization_details: details }", "return {}")
    .foundBy(system("cli/GrantLimits", "limits the grant")),
  plant("a document without limits issues no grant without limits", "src/cli/grants/GrantsCommand.ts")
    .edit(
      "return yield* new CommandFailed({ message: `--limits: no object has the type ${financialOperations}` })",
      "return {}"
    )
    .foundBy(system("cli/GrantLimits", "issues no grant by limits")),
  plant("a reserved permit of status reads is given at most once", sql)
    .edit(" AND reads_until = $3::float8 AND", " AND")
    .foundBy(postgres("services/queue/ProviderLimits", "are given to one of two processes")),
  plant("a permit of a provider is given at most once, to all processes together", sql)
    .edit(" AND shared_until = $2::float8 AND", " AND")
    .foundBy(postgres("services/queue/ProviderLimits")),
  plant("a shorter pause never ends a longer one", sql)
    .edit(
      "SET closed_until = greatest(l.closed_until, excluded.closed_until)\n  WHERE l.closed_until < excluded.closed_until`",
      "SET closed_until = excluded.closed_until`"
    )
    .foundBy(postgres("services/queue/ProviderLimits")),
  plant("no permit of a provider comes before the end of its pause", permits)
    .edit("Math.max(Math.min(until, horizon + burst * spacing), opens)", "Math.min(until, horizon + burst * spacing)")
    .foundBy(unit("services/rules/ProviderPermits")),
  plant("status reads never take the reserved permits of submissions", permits)
    .edit("const idle = permitsUntil(0, shared +", "const idle = permitsUntil(horizon, shared +")
    .foundBy(unit("services/rules/ProviderPermits"), postgres("services/queue/ProviderLimits")),
  plant("nothing is sent while the database reserves no permit", requests)
    .edit(
      "    const permit = permits === null\n      ? unavailable\n",
      "    const permit = permits === null\n      ? begin\n"
    )
    .foundBy(unit("submission/providers/RequestPermits")),
  plant("each request of a fence takes a permit of the provider's limit", "src/submission/reads/askForStatus.ts")
    .edit("Effect.provideService(call, NextRequest, next)", "call")
    .foundBy(unit("submission/reads/Fences", "waits for a permit of its own before each request")),
  plant("each further page of a status read takes a permit of the provider's limit", httpStatusReads)
    .edit("    yield* goesOn\n    const status", "    const status")
    .foundBy(unit("submission/http/HttpProviderAnswers", "that goes on takes a permit")),
  plant("the end of the time after a first answer is no network failure", "src/submission/reads/askForStatus.ts")
    .edit("isAnswered ? \"unclear\" : \"unreachable\"", "\"unreachable\"")
    .foundBy(unit("submission/reads/Reconciler", "after a first answer")),
  plant("a fence without another permit sends no further request", "src/submission/http/HttpCall.ts")
    .edit("    mayBegin\n      ? Effect.void", "    mayBegin !== null\n      ? Effect.void")
    .foundBy(unit("banks/FenceAnswers", "if the limit has permits for no more")),
  plant("a permit that is late is lost", requests)
    .edit("return (yield* elapsed(askedAt)) > millis + slack / 2000 ? wait(0) : begin", "return begin")
    .foundBy(unit("submission/providers/RequestPermits")),
  plant("a permit is never used while the provider has asked for a pause", requests)
    .edit(
      "    const pause = yield* pauseLeft(state)\n    if (pause > 0) return wait(pause)\n    return (yield*",
      "    return (yield*"
    )
    .foundBy(unit("submission/providers/RequestPermits")),
  plant(
    "a pause of a provider has one line when it begins and one when it ends, and none for each claim",
    submissionWorker
  )
    .edit("if (services.pauses.countReturn(provider)) return", "if (!services.pauses.countReturn(provider)) return")
    .foundBy(unit("submission/attempts/WrongClocks", "sends nothing, returns its claims")),
  plant(
    "the log line of a request that the gateway failed to answer names the cause",
    "src/server/gate/ProblemResponses.ts"
  )
    .edit("...cause === undefined ? {} : { cause }", "")
    .foundBy(unit("server/gate/Failures", "is 503 with Retry-After")),
  plant("a circuit whose store is away stops nothing", circuit)
    .edit("Effect.orElseSucceed(() => Infinity)", "Effect.orElseSucceed(() => 0)")
    .foundBy(unit("submission/providers/Circuit", "A circuit whose store cannot be read")),
  plant("a pause that a provider asked for holds for all processes", requests)
    .edit("limits.closeProvider(provider, pause)", "limits.closeProvider(provider, Duration.zero)")
    .foundBy(unit("submission/providers/RequestPermits", "of a refusal pauses the provider for so long")),
  plant(
    "a worker whose witness admits no claim probes a paused provider later",
    "src/submission/attempts/claimOperations.ts"
  )
    .edit("      yield* pauses.release(probeOf)\n      return []", "      return []")
    .foundBy(unit("submission/attempts/LocalFailures", "A pause is probed again")),
  plant("a status read that the provider asks to repeat later opens no circuit", circuit)
    .edit("  if (exit.value.retryAfter !== undefined) return CircuitBreaker.ignored\n", "")
    .foundBy(unit("submission/providers/Circuit", "among status reads")),
  plant("a local failure never counts for the circuit of a provider", circuit)
    .edit("    ? error.isLocal === true || error.isPermanent", "    ? error.isPermanent")
    .foundBy(unit("submission/providers/Circuit")),
  plant("the first undeclared answer that refuses the credentials pauses the provider", providerPauses)
    .edit("error.isUnauthorized === true ? mostUndeclared : 1", "1")
    .foundBy(unit("submission/attempts/UndeclaredAnswers")),
  plant("an unreachable provider has one line in the log for each cause", providerPauses)
    .edit("return outage?.cause === unreachable\n", "return outage === undefined\n")
    .foundBy(unit("submission/attempts/SubmissionWorker", "logs one line for each cause")),
  plant("the payload of one owner does not pause the provider", "src/submission/http/HttpPreparation.ts")
    .edit(
      "`${pauseReasons.payload} ${type}: ${detail}`, isOfOperation: true",
      "`${pauseReasons.payload} ${type}: ${detail}`"
    )
    .foundBy(unit("submission/http/HttpProviderPayloads", "fits no more")),
  plant("a payload that fits no request does not pause the provider", "src/submission/http/HttpPreparation.ts")
    .edit("${detail}`, isOfOperation }", "${detail}`, isOfOperation: false }")
    .foundBy(unit("submission/http/HttpProviderPayloads", "A request that cannot be built")),
  plant("a wrong key to sign with pauses the provider at once", "src/submission/http/HttpRequest.ts")
    .edit("sameForAll(sign(body.body))", "sign(body.body)")
    .foundBy(unit("submission/http/HttpProviderPayloads", "because it cannot be signed")),
  plant("credentials of all that are no header pause the provider at once", "src/submission/http/HttpCall.ts")
    .edit("    Effect.tap((found) => prepareRequest(checkCredentials(found))),\n", "")
    .foundBy(unit("submission/http/HttpProviderPayloads", "for a header are a local failure")),
  plant("operations of one owner that cannot be sent have one line for each reason", submissionWorker)
    .edit("isOfOperation ? logOnce(", "isOfOperation && reason === \"\" ? logOnce(")
    .foundBy(unit("submission/attempts/LocalFailures", "A client whose payments fail by its own text")),
  plant("an undeclared type of one owner does not pause the provider", "src/submission/http/HttpPreparation.ts")
    .edit("`${pauseReasons.type} ${type}`, isOfOperation: true", "`${pauseReasons.type} ${type}`")
    .foundBy(unit("submission/http/HttpProviderPayloads", "a type that it does not declare")),
  plant("the credentials of one owner do not pause the provider", providerPauses)
    .edit("failed.length < mostOwners", "failed.length < 1")
    .foundBy(unit("submission/attempts/LocalFailures", "the credentials of its owner")),
  plant("all operations of one owner together do not pause the provider", providerPauses)
    .edit("[resource_owner, id] as const", "[id as never, id] as const")
    .foundBy(unit("submission/attempts/LocalFailures", "A client whose payments fail by its own text")),
  plant("an undeclared 401 of one owner's credentials counts as one undeclared answer", httpProvider)
    .edit(" && adapter.options.credentialsOf !== \"operation\"", "")
    .foundBy(unit("submission/http/HttpProviderAnswers", "401 with JSON")),
  plant("refused credentials of five owners without a declared answer pause the provider", providerPauses)
    .edit("failed.length < mostOwners", "failed.length <= mostOwners")
    .foundBy(unit("submission/attempts/LocalFailures", "the credentials of its owner")),
  plant("a pause for the credentials of owners names the operations", providerPauses)
    .edit("` (operations ${failed.join(\", \")})`", "\"\"")
    .foundBy(unit("submission/attempts/LocalFailures", "the credentials of its owner")),
  plant(
    "pauses of several workers for the same reason are one problem, though they name other operations",
    "src/domain/operators/findProblems.ts"
  )
    .edit("reason.replace(namedOperations, \"\")", "reason")
    .foundBy(unit("domain/operators/FindProblems", "tells once of workers")),
  plant("a declared answer ends the count of failures of credentials", providerPauses)
    .edit("{ undeclared: 0, ofOperation: new Map() }", "{ undeclared: 0 }")
    .foundBy(unit("submission/attempts/LocalFailures", "the credentials of its owner")),
  plant("the application of the template runs its fake bank only with the embedded PostgreSQL", templateProviders)
    .edit("  if (!isEmbedded) {", "  if (!isEmbedded && url === null && key === null) {")
    .foundBy(long("examples/template", "refuses to start without BANK_URL or BANK_KEY")),
  plant("the application of the template prints no token that pays at a bank", "template/src/Invitation.ts")
    .edit("  if (fake === null) return\n", "")
    .foundBy(long("examples/template", "prints no token")),
  plant("the payments example prints no token that pays at a bank", "examples/payments/main.ts")
    .edit("  if ((yield* bankAddress) !== null) return\n", "")
    .foundBy(system("node/GatewayApp", "connects as the documented roles")),
  plant("the sandbox of the payments example settles no real operation", "examples/payments/main.ts")
    .edit("  if (isEmbedded) return null\n", "  if (isEmbedded || !isEmbedded) return null\n")
    .foundBy(system("node/GatewayApp", "does not start beside a database")),
  plant("the application of the template needs nothing of the folder of its fake bank", templateProviders)
    .edit("existsSync(fakeBankFile)", "existsSync(new URL(\".\", import.meta.url))")
    .foundBy(long("examples/template", "without the folder")),
  plant("the application of the template names the setting of a wrong address", templateProviders)
    .edit("url: requireAddress(\"BANK_URL\", url)", "url")
    .foundBy(long("examples/template", "names BANK_URL and the remedy")),
  plant("a currency has its own digits in minor units: 750 yen are 750", "src/domain/Terms.ts")
    .edit("? minorUnits(amount, digits) : NaN", "? minorUnits(amount, 2) : NaN")
    .foundBy(unit("domain/Terms", "the smallest unit")),
  plant("an adapter that accepts a currency without decimals tests one", "src/testing/submissionCases.ts")
    .edit("|| expects.some((one) => isWhole(one.payload))", "|| expects.length > 0")
    .foundBy(unit("testing/WholeCurrencies")),
  plant("submit of the fetch client ignores no unknown member", "src/client/FetchClient.ts")
    .edit("  if (unknown !== undefined) {", "  if (unknown === null) {")
    .foundBy(unit("client/FetchClient")),
  plant("operators see the host and port of a provider that cannot be reached", "src/submission/http/HttpCall.ts")
    .edit("? new URL(request.url).host", "? null")
    .foundBy(unit("submission/http/HttpProviderPayloads", "A connection that is never made")),
  plant("the report of an open circuit tells why the last attempt could not reach the provider", workerReports)
    .edit("away === null ? pauseReasons.circuit", "away !== null ? pauseReasons.circuit")
    .foundBy(unit("submission/WorkerReports", "A process reports why a provider is paused")),
  plant("the request that a 404 names has no id, account or secret", "src/submission/http/HttpCall.ts")
    .edit("segment.length > 40 || ", "segment.length > 400 && ")
    .foundBy(unit("submission/http/HttpProviderAnswers")),
  plant("after a local failure at most one operation probes a provider", providerPauses)
    .edit("      pause.isProbing = true\n", "")
    .foundBy(unit("submission/attempts/LocalFailures", "is probed by no second operation")),
  plant("answers in a row that the adapter does not declare pause the provider", providerPauses)
    .edit("    return (undeclared ?? 0) < mostUndeclared", "    return (undeclared ?? 0) < 100 * mostUndeclared")
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "pause the provider after five in a row")),
  plant("a wrong path of the bank pauses the provider before any operation is sent", providerPauses)
    .edit("      yield* fail(provider, null, { cause: \"undeclared_answers\", reason, isProbed: true })\n", "")
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "pauses the provider without a submission")),
  plant("no operation is sent to a provider while its probe fails", providerPauses)
    .edit("      if (hasWrongPath(pause.failure) || pause.isProbing ||", "      if (pause.isProbing ||")
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "pauses the provider without a submission")),
  plant("a wrong key that the probe finds pauses the provider", httpStatusReads)
    .edit("      return Effect.succeed(status.detail)\n", "      return Effect.succeed(null)\n")
    .foundBy(unit("submission/http/HttpProviderAnswers", "reads a status, and tells of a refused key")),
  plant("a wrong key that the probe finds does not stop an operation from trying", providerPauses)
    .edit("isProbed === true && cause === \"undeclared_answers\"", "isProbed === true")
    .foundBy(
      unit("submission/attempts/UndeclaredAnswers", "refused credentials, and lets one operation at a time try")
    ),
  plant("a probe without an answer is none that passed", submissionWorker)
    .edit("(yield* ask) === null)", "(yield* ask) == null)")
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "pauses the provider without a submission")),
  plant(
    "the probe of an adapter tells a provider that gives no answer from one that nothing speaks against",
    httpStatusReads
  )
    .edit("if (status._tag === \"NotProven\" && status.reason === \"unreachable\") return Effect.fail(status)\n", "")
    .foundBy(unit("submission/http/HttpProviderAnswers", "probe")),
  plant("only a declared answer ends the pause after undeclared ones, also after a local failure", providerPauses)
    .edit(
      "    return (undeclared ?? 0) < mostUndeclared",
      "    return stateOf(provider).pause?.failure.cause === \"local_failure\" || (undeclared ?? 0) < mostUndeclared"
    )
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "pause the provider until the first declared one")),
  plant("an answer that names another operation counts as undeclared", providerPauses)
    .edit("      if (other !== null) return", "      if (other === undefined) return")
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "pause the provider until the first declared one")),
  plant("status reads do not reset the count of submissions without an answer", circuit)
    .edit("kind === \"reads\" ? `${provider} reads` : provider", "provider")
    .foundBy(unit("submission/providers/Circuit", "opens after five submissions without an answer")),
  plant("a declared answer that leaves the outcome unknown keeps the circuit closed", circuit)
    .edit(
      "if (error?._tag === \"Uncertain\" && error.isAnswer === true)",
      "if (error?._tag === \"Uncertain\" && error.isAnswer === false)"
    )
    .foundBy(unit("submission/providers/Circuit", "stays closed after declared answers")),
  plant("only a declared answer below 500 shows that a provider works", httpProvider)
    .edit("failure.isUndeclared !== true && status < 500", "failure.isUndeclared !== true && status <= 500")
    .foundBy(unit("submission/http/HttpProviderAnswers", "A declared answer that leaves the outcome unknown")),
  plant("submissions do not reset the count of status reads without an answer", circuit)
    .edit("ofReads === Infinity || outcome._tag", "outcome._tag")
    .foundBy(unit("submission/providers/Circuit", "opens after five status reads without an answer")),
  plant("a submission that opens its own circuit leaves the probe of the status reads to a read", circuit)
    .edit("ofReads === Infinity || outcome._tag === \"Failure\" && ofOwn < Infinity", "ofReads === Infinity")
    .foundBy(unit("submission/providers/Circuit", "stays half open for a read")),
  plant("undeclared answers reach five operations of a backlog at most", providerPauses)
    .edit("if (undeclared !== 0 && state.underWay", "if (undeclared === -1 && state.underWay")
    .foundBy(unit("submission/attempts/UndeclaredAnswers", "cannot surprise many operations at once")),
  plant("of the failures of a repeated statement, one a minute is logged", "src/submission/storeStatements.ts")
    .edit("if (loggedAt !== null && (yield* elapsed(loggedAt)) < quiet) return", "")
    .foundBy(unit("submission/WorkerReports", "whose reports fail logs that once")),
  plant("the report of a process that stops is removed after the last one was stored", workerReports)
    .edit("oneAtATime.withPermit(forgetWorker(process_id))", "forgetWorker(process_id)")
    .foundBy(unit("submission/WorkerReports", "under way at the stop is removed")),
  plant("a worker tells operators why a provider is paused", workerReports)
    .edit("pauses.reasonOf(provider) ?? (isOpen", "(isOpen")
    .foundBy(unit("submission/WorkerReports", "A process reports why a provider is paused")),
  plant("no client takes all slots of the gateway", lifecycle)
    .edit("      if (inFlightOf.of(client) >= options.maxInFlightPerClient) return false\n", "")
    .foundBy(unit("server/gate/Lifecycle"), unit("server/gate/Limits")),
  plant("a request beyond the limit is refused, never queued", lifecycle)
    .edit(
      "if (draining || inFlight >= options.maxInFlight) return null",
      "if (draining || inFlight > options.maxInFlight) return null"
    )
    .foundBy(unit("server/gate/Lifecycle"), unit("server/gate/Limits")),
  plant("a request that leaves always frees its slots, once", lifecycle)
    .edit("      if (!request.isParked) freeSlots(request)\n", "      freeSlots(request)\n")
    .foundBy(unit("server/gate/Lifecycle"), unit("server/waits/Waits")),
  plant("the drain ends also requests that wait, and those whose bodies arrive", lifecycle)
    .edit(
      "for (const request of [...running.all(), ...parked.all()]) interrupt(request)",
      "for (const request of running.all()) interrupt(request)"
    )
    .foundBy(unit("server/gate/Lifecycle", "wait or receive a body")),
  plant("a shorter Retry-After never ends a longer pause of the process", requests)
    .edit("    if (left >= millis) return\n", "")
    .foundBy(unit("submission/providers/RequestPermits", "ends no longer pause")),
  plant("a status read that got no permit comes after the first delay", "src/submission/reads/Reconciler.ts")
    .edit("answer === null || answer._tag === \"Known\" ? 0 : due.reads", "answer?._tag === \"Known\" ? 0 : due.reads")
    .foundBy(unit("submission/providers/RequestPermits", "after the first delay")),
  plant("a deadline counts by the monotonic clock", lifecycle)
    .edit(
      "const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6",
      "const now = () => clock.currentTimeMillisUnsafe()"
    )
    .foundBy(unit("server/gate/Lifecycle")),
  plant("a refused request costs no quota", "src/server/gate/RateLimits.ts")
    .edit("bucket.used = after > all ? before : after", "bucket.used = Math.min(after, all + request)")
    .foundBy(unit("server/gate/RateLimits")),
  plant("a quota belongs to client and subject", "src/server/gate/RateLimits.ts")
    .edit("`${client_id} ${subject}`", "`${client_id}`")
    .foundBy(unit("server/gate/RateLimits", "share their quota among all of their grants")),
  plant("only a trusted proxy names the address of a client", "src/server/gate/ClientAddress.ts")
    .edit("while (forwarded !== \"\" && isTrusted(NetAddress.formatIp(address))) {", "while (forwarded !== \"\") {")
    .foundBy(unit("server/gate/TrustedProxies"), unit("server/gate/Quotas")),
  plant("a pause and a refund give no more than the burst of a quota", "src/server/gate/RateLimits.ts")
    .edit(
      "Math.max(0, bucket.used - Math.max(0, now - bucket.at) * requests)",
      "bucket.used - Math.max(0, now - bucket.at) * requests"
    )
    .foundBy(unit("server/gate/Quotas")),
  plant("a quota goes on from a clock that was set back", "src/server/gate/RateLimits.ts")
    .edit("Math.max(0, now - bucket.at) * requests", "(now - bucket.at) * requests")
    .foundBy(unit("server/gate/Quotas")),
  plant("the OpenAPI document states the statuses that exist, and no other", "src/api/SystemApi.ts")
    .edit(
      "error: problems(\"not_ready\", \"service_unavailable\")",
      "error: problems(\"not_ready\", \"service_unavailable\", \"request_timeout\")"
    )
    .foundBy(unit("server/DocumentedStatuses")),
  plant("probes ignore Accept", "src/server/gate/Gate.ts")
    .edit("!codesOf(endpoint).has(\"not_acceptable\")", "!codesOf(endpoint).has(\"malformed_request\")")
    .foundBy(unit("server/gate/Negotiation", "is ignored by /healthz and /readyz")),
  plant("a credential is verified before Accept", "src/server/gate/Gate.ts")
    .edit(
      "      if (readsBody) guardBody(request, admitted.slot)\n",
      "      if (!acceptsJson(request.headers)) return problems.fail(\"not_acceptable\")\n"
    )
    .foundBy(
      unit("server/gate/Negotiation", "is checked after the credential"),
      unit("server/gate/RateLimits", "Refused credentials of an address")
    ),
  plant("endpoints that check the rest of a request themselves leave Accept to the gate", "src/server/gate/Gate.ts")
    .edit("if (!isAcceptable(request.headers)) return", "if (!decodesAll && !isAcceptable(request.headers)) return")
    .foundBy(unit("server/DocumentedStatuses")),
  plant("every problem of the OpenAPI document is ProblemDetails", "src/api/OpenApiDocument.ts")
    .edit("{ $ref: \"#/components/schemas/ProblemDetails\" },", "")
    .foundBy(system("api/OpenApi", "of ProblemDetails, with its codes and its status")),
  plant("the document names the codes that an endpoint declares", "src/api/OperationsApi.ts")
    .edit("error: problems(...refusedGrants, \"invalid_page_token\")", "error: problems(...refusedGrants)")
    .foundBy(system("api/OpenApi", ", and an example for every code")),
  plant("clients read answers whose Vary or Location did not reach them", "src/api/OperationsApi.ts")
    .edit(
      "Schema.optionalKey(Schema.String.annotate({ description, isAlwaysSent: true }))",
      "Schema.String.annotate({ description, isAlwaysSent: true })"
    )
    .foundBy(unit("api/Client")),
  plant("the document requires the headers that the gateway always sends", "src/api/OpenApiDocument.ts")
    .edit("header.required || sent.includes(name)", "header.required")
    .foundBy(unit("api/MutationEndpoint")),
  plant("an endpoint with a body answers another media type with a complete problem", "src/server/gate/Gate.ts")
    .edit("if (types !== null && !types.has(", "if (types?.size === 0 && !types.has(")
    .foundBy(unit("server/ComposedApplication", "refuses another media type")),
  plant("an endpoint with a body refuses an unknown query", "src/server/gate/Gate.ts")
    .edit("decodesAll = types !== null && (isChecked ||", "decodesAll = types !== null && (!isChecked ||")
    .foundBy(unit("server/ComposedApplication", "refuses another media type")),
  plant("an overlong Accept counts as absent", "src/server/gate/RequestChecks.ts")
    .edit(".mediaType([...types]) : types[0]", ".mediaType([...types]) : undefined")
    .foundBy(
      unit("server/gate/Negotiation", "that is longer than 1024 characters counts as absent"),
      unit("server/gate/PreferredForm", "for a missing one")
    ),
  plant(
    "an overlong Accept counts as absent, also where it chooses between JSON and events",
    "src/server/agents/McpHeaders.ts"
  )
    .edit("preferredType(accept, [\"text/event-stream\"]) !== undefined", "accept.includes(\"text/event-stream\")")
    .foundBy(unit("server/agents/McpTransport", "answers in JSON or events")),
  plant("an empty Accept takes every form", "src/server/gate/RequestChecks.ts")
    .edit(" || emptyList.test(accept)\n", "\n")
    .foundBy(unit("server/gate/Negotiation", "that allows JSON in any form")),
  plant("a forged page token of any length is invalid_page_token", "src/api/OperationsApi.ts")
    .edit(
      "page_token: Schema.optionalKey(\n    Schema.String.annotate(",
      "page_token: Schema.optionalKey(\n    Schema.String.check(Schema.isMaxLength(512)).annotate("
    )
    .foundBy(unit("server/gate/Limits", "bound a page token by the target alone")),
  plant("the document tells the form of an instant", "src/api/OperationsApi.ts")
    .edit("toJsonSchema: () => ({ pattern: instantPattern.source })", "toJsonSchema: () => ({})")
    .foundBy(system("api/OpenApi", "tells by a pattern"))
]
