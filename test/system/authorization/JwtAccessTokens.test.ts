/**
 * JWT access tokens of a real authorization server read exactly the operations of their grant. The tests run the
 * gateway against the real PostgreSQL.
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
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { signToken } from "../../fixtures/authorization/Keys.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { json } from "../../fixtures/http/HttpWire.ts"

const agent = (client_id: string, tokens: AgentClient["tokens"]): AgentClient => ({
  client_id,
  tokens,
  authentication: "client_secret_basic",
  binding: "none"
})

const agents = [
  agent("es256", "ES256"),
  agent("eddsa", "EdDSA"),
  agent("ed25519", "Ed25519"),
  agent("ps256", "PS256")
]

const setup: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }] })
}

/** The registration that the server would send for a grant of this client. */
const claimsOf = (access: string) => decodeJwt(access) as Readonly<Record<string, unknown>>

layer(authorizedGateway(setup), { excludeTestServices: true })("JWT access tokens", (it) => {
  it.effect.each(["es256", "eddsa", "ed25519", "ps256"])(
    "of an authorization server read its grant's operations: %s",
    (client_id) =>
      Effect.gen(function*() {
        const { holder, operation } = yield* settled(client_id)
        assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
        const answer = yield* read(holder, `/v1/operations/${operation.id}`)
        assert.strictEqual(answer.status, 200)
        assert.strictEqual((json(answer) as { readonly id: string }).id, operation.id)
      })
  )

  it.effect("that were refreshed read the same operations, as do the old ones until they expire", () =>
    Effect.gen(function*() {
      const { holder, operation } = yield* settled("es256")
      const tokens = yield* Effect.promise(() => holder.agent.refresh(holder.tokens))
      assert.notStrictEqual(tokens.access, holder.tokens.access)
      assert.deepStrictEqual(idsOf(yield* read({ ...holder, tokens })), [operation.id])
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
    }))

  it.effect("allow no more than their own scopes, even if their grant allows more", () =>
    Effect.gen(function*() {
      const { holder } = yield* settled("es256", { scope: "operations:read operations:write" })
      const { keys } = yield* server()
      const claims = claimsOf(holder.tokens.access)
      const narrowed = signToken(keys(), "ES256", { ...claims, jti: "narrow", scope: "operations:write" })
      const scopeless = signToken(keys(), "ES256", { ...claims, jti: "scopeless", scope: undefined })
      for (const access of [narrowed, scopeless]) {
        assertProblemOf(yield* read({ ...holder, tokens: { ...holder.tokens, access } }), "insufficient_scope")
      }
      assert.strictEqual((yield* read(holder)).status, 200)
    }))

  it.effect("of the client itself are refused, because no owner granted them", () =>
    Effect.gen(function*() {
      const { agent } = yield* authorize("es256")
      const token = yield* Effect.promise(() => agent.ownToken(baseUrl))
      assertProblemOf(yield* Gateway.use(({ send }) => send("/v1/operations", { token })), "invalid_token")
    }))

  it.effect("do not appear in any response", () =>
    Effect.gen(function*() {
      const holder = yield* authorize("es256")
      const [, claims, signature] = holder.tokens.access.split(".")
      const answers = [
        yield* read(holder),
        yield* read({ ...holder, tokens: { ...holder.tokens, access: `${holder.tokens.access}x` } })
      ]
      for (const { text } of answers) {
        assert.notInclude(text, claims!)
        assert.notInclude(text, signature!)
      }
    }))
})
