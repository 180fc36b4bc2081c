/**
 * Tokens bound to a certificate read only over a connection on which a trusted proxy saw that certificate. The tests
 * use a real authorization server and the real PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  idsOf,
  read,
  settled,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { certificate } from "../../fixtures/http/TlsServer.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "mutual", tokens: "ES256", authentication: "private_key_jwt", binding: "certificate" },
  { client_id: "unbound", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }
]

const setup = (proxies: ReadonlyArray<string>): Setup => ({
  servers: [{ agents }],
  accept: ([server]) => ({
    issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }],
    senderConstrained: "required",
    certificates: { header: "client-cert", proxies }
  })
})

const target = "/v1/operations"

layer(authorizedGateway(setup(["127.0.0.1"])), { excludeTestServices: true })(
  "Tokens that are bound to a certificate",
  (it) => {
    it.effect("read if a trusted proxy forwards that certificate", () =>
      Effect.gen(function*() {
        const { holder, operation } = yield* settled("mutual")
        assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
      }))

    it.effect("are accepted where a confirmation is required, as DPoP-bound tokens are", () =>
      Effect.gen(function*() {
        const { tokens: { access } } = yield* authorize("unbound")
        const { send } = yield* Gateway
        const answer = yield* send(target, { token: access, headers: { "client-cert": `:${certificate}:` } })
        assertProblemOf(answer, "invalid_token")
        assert.match(answer.headers["www-authenticate"]!, /Bearer realm=.*DPoP realm=/)
      }))
  }
)

layer(authorizedGateway(setup(["192.0.2.1"])), { excludeTestServices: true })(
  "A certificate header that no trusted proxy sent",
  (it) => {
    it.effect("is ignored", () =>
      Effect.gen(function*() {
        assertProblemOf(yield* read(yield* authorize("mutual")), "invalid_token")
      }))
  }
)
