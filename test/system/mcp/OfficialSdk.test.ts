/**
 * The official SDK of MCP (2025-11-25) follows a payment: it finds the authorization server, its user authorizes it, and it
 * reads until the gateway is told to revoke the grant. The tests run real processes, a real authorization server and the
 * real PostgreSQL, and restart the gateway while the host waits.
 */
import { assert, describe, it } from "@effect/vitest"
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js"
import { StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect, Fiber } from "effect"
import { decodeJwt } from "jose"
import { makeAuthorizationServer } from "../../fixtures/authorization/AuthorizationServer.ts"
import { identityOf } from "../../fixtures/authorization/AuthorizedGateway.ts"
import { accept, drive } from "../../fixtures/ledger/Ledger.ts"
import { agentGateway, makeSignal, shownIn } from "../../fixtures/mcp/AgentGateway.ts"
import { makeSdkHost, type SdkHost } from "../../fixtures/mcp/SdkHost.ts"
import { result } from "../../fixtures/processes/CommandLine.ts"

const tools = [
  "changes_since",
  "find_operation_by_key",
  "get_limits",
  "get_operation",
  "list_operations",
  "wait_for_operation"
]

/** The error of a call that must fail. */
const failureOf = (call: Promise<unknown>) =>
  call.then((value) => assert.fail(`it answered: ${JSON.stringify(value)}`), (error: unknown) => error)

/** Connects without a token, lets the user authorize, and connects again. */
const connect = (host: SdkHost, url: URL) =>
  Effect.promise(async () => {
    const first = host.transportTo(url)
    assert.instanceOf(await failureOf(host.client.connect(first)), UnauthorizedError)
    await first.finishAuth(host.code())
    const transport = host.transportTo(url)
    await host.client.connect(transport)
    return transport
  })

/** Starts `wait_for_operation`, and returns once the gateway has reported that it waits. */
const startWait = Effect.fnUntraced(function*({ client }: SdkHost, id: string) {
  const { arrive, arrived } = makeSignal()
  const abandoned = new AbortController()
  const call = client.callTool({ name: "wait_for_operation", arguments: { id, seconds: 55 } }, undefined, {
    onprogress: arrive,
    signal: abandoned.signal
  })
  const answer = yield* Effect.forkChild(Effect.promise(() => call.catch((error: unknown) => error as Error)))
  yield* arrived
  return { answer: Fiber.join(answer), abandon: () => abandoned.abort() }
})

const callGet = ({ client }: SdkHost, id: string) => client.callTool({ name: "get_operation", arguments: { id } })

const read = (host: SdkHost, id: string) => Effect.promise(() => callGet(host, id))

/** How a gateway ends while a host waits, and what the host then does. */
const endings = [
  {
    signal: "SIGTERM",
    refreshes: true,
    name: "follows a payment across a shutdown of the gateway. A refreshed token of a revoked grant is refused as well"
  },
  {
    signal: "SIGKILL",
    refreshes: false,
    name: "follows a payment across a crash of the gateway. After the revocation it asks its user to authorize again"
  }
] as const

