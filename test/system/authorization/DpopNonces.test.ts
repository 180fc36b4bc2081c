/**
 * Where nonces are required, a DPoP proof must carry a current nonce of the gateway. The tests use a real authorization
 * server and two gateways on one database.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  anotherGateway,
  authorize,
  authorizedGateway,
  presented,
  read,
  readByLibrary,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { issue } from "../../fixtures/http/HttpScene.ts"
import type { Answer } from "../../fixtures/http/HttpWire.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "bound", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "unbound", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }
]

const nonceKey = Redacted.make(new Uint8Array(32).fill(5))

const setup: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({
    issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }],
    senderConstrained: "required",
    dpop: { nonceKey }
  }),
  own: true
}

const target = "/v1/operations"

const nonceOf = (answer: Answer): string => {
  assertProblemOf(answer, "use_dpop_nonce")
  assert.match(answer.headers["www-authenticate"]!, /DPoP realm="[^"]+", error="use_dpop_nonce"/)
  assert.strictEqual(answer.headers["cache-control"], "no-store")
  return answer.headers["dpop-nonce"]!
}

layer(authorizedGateway(setup), { excludeTestServices: true })(
  "Where nonces and sender-constrained tokens are required",
  (it) => {
    it.effect("a DPoP proof without a nonce is refused with one, which any gateway with the same key accepts", () =>
      Effect.gen(function*() {
        const holder = yield* authorize("bound")
        const nonce = nonceOf(yield* read(holder))
        assert.strictEqual((yield* read(holder, target, { nonce })).status, 200)
        const other = yield* anotherGateway(setup)
        assert.strictEqual((yield* other.send(target, presented(holder, target, { nonce }))).status, 200)
      }))

    it.effect("oauth4webapi repeats its request with the nonce", () =>
      Effect.gen(function*() {
        const holder = yield* authorize("bound")
        const refused = yield* Effect.exit(readByLibrary(holder))
        assert.strictEqual(refused._tag, "Failure")
        assert.strictEqual((yield* readByLibrary(holder)).status, 200)
      }))

    it.effect("tokens without a confirmation are 401, including those of the gateway itself", () =>
      Effect.gen(function*() {
        assertProblemOf(yield* read(yield* authorize("unbound")), "invalid_token")
        const { token } = yield* issue()
        const answer = yield* Gateway.use(({ send }) => send(target, { token }))
        assertProblemOf(answer, "invalid_token")
        assert.match(answer.headers["www-authenticate"]!, /^DPoP realm=/)
      }))
  }
)
