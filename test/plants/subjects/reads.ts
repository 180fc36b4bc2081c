/** Mistakes in reads: a grant reads what it owns and nothing else, in one statement with its check, on every way. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const statements = "src/services/sql/reads/readStatements.ts"
const standing = "src/services/sql/grantStanding.ts"
const onPrimary = "src/services/sql/reads/readStatements.ts"
const plain = "src/node/http/PlainServer.ts"
const decoder = "src/dispatch/RecordDecoder.ts"
const gate = "src/server/gate/Gate.ts"
const responses = "src/server/reads/OperationResponses.ts"

export const reads: ReadonlyArray<Plant> = [
  {
    rule: "the client on fetch checks each member of an answer by its kind, and lets only optional ones be absent",
    file: "src/client/Exchange.ts",
    from: "? member === undefined || isOfKind(",
    to: "? member !== undefined && isOfKind(",
    tests: [unit("package/Surface", "lets an answer lack an optional member")]
  },
  {
    rule: "a grant reads only operations of its subject",
    file: statements,
    from: "o.resource_owner = g.resource_owner AND o.subject = g.subject\"",
    to: "o.resource_owner = g.resource_owner\"",
    tests: [postgres("services/reads/Ownership")]
  },
  {
    rule: "a grant reads only operations of its resource owner",
    file: statements,
    from: "o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND",
    to: "o.client_id = g.client_id AND",
    tests: [postgres("services/reads/Ownership")]
  },
  {
    rule: "a look-up by key finds only operations of the same resource owner",
    file: statements,
    from: "  const where = [\n    owned,\n    ...query.type",
    to: "  const where = [\n    \"true\",\n    ...query.type",
    tests: [postgres("services/reads/FindByKey")]
  },
  {
    rule: "a credential names grant, client and subject together",
    file: standing,
    from: "g.id = $1 AND g.client_id = $2 AND g.subject = $3\"",
    to: "g.id = $1 AND g.client_id = $2\"",
    tests: [postgres("services/reads/GrantStandings")]
  },
  {
    rule: "an expired grant never reads",
    file: standing,
    from: "\"g.expires_at <= now()\"",
    to: "\"g.expires_at <= now() - interval '5 seconds'\"",
    tests: [postgres("services/grants/Standing")]
  },
  {
    rule: "a wait ends also when its grant is not there any more",
    file: statements,
    from: ") IS DISTINCT FROM ${goodStanding}",
    to: ") <> ${goodStanding}",
    tests: [postgres("services/grants/Standing")]
  },
  {
    rule: "a page never repeats the last operation of the page before",
    file: statements,
    from: "(o.created_at, o.id) < (",
    to: "(o.created_at, o.id) <= (",
    tests: [postgres("services/reads/Listing")]
  },
  {
    rule: "the bounds of a list are always exclusive",
    file: statements,
    from: "o.created_at > ${parameter(",
    to: "o.created_at >= ${parameter(",
    tests: [postgres("services/reads/Listing")]
  },
  {
    rule: "a server in recovery never serves a read that only the primary may serve",
    file: onPrimary,
    from: "export const onPrimary = \"(SELECT pg_current_wal_insert_lsn()) IS NOT NULL\"",
    to: "export const onPrimary = \"true\"",
    tests: [long("cluster/ReadsInRecovery")]
  },
  {
    rule: "a promoted server never answers as a standby",
    file: "src/cluster/standbys/StandbyReads.ts",
    from: "const onStandby = \"(SELECT pg_is_wal_replay_paused()) IS NOT NULL\"",
    to: "const onStandby = \"true\"",
    tests: [long("cluster/StandbyReads", "fails on a primary, and that of the primary on a standby")]
  },
  {
    rule: "a request with a body takes Effect's adapter",
    file: plain,
    from: "headers[\"content-length\"] !== undefined || headers[\"transfer-encoding\"] !== undefined\n  || ",
    to: "",
    tests: [unit("node/PlainServer")]
  },
  {
    rule: "a text beyond ASCII is written as UTF-8",
    file: plain,
    from: "text.length === contentLength ? \"latin1\" : \"utf8\"",
    to: "\"latin1\"",
    tests: [unit("node/PlainServer")]
  },
  {
    rule: "a new value of a header is checked, also if an earlier one was valid",
    file: "src/node/http/ResponseHead.ts",
    from: "  validateHeaderValue(name, value)\n",
    to: "  if (known === undefined) validateHeaderValue(name, value)\n",
    tests: [unit("node/ResponseHead")]
  },
  {
    rule: "a response that ends its connection gets the head of Node",
    file: "src/node/http/ResponseHead.ts",
    from: "if (ofNode.has(name)) return null",
    to: "",
    tests: [unit("node/ResponseHead")]
  },
  {
    rule: "a client that leaves ends its plain request",
    file: plain,
    from: "if (!response.writableEnded) fiber.interruptUnsafe(undefined, ClientAbort.annotation)",
    to: "",
    tests: [unit("node/PlainRequests")]
  },
  {
    rule: "a compiled route refuses what the schema of a parameter refuses",
    file: decoder,
    from: ".run(read, ast, options) !== undefined) return undecided",
    to: ".run(read, ast, options) !== undefined) return read",
    tests: [unit("dispatch/CompiledGroup")]
  },
  {
    rule: "a compiled route refuses undeclared parameters where the contract does",
    file: decoder,
    from: "onExcessProperty === \"error\" && Object.keys(record).length > found",
    to: "false",
    tests: [unit("dispatch/CompiledGroup")]
  },
  {
    rule: "an absent parameter with a default gets its default on a compiled route",
    file: decoder,
    from: "        if (!staysAbsent) return undecided\n",
    to: "",
    tests: [unit("dispatch/CompiledGroup")]
  },
  {
    rule: "a compiled route has the services of its group",
    file: "src/dispatch/CompiledEndpoint.ts",
    from: "      provided = Context.addUnsafe(provided, key, service as never)\n",
    to: "",
    tests: [unit("dispatch/CompiledGroup")]
  },
  {
    rule: "a token in the query is always refused",
    file: gate,
    from:
      "if (\"access_token\" in Context.get(context, ParsedSearchParams)) return respond(refuseTokenInQuery(problems))\n",
    to: "",
    tests: [unit("server/Mounting")]
  },
  {
    rule: "the entity tag changes with a review",
    file: responses,
    from: "    under_review ? \"-review\" : \"\"\n",
    to: "    \"\"\n",
    tests: [unit("server/reads/OperationResponses")]
  },
  {
    rule: "the entity tag differs where a restored ledger made another change of the same revision",
    file: responses,
    from: "DateTime.isDateTime(updated_at) ? updated_at.epochMilliseconds.toString(36) : \"\"",
    to: "\"\"",
    tests: [unit("server/reads/OperationResponses")]
  },
  {
    rule: "caches always revalidate a response for a grant",
    file: responses,
    from: "\"cache-control\": \"private, no-cache\"",
    to: "\"cache-control\": \"private, max-age=1\"",
    tests: [unit("server/reads/OperationResponses"), unit("server/reads/ResponseContract")]
  },
  {
    rule: "answers to bytes that are no request echo a safe id of theirs",
    file: "src/node/http/NodeListener.ts",
    from: "requestId: ids.length === 1 ? ids[0]![1]!.trim() : undefined",
    to: "requestId: undefined",
    tests: [unit("server/gate/RequestIds")]
  },
  {
    rule: "an id of an earlier request is not that of bytes that are no request",
    file: "src/node/http/NodeListener.ts",
    from: "text.slice(start < 4 ? 0 : start)",
    to: "text.slice(start < 4 ? 0 : 0)",
    tests: [unit("server/gate/RequestIds")]
  },
  {
    rule: "a compiled body is an object",
    file: "src/dispatch/CompiledEndpoint.ts",
    from: "parsed !== null && !Array.isArray(parsed)",
    to: "parsed !== null",
    tests: [unit("dispatch/CompiledGroup")]
  },
  {
    rule: "a body of another media type is no payload",
    file: "src/dispatch/CompiledEndpoint.ts",
    from: "(request.headers[\"content-type\"] ?? jsonType) !== jsonType",
    to: "request.headers[\"content-type\"] === undefined",
    tests: [unit("dispatch/CompiledGroup")]
  },
  {
    rule: "an endpoint takes only the problems of its declared codes",
    file: "src/api/Problems.ts",
    from: "own.some((one) => one === code) ||",
    to: "own.length > 0 ||",
    tests: [unit("api/Problems")]
  },
  {
    rule: "an answer to bytes that are no request names what earlier packets said",
    file: "src/node/http/ConnectionLimits.ts",
    from: "this.unread += packet()?.",
    to: "this.unread = packet()?.",
    tests: [unit("server/gate/MalformedHttp")]
  },
  {
    rule: "a body is no part of the next request",
    file: "src/node/http/ConnectionLimits.ts",
    from: "} else if (this.response !== undefined && !this.#isPastBody) {",
    to: "} else if (this.unread.length < 0) {",
    tests: [unit("server/gate/MalformedHttp")]
  },
  {
    rule: "an unsafe request id is replaced",
    file: "src/services/RequestIds.ts",
    from: "isRequestId(received) ? received : next()",
    to: "received !== undefined ? received as RequestId : next()",
    tests: [unit("server/gate/RequestIds")]
  },
  {
    rule: "the instance of a problem is the whole path",
    file: "src/server/gate/RequestContext.ts",
    from: "target.search(/[?#]/)",
    to: "target.search(/[?#;]/)",
    tests: [unit("server/pages/FrontPage")]
  },
  {
    rule: "an operation that breaks the contract is never answered, also not with 304",
    file: "src/server/waits/WaitingReads.ts",
    from: "held ? Effect.andThen(operations.check(operation), response) : response",
    to: "response",
    tests: [postgres("server/BrokenRows", "is withheld by id")]
  },
  {
    rule: "an agent never gets an operation that breaks the contract in a list",
    file: "src/server/agents/GrantReads.ts",
    from: "ofRequest(checked(operations.list(grant, query)))",
    to: "ofRequest(operations.list(grant, query))",
    tests: [unit("server/agents/GrantReads", "breaks the contract")]
  },
  {
    rule: "an operation that breaks the contract in a list is logged by its id",
    file: "src/server/gate/FailureResponses.ts",
    from: "{ operation: idOf(error) }",
    to: "{ operation: idOf.name }",
    tests: [postgres("server/BrokenRows", "is withheld by id")]
  },
  {
    rule: "a request whose client left is counted under its route",
    file: "src/metrics/HttpMetrics.ts",
    from: "(route ?? this.#unrouted(target))",
    to: "(route ?? this.#unmatched)",
    tests: [unit("metrics/HttpMetrics", "client left as 499")]
  },
  {
    rule: "a response with a header that may end its line never leaves",
    file: "src/server/gate/Edge.ts",
    from: "if (unsendable !== null)",
    to: "if (unsendable === \"\")",
    tests: [unit("server/Mounting", "headers that cannot be sent")]
  },
  {
    rule: "what a member of a union cannot decide is decided by the schema",
    file: "src/dispatch/JsonSource.ts",
    from: "if (!Exit.isExit(result)) return notCompiled(\"a declaration that waits\")",
    to: "if (!Exit.isExit(result)) return false",
    tests: [unit("dispatch/JsonEncoder", "leaves a value to the schema")]
  },
  {
    rule: "no text of a schema becomes code",
    file: "src/dispatch/JsonSource.ts",
    from: "return { key: JSON.stringify(name),",
    to: "return { key: `\"${name}\"`,",
    tests: [unit("dispatch/JsonEncoder", "writes what the schema encodes")]
  },
  {
    rule: "a stored time that is none is no instant",
    file: "src/domain/Timestamp.ts",
    from: "!(Math.abs(epochMilliseconds) <= maxMilliseconds)",
    to: "Math.abs(epochMilliseconds) > maxMilliseconds",
    tests: [unit("domain/Timestamp", "made from milliseconds")]
  }
]
