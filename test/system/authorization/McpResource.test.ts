/**
 * The MCP endpoint is a protected resource of its own. A token for it alone is good there and nowhere else, however the gateway
 * verifies it and with any state of its caches. The tests use a real authorization server and the real PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { IntrospectionIssuer, JwtIssuer } from "../../../src/services/verification/OAuthVerifier.ts"
import {
  type AgentClient,
  type AuthorizationServer,
  clientSecret
} from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  type Authorized,
  authorizedGateway,
  callMcp,
  idsOf,
  mcpUrl,
  postMcp,
  presented,
  read,
  readByTool,
  type Setup,
  submit
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "plain", tokens: "ES256", authentication: "client_secret_basic", binding: "none" },
  { client_id: "bound", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "mutual", tokens: "ES256", authentication: "private_key_jwt", binding: "certificate" },
  { client_id: "opaque", tokens: "opaque", authentication: "client_secret_basic", binding: "none" }
]

type Issuer = JwtIssuer | IntrospectionIssuer

const setup = (issuerOf: (server: AuthorizationServer) => Issuer, certificates: boolean): Setup => ({
  servers: [{ agents }],
  own: true,
  accept: ([server]) => ({
    issuers: [issuerOf(server!)],
    ...certificates ? { certificates: { header: "client-cert", proxies: ["127.0.0.1"] } } : {}
  })
})

const jwtIssuer = ({ issuer }: AuthorizationServer): Issuer => ({ issuer, audience: baseUrl, grantProvisioning: {} })

const introspectedIssuer = ({ issuer }: AuthorizationServer): Issuer => ({
  tokens: "introspection",
  issuer,
  audience: baseUrl,
  grantProvisioning: {},
  client: { method: "client_secret_basic", clientId: "gateway-basic", secret: Redacted.make(clientSecret) },
  answerTimeToLive: "1 minute"
})

/** A token for the MCP endpoint alone. */
const narrow = (client_id: string) => authorize(client_id, { resource: mcpUrl })

const succeeds = Effect.fnUntraced(function*(holder: Authorized) {
  const answer = yield* callMcp(holder)
  assert.strictEqual(answer.status, 200, answer.text)
})

/** Refused on a list, an operation and the change feed. */
const failsElsewhere = Effect.fnUntraced(function*(holder: Authorized) {
  const { send } = yield* Gateway
  const targets = [
    "/v1/operations",
    "/v1/operations/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f",
    "/v1/operations?page_size=1",
    "/v1/operations/changes"
  ]
  for (const target of targets) {
    const answer = yield* send(target, presented(holder, target))
    assertProblemOf(answer, "invalid_token")
    assert.notInclude(answer.headers["www-authenticate"], "/mcp")
    assert.notInclude(answer.headers["www-authenticate"], "scope=")
  }
})

for (
  const [name, client_id, issuerOf] of [
    ["with a JWT", "plain", jwtIssuer],
    ["that is introspected", "opaque", introspectedIssuer]
  ] as const
) {
  layer(authorizedGateway(setup(issuerOf, false)), { excludeTestServices: true })(
    `A token for the MCP endpoint alone, ${name}`,
    (it) => {
      it.effect("is good there: its agent reads the operations of its grant, and of no other", () =>
        Effect.gen(function*() {
          const [holder, other] = [yield* narrow(client_id), yield* narrow(client_id)]
          yield* succeeds(holder)
          yield* succeeds(other)
          const operation = yield* submit(holder.account, client_id)
          assert.include((yield* readByTool(holder)).text, operation.id)
          const empty = yield* readByTool(other)
          assert.strictEqual(empty.status, 200)
          assert.notInclude(empty.text, operation.id)
        }))

      it.effect("is refused elsewhere, before and after its use", () =>
        Effect.gen(function*() {
          const holder = yield* narrow(client_id)
          yield* failsElsewhere(holder)
          yield* succeeds(holder)
          yield* failsElsewhere(holder)
          yield* succeeds(holder)
        }))

      it.effect("is refused on every other spelling of the path", () =>
        Effect.gen(function*() {
          const holder = yield* narrow(client_id)
          yield* succeeds(holder)
          for (const target of ["/%6dcp", "/mcp/", "//mcp", "/MCP", "/mcp%2F", "/mcp;a", "/x/../mcp", "/mcp/x"]) {
            const { status } = yield* postMcp(presented(holder, target, { method: "POST" }), target)
            assert.include([401, 404], status, target)
          }
        }))

      it.effect("registers the same grant as a token for the gateway, which is good everywhere", () =>
        Effect.gen(function*() {
          const wide = yield* authorize(client_id)
          yield* succeeds(wide)
          assert.deepStrictEqual(idsOf(yield* read(wide)), [])
          const operation = yield* submit(wide.account, client_id)
          assert.deepStrictEqual(idsOf(yield* read(wide)), [operation.id])
          yield* succeeds(wide)
        }))
    }
  )
}

