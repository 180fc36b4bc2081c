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

const fetches = Effect.map(server(), ({ requests }) => requests().filter((url) => url === "/jwks").length)

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

  it.effect("that do not exist are searched for once in 30 seconds under any flood", () =>
    Effect.gen(function*() {
      const { passTime } = yield* Surroundings
      const { send } = yield* Gateway
      const { tokens: { access } } = yield* authorize("agent")
      const strangers = yield* Effect.promise(() => generateKeys())
      const flood = Effect.forEach(
        Array.from({ length: 200 }),
        (_, at) =>
          send("/v1/operations", { token: signToken(strangers, "ES256", decodeJwt(access), { kid: `key-${at}` }) }),
        { concurrency: 32 }
      )
      for (const answer of yield* flood) assertProblemOf(answer, "invalid_token")
      const before = yield* fetches
      for (const answer of yield* flood) assertProblemOf(answer, "invalid_token")
      assert.strictEqual(yield* fetches, before)
      passTime("31 seconds")
      for (const answer of yield* flood) assertProblemOf(answer, "invalid_token")
      assert.strictEqual(yield* fetches, before + 1)
    }))
})

layer(authorizedGateway(setup), { excludeTestServices: true })("While the authorization server is down", (it) => {
  it.effect("and was never reached, tokens are 503 with Retry-After until it is up", () =>
    Effect.gen(function*() {
      const { close, reopen } = yield* server()
      const { passTime } = yield* Surroundings
      const holder = yield* authorize("agent")
      yield* close
      const answer = yield* read(holder)
      assertProblemOf(answer, "authorization_unavailable")
      assert.match(answer.headers["retry-after"]!, /^[1-9]\d*$/)
      yield* reopen
      passTime("31 seconds")
      assert.strictEqual((yield* read(holder)).status, 200)
    }))

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

  it.effect("a token of an unknown key is 503, not 401, because the key may be new", () =>
    Effect.gen(function*() {
      const { close, keys, reopen, rotateKeys } = yield* server()
      const { passTime } = yield* Surroundings
      const { send } = yield* Gateway
      const { tokens: { access } } = yield* authorize("agent")
      yield* rotateKeys
      const token = signToken(keys(), "ES256", decodeJwt(access))
      yield* close
      passTime("31 seconds")
      assertProblemOf(yield* send("/v1/operations", { token }), "authorization_unavailable")
      yield* reopen
      passTime("31 seconds")
      assert.strictEqual((yield* send("/v1/operations", { token })).status, 200)
    }))

  it.effect("a malformed token, or one of another issuer, is still 401", () =>
    Effect.gen(function*() {
      const { close, keys, reopen } = yield* server()
      const { passTime } = yield* Surroundings
      const { send } = yield* Gateway
      const { tokens: { access } } = yield* authorize("agent")
      yield* close
      passTime("2 hours")
      const elsewhere = signToken(keys(), "ES256", { ...decodeJwt(access), iss: "https://as.evil.test" })
      for (const token of ["x", "a.b.c", elsewhere]) {
        assertProblemOf(yield* send("/v1/operations", { token }), "invalid_token")
      }
      yield* reopen
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
