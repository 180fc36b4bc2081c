/** Mistakes in limits: of providers, which all workers share, and of clients, which never take the share of others. */
import { long, type Plant, postgres, system, unit } from "../Plant.ts"

const permits = "src/services/rules/providerPermits.ts"
const sql = "src/services/sql/queue/SqlSubmissionQueue.ts"
const requests = "src/submission/providers/RequestPermits.ts"
const lifecycle = "src/server/gate/Lifecycle.ts"
const circuit = "src/submission/providers/Circuit.ts"

export const limits: ReadonlyArray<Plant> = [
  {
    rule: "an agent whose payment a limit refuses reads what remains, not a refusal of its access",
    file: "src/server/agents/GrantReads.ts",
    from: "if (isDenied && !(refusedByLimits as ReadonlyArray<ProblemCode>).includes(problem.code)) denial = problem",
    to: "if (isDenied) denial = problem",
    tests: [long("examples/paymentsTool", "not to split the amount")]
  },
  {
    rule: "in memory, an operation with an uncertain outcome keeps its amount",
    file: "src/services/memory/recordRules.ts",
    from: "state !== \"failed\" && state !== \"cancelled\" ? [reservation]",
    to: "![\"failed\", \"cancelled\", \"indeterminate\"].includes(state) ? [reservation]",
    tests: [system("simulation/Simulation", "keep the limits of grants")]
  },
  {
    rule: "in memory, a cancelled operation gives its amount back",
    file: "src/services/memory/recordRules.ts",
    from: "state !== \"failed\" && state !== \"cancelled\" ? [reservation]",
    to: "state !== \"failed\" ? [reservation]",
    tests: [system("simulation/Simulation", "keep the limits of grants")]
  },
  {
    rule: "a credential whose limits the database cannot hold is refused, not a defect",
    file: "src/services/sql/limitRows.ts",
    from: "sqlState(error) === \"22023\"",
    to: "sqlState(error) === \"\"",
    tests: [postgres("services/ledger/Limits", "refuses limits in it")]
  },
  {
    rule: "the description of the API tells that a limit begins anew at an instant",
    file: "src/domain/AuthorizationDetails.ts",
    from: "  resets_at: Schema.NullOr(Timestamp)\n})\nexport",
    to: "  resets_at: Schema.NullOr(Schema.DateTimeUtcFromString)\n})\nexport",
    tests: [system("api/OpenApi", "tells an instant")]
  },
  {
    rule: "an operation without terms is refused because its endpoint declares none",
    file: "src/server/gate/Refusals.ts",
    from: "return problems.fail(\"terms_required\")",
    to: "return problems.fail(\"payee_not_allowed\") as Effect.Effect<never>",
    tests: [unit("server/ComposedApplication", "each refusal by limits")]
  },
  {
    rule: "limits are read by one statement, which checks the grant",
    file: "src/services/sql/reads/SqlOperationStore.ts",
    from: "        const refused = refusalOf(grant, row?.standing)\n",
    to: "        const refused = row === undefined ? refusalOf(grant, undefined) : null\n",
    tests: [postgres("services/reads/GrantStandings"), postgres("server/GrantStanding")]
  },
  {
    rule: "an event gives a grant no other limits",
    file: "migrations/0036_registered_limits.sql",
    from: "g.authorization_details <> p_details",
    to: "g.authorization_details IS NULL",
    tests: [postgres("services/grants/GrantsRegistration", "with different limits concurrently")]
  },
  {
    rule: "a registration with other limits of an event changes nothing",
    file: "src/services/rules/grantRules.ts",
    from: "(learned_from === \"token\" || !hasOtherLimits(known, registration))",
    to: "(learned_from === \"token\" || true)",
    tests: [postgres("services/grants/GrantsRegistration", "gives limits once")]
  },
  {
    rule: "a token gives a grant no other limits",
    file: "migrations/0036_registered_limits.sql",
    from: " AND g.authorization_details IS NULL",
    to: "",
    tests: [postgres("services/grants/GrantsRegistration", "gives limits once")]
  },
  {
    rule: "the command line gives the limits to the grant",
    file: "src/cli/grants/GrantsCommand.ts",
    from: "return { authorization_details: details }",
    to: "return {}",
    tests: [system("cli/GrantLimits", "limits the grant")]
  },
  {
    rule: "a document without limits issues no grant without limits",
    file: "src/cli/grants/GrantsCommand.ts",
    from: "return yield* new CommandFailed({ message: `--limits: no object has the type ${financialOperations}` })",
    to: "return {}",
    tests: [system("cli/GrantLimits", "issues no grant by limits")]
  },
  {
    rule: "a permit of a provider is given at most once, to all processes together",
    file: sql,
    from: " AND shared_until = $2::float8 AND",
    to: " AND",
    tests: [postgres("services/queue/ProviderLimits")]
  },
  {
    rule: "a shorter pause never ends a longer one",
    file: sql,
    from:
      "SET closed_until = greatest(l.closed_until, excluded.closed_until)\n  WHERE l.closed_until < excluded.closed_until`",
    to: "SET closed_until = excluded.closed_until`",
    tests: [postgres("services/queue/ProviderLimits")]
  },
  {
    rule: "no permit of a provider comes before the end of its pause",
    file: permits,
    from: "Math.max(Math.min(until, horizon + burst * spacing), opens)",
    to: "Math.min(until, horizon + burst * spacing)",
    tests: [unit("services/ProviderPermits")]
  },
  {
    rule: "status reads never take the reserved permits of submissions",
    file: permits,
    from: "const idle = permitsUntil(0, shared +",
    to: "const idle = permitsUntil(horizon, shared +",
    tests: [unit("services/ProviderPermits"), postgres("services/queue/ProviderLimits")]
  },
  {
    rule: "nothing is sent while the database reserves no permit",
    file: requests,
    from: "    const turn = permits === null\n      ? unavailable\n",
    to: "    const turn = permits === null\n      ? begin\n",
    tests: [unit("submission/providers/RequestPermits")]
  },
  {
    rule: "each request of a fence takes a permit of the provider's limit",
    file: "src/submission/reads/askForStatus.ts",
    from: "Effect.provideService(call, NextRequest, next)",
    to: "call",
    tests: [unit("submission/reads/Fences", "waits for a permit of its own before each request")]
  },
  {
    rule: "each further page of a status read takes a permit of the provider's limit",
    file: "src/submission/http/HttpStatusReads.ts",
    from: "    yield* goesOn\n    const status",
    to: "    const status",
    tests: [unit("submission/http/HttpProviderAnswers", "that goes on takes a permit")]
  },
  {
    rule: "the end of the time after a first answer is no network failure",
    file: "src/submission/reads/askForStatus.ts",
    from: "isAnswered ? \"unclear\" : \"unreachable\"",
    to: "\"unreachable\"",
    tests: [unit("submission/reads/Reconciler", "after a first answer")]
  },
  {
    rule: "a fence without another permit sends no further request",
    file: "src/submission/http/HttpCall.ts",
    from: "    mayBegin\n      ? Effect.void",
    to: "    mayBegin !== null\n      ? Effect.void",
    tests: [unit("banks/Fences", "if the limit has permits for no more")]
  },
  {
    rule: "a permit that is late is lost",
    file: requests,
    from: "return (yield* elapsed(askedAt)) > millis + slack / 2000 ? wait(0) : begin",
    to: "return begin",
    tests: [unit("submission/providers/RequestPermits")]
  },
  {
    rule: "a permit is never used while the provider has asked for a pause",
    file: requests,
    from: "    const pause = yield* pauseLeft(state)\n    if (pause > 0) return wait(pause)\n    return (yield*",
    to: "    return (yield*",
    tests: [unit("submission/providers/RequestPermits")]
  },
  {
    rule: "a pause of a provider has one line when it begins and one when it ends, and none for each claim",
    file: "src/submission/attempts/SubmissionWorker.ts",
    from: "return services.pauses.countReturn(provider)",
    to: "return !services.pauses.countReturn(provider)",
    tests: [unit("submission/attempts/WrongClocks", "sends nothing, returns its claims")]
  },
  {
    rule: "the log line of a request that the gateway failed to answer names the cause",
    file: "src/server/gate/ProblemResponses.ts",
    from: "...cause === undefined ? {} : { cause }",
    to: "",
    tests: [unit("server/gate/Failures", "is 503 service_unavailable with Retry-After")]
  },
  {
    rule: "a local failure never counts for the circuit of a provider",
    file: circuit,
    from: "    ? error.isLocal === true || error.isPermanent",
    to: "    ? error.isPermanent",
    tests: [unit("submission/providers/Circuit")]
  },
  {
    rule: "the first undeclared answer that refuses the credentials pauses the provider",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "error.isUnauthorized === true ? mostUndeclared : 1",
    to: "1",
    tests: [unit("submission/attempts/UndeclaredAnswers")]
  },
  {
    rule: "an unreachable provider has one line in the log for each cause",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "return outage?.cause === unreachable\n",
    to: "return outage === undefined\n",
    tests: [unit("submission/attempts/SubmissionWorker", "logs one line for each cause")]
  },
  {
    rule: "the credentials of one owner do not pause the provider",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "failed.length < mostOfOperation",
    to: "failed.length < 1",
    tests: [unit("submission/attempts/LocalFailures", "the credentials of its owner")]
  },
  {
    rule: "an undeclared 401 of one owner's credentials counts as one undeclared answer",
    file: "src/submission/http/HttpProvider.ts",
    from: " && adapter.options.credentialsOf !== \"operation\"",
    to: "",
    tests: [unit("submission/http/HttpProviderAnswers", "401 with JSON")]
  },
  {
    rule: "the fifth failure of credentials without a declared answer pauses the provider",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "failed.length < mostOfOperation",
    to: "failed.length <= mostOfOperation",
    tests: [unit("submission/attempts/LocalFailures", "the credentials of its owner")]
  },
  {
    rule: "a pause for the credentials of owners names the operations",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "` (operations ${[...new Set(failed)].join(\", \")})`",
    to: "\"\"",
    tests: [unit("submission/attempts/LocalFailures", "the credentials of its owner")]
  },
  {
    rule: "pauses of several workers for the same reason are one problem, though they name other operations",
    file: "src/domain/operators/findProblems.ts",
    from: "reason.replace(namedOperations, \"\")",
    to: "reason",
    tests: [unit("cli/status/StatusProblems", "tells once of workers")]
  },
  {
    rule: "a declared answer ends the count of failures of credentials",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "{ undeclared: 0, ofOperation: [] }",
    to: "{ undeclared: 0 }",
    tests: [unit("submission/attempts/LocalFailures", "the credentials of its owner")]
  },
  {
    rule: "the application of the template runs its fake bank only with the embedded PostgreSQL",
    file: "template/src/Providers.ts",
    from: "if (!isEmbedded && (url === null || key === null))",
    to: "if (!isEmbedded && url === null && key === null)",
    tests: [system("cli/Template", "refuses to start without BANK_URL or BANK_KEY")]
  },
  {
    rule: "the application of the template names the setting of a wrong address",
    file: "template/src/Providers.ts",
    from: ": requireAddress(\"BANK_URL\", url)",
    to: ": url",
    tests: [system("cli/Template", "names BANK_URL and the remedy")]
  },
  {
    rule: "a currency has its own digits in minor units: 750 yen are 750",
    file: "src/domain/Terms.ts",
    from: "? minorUnits(amount, digits) : NaN",
    to: "? minorUnits(amount, 2) : NaN",
    tests: [unit("domain/Terms", "the smallest unit")]
  },
  {
    rule: "an adapter that accepts a currency without decimals tests one",
    file: "src/testing/submissionCases.ts",
    from: "|| expects.some((one) => isWhole(one.payload))",
    to: "|| expects.length > 0",
    tests: [unit("testing/WholeCurrencies")]
  },
  {
    rule: "submit of the fetch client ignores no unknown member",
    file: "src/client/FetchClient.ts",
    from: "  if (unknown !== undefined) {",
    to: "  if (unknown === null) {",
    tests: [unit("client/FetchClient")]
  },
  {
    rule: "operators see the host and port of a provider that cannot be reached",
    file: "src/submission/http/HttpCall.ts",
    from: "? new URL(request.url).host",
    to: "? null",
    tests: [unit("submission/http/HttpProviderPayloads", "A connection that is never made")]
  },
  {
    rule: "the report of an open circuit tells why the last attempt could not reach the provider",
    file: "src/submission/WorkerReports.ts",
    from: "away === null ? pauseReasons.circuit",
    to: "away !== null ? pauseReasons.circuit",
    tests: [unit("submission/WorkerReports", "A process reports why a provider is paused")]
  },
  {
    rule: "the request that a 404 names has no id, account or secret",
    file: "src/submission/http/HttpCall.ts",
    from: "segment.length > 40 || ",
    to: "segment.length > 400 && ",
    tests: [unit("submission/http/HttpProviderAnswers")]
  },
  {
    rule: "after a local failure at most one operation probes a provider",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "      pause.isProbing = true\n",
    to: "",
    tests: [unit("submission/attempts/LocalFailures", "is probed by no second operation")]
  },
  {
    rule: "answers in a row that the adapter does not declare pause the provider",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "    return (undeclared ?? 0) < mostUndeclared",
    to: "    return (undeclared ?? 0) < 100 * mostUndeclared",
    tests: [unit("submission/attempts/UndeclaredAnswers", "pause the provider after five in a row")]
  },
  {
    rule: "a wrong path of the bank pauses the provider before any operation is sent",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "      yield* fail(provider, null, { cause: \"undeclared_answers\", reason, isProbed: true })\n",
    to: "",
    tests: [unit("submission/attempts/UndeclaredAnswers", "pauses the provider without a submission")]
  },
  {
    rule: "no operation is sent to a provider while its probe fails",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "      if (hasWrongPath(pause.failure) || pause.isProbing ||",
    to: "      if (pause.isProbing ||",
    tests: [unit("submission/attempts/UndeclaredAnswers", "pauses the provider without a submission")]
  },
  {
    rule: "a wrong key that the probe finds pauses the provider",
    file: "src/submission/http/HttpStatusReads.ts",
    from: "      return Effect.succeed(status.detail)\n",
    to: "      return Effect.succeed(null)\n",
    tests: [unit("submission/http/HttpProviderAnswers", "reads a status, and tells of a refused key")]
  },
  {
    rule: "a wrong key that the probe finds does not stop an operation from trying",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "isProbed === true && cause === \"undeclared_answers\"",
    to: "isProbed === true",
    tests: [unit("submission/attempts/UndeclaredAnswers", "refused credentials, and lets one operation at a time try")]
  },
  {
    rule: "a probe without an answer is none that passed",
    file: "src/submission/attempts/SubmissionWorker.ts",
    from: "(yield* ask) === null)",
    to: "(yield* ask) == null)",
    tests: [unit("submission/attempts/UndeclaredAnswers", "pauses the provider without a submission")]
  },
  {
    rule: "the probe of an adapter tells a provider that gives no answer from one that nothing speaks against",
    file: "src/submission/http/HttpStatusReads.ts",
    from: "if (status._tag === \"NotProven\" && status.reason === \"unreachable\") return Effect.fail(status)\n",
    to: "",
    tests: [unit("submission/http/HttpProviderAnswers", "probe")]
  },
  {
    rule: "only a declared answer ends the pause after undeclared ones, also after a local failure",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "    return (undeclared ?? 0) < mostUndeclared",
    to: "    return stateOf(provider).pause?.failure.cause === \"local_failure\" || (undeclared ?? 0) < mostUndeclared",
    tests: [unit("submission/attempts/UndeclaredAnswers", "pause the provider until the first declared one")]
  },
  {
    rule: "an answer that names another operation counts as undeclared",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "      if (other !== null) return",
    to: "      if (other === undefined) return",
    tests: [unit("submission/attempts/UndeclaredAnswers", "pause the provider until the first declared one")]
  },
  {
    rule: "status reads do not reset the count of submissions without an answer",
    file: circuit,
    from: "kind === \"reads\" ? `${provider} reads` : provider",
    to: "provider",
    tests: [unit("submission/providers/Circuit", "opens after five submissions without an answer")]
  },
  {
    rule: "a declared answer that leaves the outcome unknown keeps the circuit closed",
    file: circuit,
    from: "if (error?._tag === \"Uncertain\" && error.isAnswer === true)",
    to: "if (error?._tag === \"Uncertain\" && error.isAnswer === false)",
    tests: [unit("submission/providers/Circuit", "stays closed after declared answers")]
  },
  {
    rule: "only a declared answer below 500 shows that a provider works",
    file: "src/submission/http/HttpProvider.ts",
    from: "failure.isUndeclared !== true && status < 500",
    to: "failure.isUndeclared !== true && status <= 500",
    tests: [unit("submission/http/HttpProviderAnswers", "A declared answer that leaves the outcome unknown")]
  },
  {
    rule: "submissions do not reset the count of status reads without an answer",
    file: circuit,
    from: "ofReads === Infinity || outcome._tag",
    to: "outcome._tag",
    tests: [unit("submission/providers/Circuit", "opens after five status reads without an answer")]
  },
  {
    rule: "a submission that opens its own circuit leaves the probe of the status reads to a read",
    file: circuit,
    from: "ofReads === Infinity || outcome._tag === \"Failure\" && ofOwn < Infinity",
    to: "ofReads === Infinity",
    tests: [unit("submission/providers/Circuit", "stays half open for a read")]
  },
  {
    rule: "undeclared answers reach five operations of a backlog at most",
    file: "src/submission/providers/ProviderPauses.ts",
    from: "if (undeclared !== 0 && state.underWay",
    to: "if (undeclared === -1 && state.underWay",
    tests: [unit("submission/attempts/UndeclaredAnswers", "cannot surprise many operations at once")]
  },
  {
    rule: "of the failures of a repeated statement, one a minute is logged",
    file: "src/submission/storeStatements.ts",
    from: "if (loggedAt !== null && (yield* elapsed(loggedAt)) < quiet) return",
    to: "",
    tests: [unit("submission/WorkerReports", "whose reports fail logs that once")]
  },
  {
    rule: "the report of a process that stops is removed after the last one was stored",
    file: "src/submission/WorkerReports.ts",
    from: "turn.withPermit(forgetWorker(process_id))",
    to: "forgetWorker(process_id)",
    tests: [unit("submission/WorkerReports", "under way at the stop is removed")]
  },
  {
    rule: "a worker tells operators why a provider is paused",
    file: "src/submission/WorkerReports.ts",
    from: "pauses.reasonOf(provider) ?? (isOpen",
    to: "(isOpen",
    tests: [unit("submission/WorkerReports", "A process reports why a provider is paused")]
  },
  {
    rule: "no client takes all slots of the gateway",
    file: lifecycle,
    from: "      if (inFlightOf.of(client) >= options.maxInFlightPerClient) return false\n",
    to: "",
    tests: [unit("server/gate/Lifecycle"), unit("server/gate/Limits")]
  },
  {
    rule: "a request beyond the limit is refused, never queued",
    file: lifecycle,
    from: "if (draining || inFlight >= options.maxInFlight) return null",
    to: "if (draining || inFlight > options.maxInFlight) return null",
    tests: [unit("server/gate/Lifecycle"), unit("server/gate/Limits")]
  },
  {
    rule: "a request that leaves always frees its slots, once",
    file: lifecycle,
    from: "      if (!request.isParked) freeSlots(request)\n",
    to: "      freeSlots(request)\n",
    tests: [unit("server/gate/Lifecycle"), unit("server/waits/Waits")]
  },
  {
    rule: "a deadline counts by the monotonic clock",
    file: lifecycle,
    from: "const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6",
    to: "const now = () => clock.currentTimeMillisUnsafe()",
    tests: [unit("server/gate/Lifecycle")]
  },
  {
    rule: "a quota belongs to client and subject",
    file: "src/server/gate/RateLimits.ts",
    from: "`${client_id} ${subject}`",
    to: "`${client_id}`",
    tests: [unit("server/gate/RateLimits", "share their quota among all of their grants")]
  },
  {
    rule: "only a trusted proxy names the address of a client",
    file: "src/server/gate/ClientAddress.ts",
    from: "while (forwarded !== \"\" && isTrusted(NetAddress.formatIp(address))) {",
    to: "while (forwarded !== \"\") {",
    tests: [unit("server/gate/TrustedProxies"), unit("server/gate/Quotas")]
  },
  {
    rule: "a pause and a refund give no more than the burst of a quota",
    file: "src/server/gate/RateLimits.ts",
    from: "Math.max(0, bucket.used - Math.max(0, now - bucket.at) * requests)",
    to: "bucket.used - Math.max(0, now - bucket.at) * requests",
    tests: [unit("server/gate/Quotas")]
  },
  {
    rule: "a quota goes on from a clock that was set back",
    file: "src/server/gate/RateLimits.ts",
    from: "Math.max(0, now - bucket.at) * requests",
    to: "(now - bucket.at) * requests",
    tests: [unit("server/gate/Quotas")]
  },
  {
    rule: "the OpenAPI document states the statuses that exist, and no other",
    file: "src/api/SystemApi.ts",
    from: "error: problems(\"not_ready\", \"service_unavailable\")",
    to: "error: problems(\"not_ready\", \"service_unavailable\", \"request_timeout\")",
    tests: [unit("server/DocumentedStatuses")]
  },
  {
    rule: "probes ignore Accept",
    file: "src/server/gate/Gate.ts",
    from: "!codesOf(endpoint).has(\"not_acceptable\")",
    to: "!codesOf(endpoint).has(\"malformed_request\")",
    tests: [unit("server/gate/Negotiation", "is ignored by /healthz and /readyz")]
  },
  {
    rule: "every problem of the OpenAPI document is ProblemDetails",
    file: "src/api/OpenApiDocument.ts",
    from: "{ $ref: \"#/components/schemas/ProblemDetails\" },",
    to: "",
    tests: [system("api/OpenApi", "of ProblemDetails, with its codes and its status")]
  },
  {
    rule: "the document names the codes that an endpoint declares",
    file: "src/api/OperationsApi.ts",
    from: "error: problems(...refusedGrants, \"invalid_page_token\")",
    to: "error: problems(...refusedGrants)",
    tests: [system("api/OpenApi", ", and an example for every code")]
  }
]
