/**
 * New keys are used at once. The test rotates the keys of a real authorization server and moves the gateway's clock. `unit/oauth/KeySet`
 * has its outages.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorizedGateway,
  idsOf,
  read,
  server,
  settled,
  type Setup,
  Surroundings
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "agent", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }
]

const setup: Setup = {
  // Longer than keys are used without a fetch.
  servers: [{ agents, tokenLifetime: 3 * 3600 }],
  accept: ([server]) => ({
    issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {}, signatureTimeToLive: 0 }]
  })
}

layer(authorizedGateway(setup), { excludeTestServices: true })("New keys of the authorization server", (it) => {
  it.effect("verify the tokens that they sign; old tokens are good while the old keys are published", () =>
    Effect.gen(function*() {
      const { retireKeys, rotateKeys } = yield* server()
      const { passTime } = yield* Surroundings
      const { holder, operation } = yield* settled("agent")
      yield* rotateKeys
      passTime("31 seconds")
      const tokens = yield* Effect.promise(() => holder.agent.refresh(holder.tokens))
      assert.deepStrictEqual(idsOf(yield* read({ ...holder, tokens })), [operation.id])
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
      yield* retireKeys
      passTime("11 minutes")
      assert.deepStrictEqual(idsOf(yield* read({ ...holder, tokens })), [operation.id])
      assertProblemOf(yield* read(holder), "invalid_token")
    }))
})