layer(authorizedGateway(setup(jwtIssuer, true)), { excludeTestServices: true })("The MCP resource", (it) => {
  it.effect("names its metadata in every 401 and 403, and the scope to request in every challenge of a 401", () =>
    Effect.gen(function*() {
      const holder = yield* narrow("bound")
      const call = (authorization: string) => postMcp({ headers: { authorization } })
      const answers = [
        yield* call("Basic Og=="),
        yield* call("Bearer x"),
        yield* call("DPoP x"),
        yield* callMcp(holder, { method: "GET" }),
        yield* callMcp({ ...holder, tokens: { ...holder.tokens, access: "x.y.z" } })
      ]
      for (const { headers, status } of answers) {
        assert.strictEqual(status, 401)
        const challenges = headers["www-authenticate"]!.split(/, (?=(?:Bearer|DPoP) realm=)/)
        assert.lengthOf(challenges, 2)
        for (const challenge of challenges) {
          assert.include(challenge, `resource_metadata="${baseUrl}/.well-known/oauth-protected-resource/mcp"`)
          assert.strictEqual(challenge.split("scope=\"operations:read\"").length, 2)
        }
      }
    }))

  it.effect("names the missing scope once in a 403, so that the client can request it", () =>
    Effect.gen(function*() {
      const answer = yield* readByTool(yield* authorize("plain", { resource: mcpUrl, scope: "operations:write" }))
      assertProblemOf(answer, "insufficient_scope")
      const challenge = answer.headers["www-authenticate"]!
      assert.include(challenge, "error=\"insufficient_scope\"")
      assert.strictEqual(challenge.split("scope=\"operations:read\"").length, 2)
    }))

  it.effect("has the metadata of the gateway, apart from its URL and name, without a token", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const [own, gateway] = yield* Effect.forEach(
        ["/mcp", ""],
        (path) =>
          Effect.map(send(`/.well-known/oauth-protected-resource${path}`), ({ text }) => JSON.parse(text) as object)
      )
      assert.deepStrictEqual(own, {
        ...gateway,
        resource: mcpUrl,
        resource_name: "Financial Agents Gateway: MCP endpoint"
      })
    }))

  it.effect("takes a DPoP proof for POST at its URL, once", () =>
    Effect.gen(function*() {
      const holder = yield* narrow("bound")
      const jti = "one-proof"
      assert.strictEqual((yield* callMcp(holder, { claims: { jti } })).status, 200)
      assertProblemOf(yield* callMcp(holder, { claims: { jti } }), "invalid_dpop_proof")
      for (
        const proof of [
          { method: "GET" },
          { url: `${baseUrl}/v1/operations` },
          { url: baseUrl },
          { url: "https://evil.test/mcp" }
        ]
      ) assertProblemOf(yield* callMcp(holder, proof), "invalid_dpop_proof")
      yield* failsElsewhere(holder)
    }))
})
