/**
 * New keys are used at once, and old keys survive an outage for an hour. The tests rotate the keys of a real
 * authorization server and move the gateway's clock.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { decodeJwt } from "jose"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  idsOf,
  read,
  server,
  settled,
  type Setup,
  Surroundings
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { generateKeys, signToken } from "../../fixtures/authorization/Keys.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
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

const path = "/v1/operations"

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

layer(authorizedGateway(setup), { excludeTestServices: true })("While the authorization server is down", (it) => {
  it.effect("its keys are used for an hour, and then its tokens are 503", () =>
    Effect.gen(function*() {
      const { close, reopen } = yield* server()
      const { passTime } = yield* Surroundings
      const { holder, operation } = yield* settled("agent")
      yield* close
      passTime("11 minutes")
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
      passTime("45 minutes")
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
      passTime("5 minutes")
      assertProblemOf(yield* read(holder), "authorization_unavailable")
      yield* reopen
      passTime("31 seconds")
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
    }))
})

layer(authorizedGateway(setup), { excludeTestServices: true })(
  "While the authorization server does not answer",
  (it) => {
    it.effect("its tokens are 503 authorization_unavailable in time, after the first at once, and do not fill the gateway", () =>
      Effect.gen(function*() {
        const { behave, requests } = yield* server()
        const { send } = yield* Gateway
        const holder = yield* authorize("agent")
        const strangers = yield* Effect.promise(() => generateKeys())
        const junk = signToken(strangers, "ES256", decodeJwt(holder.tokens.access), { kid: "nobody's" })
        behave("never")
        const before = requests().length
        // The gateway's own deadline would cause another problem code.
        const all = Array.from({ length: 20 }, (_, at) => at % 2 === 0 ? read(holder) : send(path, { token: junk }))
        for (let times = 0; times < 5; times++) {
          for (const answer of yield* Effect.all(all, { concurrency: "unbounded" })) {
            assertProblemOf(answer, "authorization_unavailable")
          }
        }
        assert.strictEqual(requests().length, before + 1)
        behave("well")
      }))
  }
)