describe("A host of the official SDK", () => {
  for (const { name, refreshes, signal } of endings) {
    it.live(name, () =>
      Effect.gen(function*() {
        const gateway = yield* agentGateway
        const { baseUrl, env, services, url } = gateway
        const server = yield* makeAuthorizationServer({ agents: [], registration: "ES256", resources: [url.href] })
        const issuers = JSON.stringify([{ issuer: server.issuer, first_sight: {} }])
        const start = gateway.start({ OAUTH_ISSUERS: issuers, LOG_LEVEL: "Trace" })
        const first = yield* start

        // 1. The 401 leads the host to its token.
        const host = makeSdkHost({ account: "alice", refreshes })
        const transport = yield* connect(host, url)
        const steps = host.exchanges.map(({ method, status, url }) => `${method} ${url} ${status}`)
        const metadata = `${baseUrl}/.well-known/oauth-protected-resource/mcp`
        assert.deepStrictEqual(steps.slice(0, 2), [`POST ${url.href} 401`, `GET ${metadata} 200`])
        assert.include(host.exchanges[0]!.challenge, `resource_metadata="${metadata}"`)
        assert.include(steps, `GET ${server.issuer}/.well-known/oauth-authorization-server 200`)
        const [authorization] = host.authorizations
        assert.strictEqual(authorization!.searchParams.get("resource"), url.href)
        assert.strictEqual(authorization!.searchParams.get("code_challenge_method"), "S256")
        assert.strictEqual(authorization!.searchParams.get("scope"), "operations:read")
        const { aud, grant_id } = decodeJwt(host.tokens().access_token)
        assert.strictEqual(aud, url.href)

        // 2. It reads, and nothing else.
        const listed = yield* Effect.promise(() => host.client.listTools())
        assert.deepStrictEqual(listed.tools.map(({ name }) => name).toSorted(), tools)
        for (const { annotations } of listed.tools) assert.isTrue(annotations?.readOnlyHint)
        yield* Effect.promise(() => host.client.callTool({ name: "list_operations", arguments: {} }))

        // 3. It follows a payment while the gateway ends and another process takes its place.
        const identity = yield* Effect.provide(identityOf("alice", host.clientId()), services)
        const { operation } = yield* Effect.provide(accept(identity), services)
        const { id } = operation
        assert.strictEqual(shownIn(yield* read(host, id)).operation.state, "accepted")
        const interrupted = yield* startWait(host, id)
        const lost = makeSignal()
        // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport is no EventTarget
        transport.onerror = lost.arrive
        yield* first.stop(signal)
        if (signal === "SIGTERM") {
          const { advice, operation: seen } = shownIn(yield* interrupted.answer)
          assert.deepInclude(seen, { id, state: "accepted", terminal: false })
          assert.include(advice, "Do not send the request again and do not use a new key.")
        } else {
          yield* lost.arrived
          interrupted.abandon()
          assert.instanceOf(yield* interrupted.answer, Error)
        }
        const submitted = yield* Effect.provide(drive(operation, ["submitting", "submitted"]), services)
        const unreachable = yield* Effect.promise(() => failureOf(callGet(host, id)))
        assert.instanceOf(unreachable, Error)

        const second = yield* start
        const followed = yield* startWait(host, id)
        yield* Effect.provide(drive(submitted, ["succeeded"]), services)
        const { advice, operation: settled, read_again_in_seconds } = shownIn(yield* followed.answer)
        assert.deepInclude(settled, { id, state: "succeeded", terminal: true })
        assert.include(advice, "The request succeeded. This is final.")
        assert.isNull(read_again_in_seconds)

        // 4. The revocation ends a wait that runs, and all reads after it.
        const { operation: other } = yield* Effect.provide(accept(identity), services)
        const refused = yield* startWait(host, other.id)
        yield* result(
          ["grants", "revoke", "--issuer", server.issuer, `--client=${host.clientId()}`, `--grant=${String(grant_id)}`],
          env
        )
        const ended = yield* refused.answer
        assert.deepInclude(ended, { isError: true })
        assert.include(JSON.stringify(ended), "grant_revoked")
        assert.notInclude(JSON.stringify(ended), other.id)

        const before = host.exchanges.length
        const denied = yield* Effect.promise(() => failureOf(callGet(host, id)))
        const after = host.exchanges.slice(before)
        const statuses = after.filter(({ url: called }) => called === url.href).map(({ status }) => status)
        if (refreshes) {
          assert.instanceOf(denied, StreamableHTTPError)
          assert.strictEqual((denied as StreamableHTTPError).code, 401)
          assert.deepStrictEqual(statuses, [401, 401])
        } else {
          assert.instanceOf(denied, UnauthorizedError)
          assert.deepStrictEqual(statuses, [401])
          assert.lengthOf(host.authorizations, 2)
        }
        assert.include(after[0]!.challenge, "error=\"invalid_token\"")
        assert.notInclude(String(denied), id)

        // 5. A shutdown does not wait for the connections of waits, which hosts would keep open.
        const streams = host.exchanges.filter(({ contentType }) => contentType === "text/event-stream")
        assert.lengthOf(streams, 3)
        for (const { connection } of streams) assert.strictEqual(connection, "close")

        // 6. No log line shows a token.
        yield* second.stop("SIGTERM")
        assert.isAbove(host.secrets.length, 0)
        for (const secret of host.secrets) {
          for (const { output } of [first, second]) assert.notInclude(output.stderr + output.stdout, secret)
        }
      }).pipe(Effect.scoped))
  }
})
