/**
 * Opaque tokens are introspected at their authorization server, whose failures are 503 and never 401. The tests use a
 * real authorization server and the real PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { ClientAuthentication } from "../../../src/oauth/ClientAuthentication.ts"
import {
  type AgentClient,
  type AuthorizationServer,
  clientSecret
} from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  idsOf,
  otherService,
  read,
  server,
  settled,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "opaque", tokens: "opaque", authentication: "client_secret_basic", binding: "none" }
]

const withSecret: ClientAuthentication = {
  method: "client_secret_basic",
  clientId: "gateway-basic",
  secret: Redacted.make(clientSecret)
}

const setup = (client: (server: AuthorizationServer) => ClientAuthentication): Setup => ({
  servers: [{ agents }],
  accept: ([server]) => ({
    issuers: [{
      tokens: "introspection",
      issuer: server!.issuer,
      audience: baseUrl,
      grantProvisioning: {},
      client: client(server!),
      // No test waits for it: it only must not pass on a busy machine.
      timeout: "30 seconds"
    }]
  })
})

/** For every failure of the authorization server, the client is told to retry, and never that its token is bad. */
const assertUnavailable = Effect.fnUntraced(function*(client_id: string, wrong: Effect.Effect<void>) {
  const holder = yield* authorize(client_id)
  yield* wrong
  const answer = yield* read(holder)
  assertProblemOf(answer, "authorization_unavailable")
  assert.match(answer.headers["retry-after"]!, /^[1-9]\d*$/)
  assert.notProperty(answer.headers, "www-authenticate")
  return holder
})

layer(
  authorizedGateway(setup(({ clientKey }) => ({
    method: "private_key_jwt",
    clientId: "gateway-keyed",
    key: Redacted.make(clientKey)
  }))),
  { excludeTestServices: true }
)("Opaque tokens that the gateway introspects with a key", (it) => {
  it.effect("read their grant's operations", () =>
    Effect.gen(function*() {
      const { holder, operation } = yield* settled("opaque")
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
    }))
})

layer(authorizedGateway(setup(() => withSecret)), { excludeTestServices: true })(
  "Opaque tokens that the gateway introspects with a secret",
  (it) => {
    it.effect("read their grant's operations", () =>
      Effect.gen(function*() {
        const { holder, operation } = yield* settled("opaque")
        assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
        assert.strictEqual((yield* read(holder, `/v1/operations/${operation.id}`)).status, 200)
      }))

    it.effect("that were revoked are 401 at the very next read", () =>
      Effect.gen(function*() {
        const { holder } = yield* settled("opaque")
        yield* Effect.promise(() => holder.agent.revoke(holder.tokens.access))
        assertProblemOf(yield* read(holder), "invalid_token")
      }))

    it.effect("for another service, refresh tokens, and those of the client itself are refused", () =>
      Effect.gen(function*() {
        const elsewhere = yield* authorize("opaque", { resource: otherService })
        const { send } = yield* Gateway
        const own = yield* Effect.promise(() => elsewhere.agent.ownToken(baseUrl))
        for (const token of [elsewhere.tokens.access, elsewhere.tokens.refresh, own]) {
          assertProblemOf(yield* send("/v1/operations", { token }), "invalid_token")
        }
      }))

    it.effect("are 503 with Retry-After while the authorization server answers with errors", () =>
      Effect.gen(function*() {
        const { behave } = yield* server()
        const holder = yield* assertUnavailable("opaque", Effect.sync(() => behave("badly")))
        behave("well")
        assert.strictEqual((yield* read(holder)).status, 200)
      }))
  }
)
