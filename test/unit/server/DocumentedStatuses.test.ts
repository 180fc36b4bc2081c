/**
 * OpenAPI states exactly the statuses that exist. For each endpoint, the tests send a request over HTTP for each status that it can
 * answer with, and compare these statuses with the documented ones: those of the gateway, of a mutation endpoint, and those that the
 * contract of `/mcp` declares.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Redacted } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, type HttpApiGroup } from "effect/http-api"
import { isInetAddress } from "effect/net/NetAddress"
import { Agent } from "node:http"
import { Api } from "../../../src/api/Api.ts"
import { McpApi } from "../../../src/api/McpApi.ts"
import { ChangeTokenExpired } from "../../../src/domain/ChangeFeed.ts"
import { AuthorizationUnavailable } from "../../../src/domain/Credential.ts"
import { operationsRead, type Scope } from "../../../src/domain/Grant.ts"
import { RequestId } from "../../../src/domain/RequestId.ts"
import { createListener } from "../../../src/node/http/NodeListener.ts"
import { McpRoutes } from "../../../src/server/agents/McpRoutes.ts"
import { BaseUrl } from "../../../src/server/gate/BaseUrl.ts"
import { GateLayer } from "../../../src/server/gate/Gate.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { Problems } from "../../../src/server/gate/ProblemResponses.ts"
import { layerRateLimits } from "../../../src/server/gate/RateLimits.ts"
import { layerServer } from "../../../src/server/Gateway.ts"
import { MutationRequestLayer } from "../../../src/server/mutations/MutationEndpoints.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { NotReady, Readiness } from "../../../src/services/Readiness.ts"
import { RequestIds } from "../../../src/services/RequestIds.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { exchange, type Request } from "../../fixtures/http/HttpGateway.ts"
import { assertProblem, baseUrl, mutationProblemTable, problemTable } from "../../fixtures/http/HttpProblem.ts"
import { type Answer, json, openWire } from "../../fixtures/http/HttpWire.ts"
import { paymentsWrite, TeamApi, TeamRoutes } from "../../fixtures/http/TeamPayments.ts"
import { accept, InMemoryLedger, issue } from "../../fixtures/ledger/Ledger.ts"
import { headersOf, requestOf } from "../../fixtures/mcp/HttpMcp.ts"

const Server = layerServer(TeamRoutes, [TeamApi], McpRoutes())

/** The same endpoints with handlers that have a defect: only so can constant answers fail. */
const Broken = HttpRouter.serve(
  Layer.mergeAll(...[Api, TeamApi, McpApi].map((api) => {
    // The handlers of any API, which have no type: all of them die.
    const top = api as unknown as HttpApi.HttpApi<"any", HttpApiGroup.Top>
    const handlers = Object.values(top.groups).map((group) => {
      const all = Object.fromEntries(Object.keys(group.endpoints).map((name) => [name, () => Effect.die("a defect")]))
      return HttpApiBuilder.group(
        top,
        group.identifier as never,
        (handlers) => handlers.handleAll(all as never) as never
      )
    }) as unknown as [Layer.Layer<never>]
    return Layer.provide(HttpApiBuilder.layer(top), Layer.mergeAll(...handlers))
  }) as [Layer.Layer<never, never, HttpRouter.HttpRouter>]).pipe(
    Layer.provide([GateLayer, MutationRequestLayer]),
    Layer.provide(Problems.layer)
  ),
  { disableLogger: true, disableListenLog: true }
)

/** Services that are out of reach. */
const Away = Layer.merge(
  Layer.succeed(GrantVerifier, {
    verify: () => Effect.fail(new AuthorizationUnavailable({ cause: new Error("away") }))
  }),
  Layer.succeed(Readiness, { check: Effect.fail(new NotReady({ reason: "no_answer" })) })
)

/** A feed of another history: it refuses each token. */
const Restored = Layer.effect(
  OperationFeed,
  Effect.map(OperationFeed, (feed) => ({
    ...feed,
    since: (...read: Parameters<typeof feed.since>) =>
      read[1].after === null ? feed.since(...read) : Effect.fail(new ChangeTokenExpired())
  }))
)

const servers = {
  working: { routes: Server, services: Layer.merge(Readiness.layerAlways, Restored) },
  /** With a quota of one request. */
  limited: {
    routes: Server.pipe(Layer.provide(layerRateLimits({ quota: { requests: 1, window: 3600, burst: 1 } }))),
    services: Readiness.layerAlways
  },
  away: { routes: Server, services: Away },
  broken: { routes: Broken, services: Readiness.layerAlways }
}

