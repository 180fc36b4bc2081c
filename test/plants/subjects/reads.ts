/** Mistakes in reads: a grant reads what it owns and nothing else, in one statement with its check, on every way. */
import { long, type Plant, plant, postgres, unit } from "../Plant.ts"

const compiledEndpoint = "src/dispatch/CompiledEndpoint.ts"
const exchange = "src/client/Exchange.ts"
const statements = "src/services/sql/reads/readStatements.ts"
const standing = "src/services/sql/grantStanding.ts"
const onPrimary = "src/services/sql/reads/readStatements.ts"
const plain = "src/node/http/PlainServer.ts"
const decoder = "src/dispatch/RecordDecoder.ts"
const gate = "src/server/gate/Gate.ts"
const responses = "src/server/reads/OperationResponses.ts"

export const reads: ReadonlyArray<Plant> = [
  plant(
    "the client on fetch checks each member of an answer by its kind, and lets only optional ones be absent",
    exchange
  )
    .edit("? member === undefined || isOfKind(", "? member !== undefined && isOfKind(")
    .foundBy(unit("package/Surface", "lets an answer lack an optional member")),
  plant("a grant reads only operations of its subject", statements)
    .edit("o.resource_owner = g.resource_owner AND o.subject = g.subject\"", "o.resource_owner = g.resource_owner\"")
    .foundBy(postgres("services/reads/Ownership")),
  plant("a grant reads only operations of its resource owner", statements)
    .edit("o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND", "o.client_id = g.client_id AND")
    .foundBy(postgres("services/reads/Ownership")),
  plant("a look-up by key has only operations of the wanted type", statements)
    .edit(
      "    ...query.type === null ? [] : [`o.type = ${parameter(query.type)}`],\n    ...query.states",
      "    ...query.states"
    )
    .foundBy(postgres("services/reads/FindByKey", "matches all other filters")),
  plant("submit of the client on fetch tells of the begin and the end of a review", "src/client/FetchClient.ts")
    .edit(
      "operation.revision !== revision || operation.under_review !== under_review",
      "operation.revision !== revision"
    )
    .foundBy(unit("client/FetchClient", "follows its operation to the end")),
  plant("the client on fetch takes no 304 without having named a tag", exchange)
    .edit("status === 304 && own?.[\"if-none-match\"] !== undefined", "status === 304")
    .foundBy(unit("client/FetchClient", "takes no 304")),
  plant("the client on fetch sends no cookie", exchange)
    .edit("      credentials: \"omit\",\n", "")
    .foundBy(unit("client/FetchClient", "and no cookie")),
  plant("a look-up by key finds only operations of the same resource owner", statements)
    .edit("  const where = [\n    owned,\n    ...query.type", "  const where = [\n    \"true\",\n    ...query.type")
    .foundBy(postgres("services/reads/FindByKey")),
  plant("a credential names grant, client and subject together", standing)
    .edit("g.id = $1 AND g.client_id = $2 AND g.subject = $3\"", "g.id = $1 AND g.client_id = $2\"")
    .foundBy(postgres("services/reads/GrantStandings")),
  plant("an expired grant never reads", standing)
    .edit("\"g.expires_at <= now()\"", "\"g.expires_at <= now() - interval '5 seconds'\"")
    .foundBy(postgres("services/grants/Standing")),
  plant("a wait ends also when its grant is not there any more", statements)
    .edit(") IS DISTINCT FROM ${goodStanding}", ") <> ${goodStanding}")
    .foundBy(postgres("services/grants/Standing")),
  plant("a page never repeats the last operation of the page before", statements)
    .edit("(o.created_at, o.id) < (", "(o.created_at, o.id) <= (")
    .foundBy(postgres("services/reads/Listing")),
  plant("the bounds of a list are always exclusive", statements)
    .edit("o.created_at > ${parameter(", "o.created_at >= ${parameter(")
    .foundBy(postgres("services/reads/Listing")),
  plant("a server in recovery never serves a read that only the primary may serve", onPrimary)
    .edit(
      "export const onPrimary = \"(SELECT pg_current_wal_insert_lsn()) IS NOT NULL\"",
      "export const onPrimary = \"true\""
    )
    .foundBy(long("cluster/ReadsInRecovery")),
  plant("a promoted server never answers as a standby", "src/cluster/standbys/StandbyReads.ts")
    .edit("const onStandby = \"(SELECT pg_is_wal_replay_paused()) IS NOT NULL\"", "const onStandby = \"true\"")
    .foundBy(long("cluster/StandbyReads", "fails on a primary, and that of the primary on a standby")),
  plant("a request with a body takes Effect's adapter", plain)
    .edit("headers[\"content-length\"] !== undefined || headers[\"transfer-encoding\"] !== undefined\n  || ", "")
    .foundBy(unit("node/http/PlainServer")),
  plant("a text beyond ASCII is written as UTF-8", plain)
    .edit("text.length === contentLength ? \"latin1\" : \"utf8\"", "\"latin1\"")
    .foundBy(unit("node/http/PlainServer")),
  plant("a new value of a header is checked, also if an earlier one was valid", "src/node/http/ResponseHead.ts")
    .edit("  validateHeaderValue(name, value)\n", "  if (known === undefined) validateHeaderValue(name, value)\n")
    .foundBy(unit("node/http/ResponseHead")),
  plant("a response that ends its connection gets the head of Node", "src/node/http/ResponseHead.ts")
    .edit("if (ofNode.has(name)) return null", "")
    .foundBy(unit("node/http/ResponseHead")),
  plant("a client that leaves ends its plain request", plain)
    .edit("if (!response.writableEnded) fiber.interruptUnsafe(undefined, ClientAbort.annotation)", "")
    .foundBy(unit("node/http/PlainRequests")),
  plant("a compiled route refuses what the schema of a parameter refuses", decoder)
    .edit(
      ".run(read, ast, options) !== undefined) return undecided",
      ".run(read, ast, options) !== undefined) return read"
    )
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a compiled route refuses undeclared parameters where the contract does", decoder)
    .edit("onExcessProperty === \"error\" && Object.keys(record).length > found", "false")
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("an absent parameter with a default gets its default on a compiled route", decoder)
    .edit("        if (!staysAbsent) return undecided\n", "")
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a compiled route has the services of its group", compiledEndpoint)
    .edit("      provided = Context.addUnsafe(provided, key, service as never)\n", "")
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a token in the query is always refused", gate)
    .edit(
      "if (\"access_token\" in Context.get(context, ParsedSearchParams)) return respond(refuseTokenInQuery(problems))\n",
      ""
    )
    .foundBy(unit("server/Mounting")),
  plant("the entity tag changes with a review", responses)
    .edit("    under_review ? \"-review\" : \"\"\n", "    \"\"\n")
    .foundBy(unit("server/reads/OperationResponses")),
  plant("the entity tag differs where a restored ledger made another change of the same revision", responses)
    .edit("DateTime.isDateTime(updated_at) ? updated_at.epochMilliseconds.toString(36) : \"\"", "\"\"")
    .foundBy(unit("server/reads/OperationResponses")),
  plant("caches always revalidate a response for a grant", responses)
    .edit("\"cache-control\": \"private, no-cache\"", "\"cache-control\": \"private, max-age=1\"")
    .foundBy(unit("server/reads/OperationResponses"), unit("server/reads/ResponseContract")),
  plant("answers to bytes that are no request echo a safe id of theirs", "src/node/http/NodeListener.ts")
    .edit("requestId: ids.length === 1 ? ids[0]![1]!.trim() : undefined", "requestId: undefined")
    .foundBy(unit("server/gate/RequestIds")),
  plant("an id of an earlier request is not that of bytes that are no request", "src/node/http/NodeListener.ts")
    .edit("text.slice(start < 4 ? 0 : start)", "text.slice(start < 4 ? 0 : 0)")
    .foundBy(unit("server/gate/RequestIds")),
  plant("a compiled body is an object", compiledEndpoint)
    .edit("parsed !== null && !Array.isArray(parsed)", "parsed !== null")
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a body of another media type is no payload", compiledEndpoint)
    .edit(
      "(request.headers[\"content-type\"] ?? jsonType) !== jsonType",
      "request.headers[\"content-type\"] === undefined"
    )
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("an endpoint takes only the problems of its declared codes", "src/api/Problems.ts")
    .edit("own.some((one) => one === code) ||", "own.length > 0 ||")
    .foundBy(unit("api/Problems")),
  plant("an answer to bytes that are no request names what earlier packets said", "src/node/http/ConnectionLimits.ts")
    .edit("this.unread += packet()?.", "this.unread = packet()?.")
    .foundBy(unit("server/gate/MalformedHttp")),
  plant("a body is no part of the next request", "src/node/http/ConnectionLimits.ts")
    .edit("} else if (this.response !== undefined && !this.#isPastBody) {", "} else if (this.unread.length < 0) {")
    .foundBy(unit("server/gate/MalformedHttp")),
  plant("an unsafe request id is replaced", "src/services/RequestIds.ts")
    .edit("isRequestId(received) ? received : next()", "received !== undefined ? received as RequestId : next()")
    .foundBy(unit("server/gate/RequestIds")),
  plant("the instance of a problem is the whole path", "src/server/gate/RequestContext.ts")
    .edit("target.search(/[?#]/)", "target.search(/[?#;]/)")
    .foundBy(unit("server/pages/FrontPage")),
  plant(
    "an operation that breaks the contract is never answered, also not with 304",
    "src/server/waits/WaitingReads.ts"
  )
    .edit("held ? Effect.andThen(operations.check(operation), response) : response", "response")
    .foundBy(postgres("server/BrokenRows", "is withheld by id")),
  plant("an agent never gets an operation that breaks the contract in a list", "src/server/agents/GrantReads.ts")
    .edit("ofRequest(checked(operations.list(grant, query)))", "ofRequest(operations.list(grant, query))")
    .foundBy(unit("server/agents/GrantReads", "breaks the contract")),
  plant("an operation that breaks the contract in a list is logged by its id", "src/server/gate/FailureResponses.ts")
    .edit("{ operation: idOf(error) }", "{ operation: idOf.name }")
    .foundBy(postgres("server/BrokenRows", "is withheld by id")),
  plant("a request whose client left is counted under its route", "src/metrics/HttpMetrics.ts")
    .edit("(route ?? this.#unrouted(target))", "(route ?? this.#unmatched)")
    .foundBy(unit("metrics/HttpMetrics", "client left as 499")),
  plant("a response with a header that may end its line never leaves", "src/server/gate/Edge.ts")
    .edit("if (unsendable !== null)", "if (unsendable === \"\")")
    .foundBy(unit("server/Mounting", "headers that cannot be sent")),
  plant("what a member of a union cannot decide is decided by the schema", "src/dispatch/JsonSource.ts")
    .edit(
      "if (!Exit.isExit(result)) return notCompiled(\"a declaration that waits\")",
      "if (!Exit.isExit(result)) return false"
    )
    .foundBy(unit("dispatch/JsonEncoder", "leaves a value to the schema")),
  plant("no text of a schema becomes code", "src/dispatch/JsonSource.ts")
    .edit("return { key: JSON.stringify(name),", "return { key: `\"${name}\"`,")
    .foundBy(unit("dispatch/JsonEncoder", "writes what the schema encodes")),
  plant("a stored time that is none is no instant", "src/domain/Timestamp.ts")
    .edit("!(Math.abs(epochMilliseconds) <= maxMilliseconds)", "Math.abs(epochMilliseconds) > maxMilliseconds")
    .foundBy(unit("domain/Timestamp", "made from milliseconds")),
  plant("limits are cached for their grant alone", responses)
    .edit(
      "limitsResponse = (body: GrantLimits) => withHeaders({ body, headers: revalidated })",
      "limitsResponse = (body: GrantLimits) => withHeaders({ body, headers: { ...revalidated, vary: \"Accept\" } })"
    )
    .foundBy(unit("server/reads/OperationResponses", "has the headers of a list")),
  plant("a compiled body obeys the checks of its whole schema", decoder)
    .edit(
      "    && ast.checks === undefined && ast.encodingChecks === undefined",
      "    && ast.encodingChecks === undefined"
    )
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a compiled response has the content type that its endpoint gives it", "src/dispatch/SuccessWriter.ts")
    .edit(
      "    if (headers !== undefined && (\"content-type\" in headers || \"content-length\" in headers)) return null\n",
      ""
    )
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a compiled route has the service of its group, also if the server has another one", compiledEndpoint)
    .edit(
      "filter(([key, service]) => server.mapUnsafe.get(key) !== service)",
      "filter(([key]) => !server.mapUnsafe.has(key))"
    )
    .foundBy(unit("dispatch/CompiledGroup")),
  plant("a plain request gets the cookies of its response", plain)
    .edit(" || status === 205 || !Cookies.isEmpty(cookies)) return", " || status === 205) return")
    .foundBy(unit("node/http/PlainRequests", "gets the cookies"))
]
