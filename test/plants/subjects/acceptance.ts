/** Mistakes in acceptances: a request binding always returns its operation, and only a good grant binds a key. */
import { long, type Plant, plant, postgres, story, unit } from "../Plant.ts"

const acceptances = "src/services/sql/ledger/SqlAcceptances.ts"

const limits = "migrations/0034_limits.sql"
const inPostgres = (name: string) => [postgres("services/ledger/LimitsInPostgres", name)]
const limitTests = (name: string) => [postgres("services/ledger/Limits", name)]
const mutationEndpoints = "src/server/mutations/MutationEndpoints.ts"
const mutationTool = "src/server/agents/MutationTool.ts"

export const acceptance: ReadonlyArray<Plant> = [
  plant("a repeated request is answered only if the grant is good in the statement that reads", acceptances)
    .edit("    if (refused !== null) return yield* refused\n    return new Map(", "    return new Map(")
    .foundBy(postgres("services/ledger/AcceptAllRaces", "yield nothing if the grant is refused")),
  plant("acceptances of a grant with limits take turns", limits)
    .edit(
      "IF NOT pg_try_advisory_xact_lock(hashtextextended(NEW.grant_id || ' ' || NEW.client_id, 33)) THEN",
      "IF false THEN"
    )
    .foundBy(...inPostgres("answer by no sums")),
  plant("each request of a batch uses up the limits for the next", limits)
    .edit(
      "o.limit_currency = v_currency AND o.created_at >= v_since",
      "o.limit_currency = v_currency AND o.created_at >= v_since AND o.created_at < p_at - interval '1 second'"
    )
    .foundBy(...inPostgres("answer as in memory")),
  plant("requests of a batch use up the limits in their order", acceptances)
    .edit(
      "CASE WHEN s.is_limited THEN '' ELSE r.key END COLLATE",
      "CASE WHEN s.is_limited THEN r.key ELSE r.key END COLLATE"
    )
    .foundBy(...inPostgres("answer as in memory")),
  plant("an operation of a grant with limits has an amount, of every program", limits)
    .edit(
      "WHEN (NEW.acceptance IS NOT NULL) EXECUTE",
      "WHEN (NEW.acceptance IS NOT NULL AND NEW.limit_amount IS NOT NULL) EXECUTE"
    )
    .foundBy(...inPostgres("hold for every other program")),
  plant("operations of another program exceed no budget together", limits)
    .edit("  IF v_limits IS NOT NULL OR NEW.acceptance IS NOT NULL THEN", "  IF NEW.acceptance IS NOT NULL THEN")
    .foundBy(...inPostgres("hold for every other program")),
  plant("no operation of another program is of a currency without a limit", limits)
    .edit("    WHEN lacks_currency THEN", "    WHEN lacks_currency AND p_payee IS NOT NULL THEN")
    .foundBy(...inPostgres("hold for every other program")),
  plant("limits are checked by sums that are as new as the lock", limits)
    .edit("  IF current_setting('transaction_isolation') <> 'read committed' THEN", "  IF false THEN")
    .foundBy(...inPostgres("hold for every other program")),
  plant("an operation keeps what it reserves", limits)
    .edit("(OLD.limit_amount, OLD.limit_currency))", "(NEW.limit_amount, OLD.limit_currency))")
    .foundBy(...inPostgres("hold for every other program")),
  plant("limits refuse no repetition of a request without terms", acceptances)
    .edit(
      "      CASE WHEN s.is_limited THEN nullif(r.amount, '')::numeric END,",
      "      CASE WHEN s.is_limited THEN r.amount::numeric END,"
    )
    .foundBy(...limitTests("refuse no repetition of a request that had")),
  plant("limits have only time zones that PostgreSQL reads as the code does", "src/domain/AuthorizationDetails.ts")
    .edit("/^(?:UTC|(?:Africa", "/^(?:[A-Z]{3}|(?:Africa")
    .foundBy(...inPostgres("take only time zones")),
  plant("only an operation that failed or was cancelled gives its amount back", limits)
    .edit(
      "    AND o.limit_amount IS NOT NULL AND o.state NOT IN ('failed', 'cancelled')",
      "    AND o.limit_amount IS NOT NULL AND o.state NOT IN ('failed', 'cancelled', 'indeterminate')"
    )
    .foundBy(...limitTests("keep an amount")),
  plant("where clocks go back over midnight, a day begins at the first one", limits)
    .edit("= p_day THEN interval '1 hour'", "= p_day THEN interval '0'")
    .foundBy(...inPostgres("have the same windows")),
  plant("a problem after which a mutation may be recorded says to keep its key", "src/api/ProblemKinds.ts")
    .edit("A POST keeps its Idempotency-Key: under a new one, it may happen twice.", "")
    .foundBy(unit("api/Problems", "warns of a new Idempotency-Key")),
  plant("an answer that was withheld says that its mutation may be recorded", "src/api/ProblemKinds.ts")
    .edit(
      "and withheld it.\",\n    action: `Report the request id to the operator of the gateway. ${underItsKey}`",
      "and withheld it.\",\n    action: `Report the request id to the operator of the gateway.`"
    )
    .foundBy(unit("api/Problems", "warns of a new Idempotency-Key")),
  plant("a request whose answer got lost is never said not to be accepted", "src/cli/operations/accept.ts")
    .edit("error instanceof StoreUnavailable ? unknown : refused", "refused")
    .foundBy(unit("cli/operations/Accept", "says that it is unknown")),
  plant("a lost answer to an acceptance says to keep its key", "src/cli/operations/accept.ts")
    .edit(
      "if (error instanceof StoreUnavailable) {",
      "if (error instanceof StoreUnavailable && error._tag !== \"StoreUnavailable\") {"
    )
    .foundBy(unit("cli/operations/Accept", "says that it is unknown")),
  plant("an acceptance and a deactivation of its client always have an order", acceptances)
    .edit("FOR SHARE OF g, c, p NOWAIT", "FOR SHARE OF g, p NOWAIT")
    .foundBy(postgres("services/grants/RevocationRaces", "are ordered: a request waits")),
  plant("an acceptance and a revocation of its grant always have an order", acceptances)
    .edit("FOR SHARE OF g, c, p NOWAIT", "FOR SHARE OF c, p NOWAIT")
    .foundBy(postgres("services/grants/RevocationRaces", "are ordered")),
  plant("an acceptance never waits for a locked row with its connection", acceptances)
    .edit("FOR SHARE OF g, c, p NOWAIT", "FOR SHARE OF g, c, p")
    .foundBy(postgres("services/ledger/LockedRows")),
  plant("an acceptance that finds its operation is planned once for each connection", acceptances)
    .edit("$6::text[] AS digests OFFSET 0) a", "$6::text[] AS digests) a")
    .foundBy(long("costs/AcceptPlans")),
  plant("a repeated batch reads only the operations of its keys", acceptances)
    .edit("idempotency_key = r.key OFFSET 0", "idempotency_key = r.key")
    .foundBy(long("costs/AcceptPlans", "reads only the operations of its keys")),
  plant("a disconnected provider takes no operation", acceptances)
    .edit("WHERE s.standing = ${goodStanding} AND ${isSendable}", "WHERE s.standing IN (0, 16) AND ${isSendable}")
    .foundBy(story("only a grant in good standing accepts")),
  plant("a request binding is only for the same resource owner", acceptances)
    .edit(" AND o.provider_connection_id = g.provider_connection_id AS same_request", " AS same_request")
    .foundBy(story("a request binding is of one client")),
  plant("a request binding is only for the same provider connection", acceptances)
    .edit(
      " AND o.provider_connection_id = g.provider_connection_id AS same_request",
      " AND o.resource_owner = g.resource_owner AS same_request"
    )
    .foundBy(story("a request binding is of one client")),
  plant("of the requests of a batch with one key, always the first one counts", acceptances)
    .edit("ELSE r.key END COLLATE \"C\", r.position\n", "ELSE r.key END COLLATE \"C\", r.position DESC\n")
    .foundBy(postgres("services/ledger/AcceptAll")),
  plant("concurrent requests with one key create one operation, which each of them gets", acceptances)
    .edit("    ON CONFLICT (client_id, subject, idempotency_key) DO NOTHING\n", "")
    .foundBy(postgres("services/ledger/AcceptAllRaces", "create one operation for each key")),
  plant("the scopes of a credential limit those of its grant", acceptances)
    .edit(" AND (${limitedTo}::text[] IS NULL OR ${scope} = ANY (${limitedTo})))`", ")`")
    .foundBy(postgres("services/ledger/Acceptance")),
  plant("another request under a bound key is always refused", acceptances)
    .edit("      earlier?.same_request === true", "      earlier !== undefined")
    .foundBy(story("a request binding stands for one operation")),
  plant("a repeated request of one batch gets the operation only if it is the same", acceptances)
    .edit("same_request: digest === creator.digest", "same_request: true")
    .foundBy(postgres("services/ledger/AcceptAll")),
  plant("a request before the first accepted one of its key never gets its operation", acceptances)
    .edit(
      "const creator = creators.get(key)",
      "const creator = batch.find((other) => other.request.key === key && created.has(other.id))"
    )
    .foundBy(postgres("services/ledger/AcceptAll"), postgres("services/ledger/UnsendablePayloads")),
  plant("a defect of one request never fails the others of its batch", acceptances)
    .edit(
      "Effect.catchDefect((defect) => Effect.succeed<Acceptance>(Exit.die(defect)))",
      "Effect.catchDefect((defect) => Effect.die(defect))"
    )
    .foundBy(postgres("services/ledger/AcceptAll")),
  plant("never less than nothing remains of a limit", limits)
    .edit("'remaining', greatest(v_least, 0)::text", "'remaining', v_least::text")
    .foundBy(postgres("services/ledger/Limits", "and never less")),
  plant("never less than nothing remains of a limit in memory", "src/services/rules/limits.ts")
    .edit("formatAmount(BigDecimal.max(remaining, zero), currency)", "formatAmount(remaining, currency)")
    .foundBy(postgres("services/ledger/Limits", "and never less")),
  plant("the repetition of a settled operation is marked, too", mutationEndpoints)
    .edit(
      "...created ? {} : { [idempotentReplayedHeader]: \"true\" as const }",
      "...created || retryAfter === null ? {} : { [idempotentReplayedHeader]: \"true\" as const }"
    )
    .foundBy(unit("server/ComposedApplication", "marks the answer to a repetition")),
  plant("a tool of agents holds the checks of its payload as a whole", mutationTool)
    .edit(
      "const payload = yield* Effect.mapError(decodePayload(members), invalid)",
      "const payload = members as Schema.Struct.Type<Fields>"
    )
    .foundBy(
      unit("server/agents/MutationTool", "asks no person about a payload that a check of the whole payload refuses")
    ),
  plant(
    "a tool of agents that is interrupted says that its request may be recorded",
    "src/server/agents/McpEndpoint.ts"
  )
    .edit("      if (isRequest(message) && mayRecord(message)) yield* noteInterrupted(unknownRecord)\n", "")
    .foundBy(unit("server/agents/MutationTool", "says at its deadline and at the shutdown")),
  plant("it says so on a stream", "src/server/agents/McpEndpoint.ts")
    .edit("mayRecord(request) ? { ...error, message: unknownRecord } : error", "error")
    .foundBy(unit("server/agents/MutationTool", "says so on a stream, too")),
  plant("the 503 of an interrupted mutation endpoint says that the request may be recorded", mutationEndpoints)
    .edit("Effect.tap(examine(options), noteInterrupted(unknownRecord))", "examine(options)")
    .foundBy(unit("server/gate/HeldRequests", "is answered with a complete 503 at its deadline")),
  plant("a tool of agents with a defect says that its request may be recorded", mutationTool)
    .edit("failedCall(defect.text))", "failedCall(\"Tool failed\"))")
    .foundBy(unit("server/agents/MutationTool", "says after a defect")),
  plant("submit of the fetch client takes no key that stands in quotes", "src/client/FetchClient.ts")
    .edit("if (/^\".*\"$/.test(key))", "if (/^'.*'$/.test(key))")
    .foundBy(unit("client/FetchClient", "sends no submission with a malformed key")),
  plant("a refused submission tells of an earlier attempt that may be recorded", "src/client/Engine.ts")
    .edit("isUncertain ||= limits", "isUncertain = limits")
    .foundBy(unit("client/UncertainSubmissions")),
  plant("a problem with a status of 500 or more tells nothing about the record", "src/client/ClientErrors.ts")
    .edit("error instanceof ProblemError && error.status < 500", "error instanceof ProblemError")
    .foundBy(unit("client/UncertainSubmissions")),
  plant("a submission by the client of Effect ends although no answer comes", "src/api/Client.ts")
    .edit("\n    { within: options", "\n    { answerTime: 86_400, within: options")
    .foundBy(unit("client/UncertainSubmissions", "ends in the client of Effect although no answer ever comes")),
  plant("the same holds in the client of Effect", "src/api/RepeatedCalls.ts")
    .edit("isProblem(reason.error) && reason.error.status < 500", "isProblem(reason.error)")
    .foundBy(unit("client/UncertainSubmissions")),
  plant("a cancellation that fits several calls of a grant ends none", "src/server/agents/ClientRequests.ts")
    .edit("call === undefined || calls.size > 1", "call === undefined")
    .foundBy(unit("server/agents/ClientRequests", "is not cancelled by a notification that names several calls")),
  plant("a cancelled call of an agent gets no response", "src/server/agents/McpEndpoint.ts")
    .edit(
      "isRequest(message) && Exit.isFailure(exit)) {\n        Queue.offerUnsafe(outbox, errorResponse(message.id, errorOfFailure(message, exit.cause)))",
      "isRequest(message)) {\n        Queue.offerUnsafe(outbox, errorResponse(message.id, internalError))"
    )
    .foundBy(unit("server/agents/MutationTool", "sends no response to a call that its client cancels"))
]