/** Only bytes that are no request ask the listener for an id. */
const requestIds = RequestIds.of({ of: () => RequestId.make("request-id-1") })

/** Starts a server on a ledger in memory, and issues grants on it. */
const start = Effect.fnUntraced(function*(name: keyof typeof servers) {
  const { routes, services } = servers[name]
  const context = yield* Layer.build(
    (routes as typeof Server).pipe(
      Layer.provideMerge(NodeHttpServer.layer(
        () => createListener({ baseUrl, requestIds }),
        { port: 0, host: "127.0.0.1", gracefulShutdownTimeout: 1 }
      )),
      Layer.provide([Lifecycle.layer({ deadline: 60_000, bodyTimeout: 50 }), BaseUrl.layer(baseUrl)]),
      Layer.provide(services),
      Layer.provideMerge(InMemoryLedger),
      Layer.provide(Logger.layer([]))
    )
  )
  const { address } = Context.get(context, HttpServer.HttpServer)
  assert(isInetAddress(address))
  const holder = (...scopes: ReadonlyArray<Scope>) =>
    Effect.provide(
      Effect.map(issue({ scopes }), (issued) => ({ ...issued, token: Redacted.value(issued.access_token) })),
      context
    )
  return { port: address.port, context, ...yield* holder(operationsRead, paymentsWrite), weak: (yield* holder()).token }
})

/** A request that is answered with a status. */
interface Provocation extends Request {
  readonly target: string
  /** Default: `working`. */
  readonly at?: keyof typeof servers
  /** The body never ends. */
  readonly isUnfinished?: boolean
}

type Provocations = Readonly<Record<number, Provocation>>

/** The requests for the statuses of every endpoint. */
const everywhere = (of: Provocation): Provocations => ({
  400: { ...of, target: `${of.target}?access_token=x` },
  413: { ...of, headers: { ...of.headers, "content-length": "70000" }, body: "a".repeat(70_000) },
  414: { ...of, target: `${of.target}?x=${"a".repeat(9000)}` },
  422: { ...of, target: `${of.target}?unknown=1` },
  500: { ...of, at: "broken" }
})

const negotiated = (of: Provocation): Provocations => ({
  ...everywhere(of),
  406: { ...of, headers: { ...of.headers, accept: "image/png" } }
})

/** The same for the endpoints behind `Gate`. `TOKEN` stands for a token with all scopes, `WEAK` for one without any. */
const guarded = (of: Provocation): Provocations => ({
  ...negotiated({ ...of, token: "TOKEN" }),
  401: { ...of, token: "unknown" },
  403: { ...of, token: "WEAK" },
  429: { ...of, token: "TOKEN", at: "limited" },
  503: { ...of, token: "TOKEN", at: "away" }
})

const list = "/v1/operations"
const metadata = "/.well-known/oauth-protected-resource"
const unknownId = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"

const pay = {
  target: "/v1/payments",
  method: "POST",
  headers: { "content-type": "application/json", "idempotency-key": "key-1" },
  body: JSON.stringify({ amount: "1.00" })
}
const read = requestOf("2025-11-25", 1, "tools/call", { name: "get_operation", arguments: { id: unknownId } })
const message = { target: "/mcp", method: "POST", headers: headersOf(read), body: JSON.stringify(read) }

const ofBody = (of: Provocation): Provocations => ({
  ...guarded(of),
  408: { ...of, token: "TOKEN", isUnfinished: true },
  415: { ...of, token: "TOKEN", headers: { ...of.headers, "content-type": "text/plain" } },
  422: { ...of, token: "TOKEN", body: "{" }
})

