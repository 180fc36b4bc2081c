/**
 * A grant that is revoked at the authorization server stops reading at once, at every gateway. The tests revoke at a
 * real server, whose events a webhook delivers.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  type Authorized,
  authorizedGateway,
  connectWebhook,
  idsOf,
  read,
  server,
  settled,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "agent", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "bearer", tokens: "EdDSA", authentication: "client_secret_basic", binding: "none" }
]

const withProvisioning: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }] })
}

const byEvents: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl }] })
}

/** The owner or the agent revokes the grant at the authorization server, which sends an event to the gateway. */
const revokeAtServer = ({ agent, tokens }: Authorized) =>
  Effect.andThen(
    Effect.promise(() => agent.revoke(tokens.refresh)),
    Effect.flatMap(server(), ({ delivered }) => delivered)
  )

layer(authorizedGateway(withProvisioning), { excludeTestServices: true })(
  "A revocation at the authorization server",
  (it) => {
    it.effect.each(["agent", "bearer"])(
      "is 401 grant_revoked at the next read, although the token is good: %s",
      (client_id) =>
        Effect.gen(function*() {
          yield* connectWebhook(yield* server())
          const { holder, operation } = yield* settled(client_id)
          yield* revokeAtServer(holder)
          const answer = yield* read(holder)
          assertProblemOf(answer, "grant_revoked")
          assert.include(answer.headers["www-authenticate"], "error=\"invalid_token\"")
          assertProblemOf(yield* read(holder, `/v1/operations/${operation.id}`), "grant_revoked")
        })
    )
  }
)

layer(authorizedGateway(byEvents), { excludeTestServices: true })("Where grants are registered by events", (it) => {
  it.effect("a token without an event is 401", () =>
    Effect.gen(function*() {
      assertProblemOf(yield* read(yield* authorize("bearer")), "invalid_token")
    }))

  it.effect("a grant reads from its event until its revocation", () =>
    Effect.gen(function*() {
      const { delivered } = yield* server()
      yield* connectWebhook(yield* server())
      const holder = yield* authorize("agent")
      yield* delivered
      assert.deepStrictEqual(idsOf(yield* read(holder)), [])
      yield* revokeAtServer(holder)
      assertProblemOf(yield* read(holder), "grant_revoked")
    }))
})