/** `ID` stands for the id of an operation. */
const provocations: Readonly<Record<string, Provocations>> = {
  "get /healthz": { 200: { target: "/healthz" }, ...everywhere({ target: "/healthz" }) },
  "get /readyz": {
    200: { target: "/readyz" },
    ...everywhere({ target: "/readyz" }),
    503: { target: "/readyz", at: "away" }
  },
  "get /problems": { 200: { target: "/problems" }, ...negotiated({ target: "/problems" }) },
  "get /problems/{code}": {
    200: { target: "/problems/not_ready" },
    ...negotiated({ target: "/problems/not_ready" }),
    404: { target: "/problems/unknown" }
  },
  [`get ${metadata}`]: { 200: { target: metadata }, ...negotiated({ target: metadata }) },
  [`get ${metadata}/mcp`]: { 200: { target: `${metadata}/mcp` }, ...negotiated({ target: `${metadata}/mcp` }) },
  [`get ${list}`]: { 200: { target: list, token: "TOKEN" }, ...guarded({ target: list }) },
  "get /v1/limits": { 200: { target: "/v1/limits", token: "TOKEN" }, ...guarded({ target: "/v1/limits" }) },
  [`get ${list}/changes`]: {
    200: { target: `${list}/changes`, token: "TOKEN" },
    ...guarded({ target: `${list}/changes` }),
    410: { target: `${list}/changes?after=abc`, token: "TOKEN" }
  },
  [`get ${list}/{id}`]: {
    200: { target: `${list}/ID`, token: "TOKEN" },
    304: { target: `${list}/ID`, token: "TOKEN", headers: { "if-none-match": "*" } },
    ...guarded({ target: `${list}/ID` }),
    404: { target: `${list}/${unknownId}`, token: "TOKEN" }
  },
  "post /v1/payments": { 202: { ...pay, token: "TOKEN" }, ...ofBody(pay) },
  "post /mcp": {
    ...ofBody(message),
    403: { ...message, token: "TOKEN", headers: { ...message.headers, origin: "https://other.example" } }
  }
}

/** Sends the head of a request and a part of its body. */
const sendPart = async (port: number, { headers = {}, method, target, token }: Provocation): Promise<Answer> => {
  const wire = await openWire(port)
  const lines = { ...headers, host: "a", authorization: `Bearer ${token}`, "content-length": "10" }
  wire.send(
    `${method} ${target} HTTP/1.1\r\n${
      Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`).join("")
    }\r\n{`
  )
  const answer = await wire.next()
  wire.destroy()
  return answer!
}

const startAll = Effect.gen(function*() {
  const running = {
    working: yield* start("working"),
    limited: yield* start("limited"),
    away: yield* start("away"),
    broken: yield* start("broken")
  }
  const { context, identity } = running.working
  const { operation } = yield* Effect.provide(accept(identity), context)
  const agent = new Agent({ keepAlive: true })
  const send = ({ at = "working", isUnfinished = false, ...asked }: Provocation) =>
    Effect.promise(async () => {
      const { port, token, weak } = running[at]
      const tokens: Readonly<Record<string, string>> = { TOKEN: token, WEAK: weak }
      const request = {
        ...asked,
        target: asked.target.replace("ID", operation.id),
        ...asked.token === undefined ? {} : { token: tokens[asked.token] ?? asked.token }
      }
      if (isUnfinished) return sendPart(port, request)
      // The first request takes the quota.
      if (at === "limited") await exchange(port, agent, request.target, request)
      return exchange(port, agent, request.target, request)
    })
  return { send }
})

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: object }>>>>
}

describe("OpenAPI states exactly the statuses that exist", () => {
  it.live("at each endpoint, and so does the contract of /mcp", () =>
    Effect.scoped(Effect.gen(function*() {
      const { send } = yield* startAll
      const { paths } = json(yield* send({ target: "/openapi.json" })) as Document
      const documented: Record<string, ReadonlyArray<string>> = {}
      for (const [path, operations] of Object.entries(paths)) {
        for (const [method, { responses }] of Object.entries(operations)) {
          documented[`${method} ${path}`] = Object.keys(responses)
        }
      }
      HttpApi.reflect(McpApi, {
        onGroup: () => {},
        onEndpoint: ({ errors }) => {
          documented["post /mcp"] = [...errors.keys()].map(String)
        }
      })
      assert.sameMembers(Object.keys(provocations), Object.keys(documented))
      for (const [endpoint, ofEndpoint] of Object.entries(provocations)) {
        for (const [status, provocation] of Object.entries(ofEndpoint)) {
          const answer = yield* send(provocation)
          assert.strictEqual(String(answer.status), status, `${endpoint}: ${answer.text.slice(0, 300)}`)
          if (answer.status >= 400) assertProblem(answer, { ...problemTable, ...mutationProblemTable })
        }
        assert.sameMembers([...documented[endpoint]!], Object.keys(ofEndpoint), endpoint)
      }
    })))
})
