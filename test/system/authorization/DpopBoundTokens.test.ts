/**
 * Tokens bound to a key read only with a fresh DPoP proof of that key. The tests use a real authorization server,
 * `oauth4webapi` and the real PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { decodeJwt } from "jose"
import { randomUUID } from "node:crypto"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  idsOf,
  presented,
  read,
  readByLibrary,
  settled,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { generateKey, makeProof, thumbprintOf } from "../../fixtures/authorization/Keys.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { issue } from "../../fixtures/http/HttpScene.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "bound", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "unbound", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }
]

const setup: Setup = {
  servers: [{ agents, dpopNonces: true }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }] }),
  own: true
}

const target = "/v1/operations"
const url = baseUrl + target

/** The order of the curve P-256. */
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/** The second valid signature of the same content. It needs no key: `s` and `-s` verify alike. */
const twin = (jwt: string): string => {
  const bytes = Buffer.from(jwt.slice(jwt.lastIndexOf(".") + 1), "base64url")
  const s = order - BigInt(`0x${bytes.subarray(32).toString("hex")}`)
  const other = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, "0"), "hex")])
  return jwt.slice(0, jwt.lastIndexOf(".") + 1) + other.toString("base64url")
}

const withProof = (token: string, proof: string) => ({ headers: { authorization: `DPoP ${token}`, dpop: proof } })

layer(authorizedGateway(setup), { excludeTestServices: true })("Tokens that are bound to a key", (it) => {
  it.effect("read with a new DPoP proof of that key for each request", () =>
    Effect.gen(function*() {
      const { holder, operation } = yield* settled("bound")
      assert.deepStrictEqual(decodeJwt(holder.tokens.access)["cnf"], {
        jkt: yield* Effect.promise(() => thumbprintOf(holder.agent.key))
      })
      assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
      assert.strictEqual((yield* read(holder, `${target}/${operation.id}`)).status, 200)
      assert.strictEqual((yield* read(holder, `${target}?page_size=1`)).status, 200, "a DPoP proof has no query")
    }))

  it.effect("read with the DPoP proofs of oauth4webapi", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* readByLibrary(yield* authorize("bound"))).status, 200)
    }))

  it.effect("are 401 without a DPoP proof; the DPoP challenge names the error and the algorithms", () =>
    Effect.gen(function*() {
      const { tokens: { access } } = yield* authorize("bound")
      const { send } = yield* Gateway
      const answer = yield* send(target, { headers: { authorization: `DPoP ${access}` } })
      assertProblemOf(answer, "invalid_dpop_proof")
      const challenge = answer.headers["www-authenticate"]!
      assert.match(challenge, /DPoP realm="[^"]+", error="invalid_dpop_proof"/)
      assert.match(challenge, /algs="ES256 EdDSA Ed25519 PS256"/)
    }))

  it.effect("of the gateway itself are not bound, so they are 401 under the scheme DPoP with any DPoP proof", () =>
    Effect.gen(function*() {
      const { token } = yield* issue()
      const { send } = yield* Gateway
      const key = yield* Effect.promise(() => generateKey("ES256"))
      assertProblemOf(yield* send(target, withProof(token, makeProof({ key, token, url }))), "invalid_token")
      assert.strictEqual((yield* send(target, { token })).status, 200)
    }))

  it.effect("are 401 with two DPoP proofs, in one header or in two", () =>
    Effect.gen(function*() {
      const { agent, tokens: { access } } = yield* authorize("bound")
      const { send } = yield* Gateway
      const proofs = [1, 2].map(() => makeProof({ key: agent.key, token: access, url }))
      for (const dpop of [proofs.join(", "), proofs]) {
        const answer = yield* send(target, { headers: { authorization: `DPoP ${access}`, dpop } })
        assertProblemOf(answer, "invalid_dpop_proof")
      }
    }))

  it.effect("read with HEAD and a DPoP proof for HEAD", () =>
    Effect.gen(function*() {
      const holder = yield* authorize("bound")
      const { send } = yield* Gateway
      assert.strictEqual(
        (yield* send(target, { ...presented(holder, target, { method: "HEAD" }), method: "HEAD" })).status,
        200
      )
      assert.strictEqual((yield* send(target, { ...presented(holder, target), method: "HEAD" })).status, 401)
    }))

  it.effect("are 401 with a used DPoP proof, also under its second valid signature", () =>
    Effect.gen(function*() {
      const { agent, tokens: { access } } = yield* authorize("bound")
      const { send } = yield* Gateway
      const proof = makeProof({ key: agent.key, token: access, url })
      assert.strictEqual((yield* send(target, withProof(access, proof))).status, 200)
      for (const again of [proof, twin(proof)]) {
        const answer = yield* send(target, withProof(access, again))
        assert.match(assertProblemOf(answer, "invalid_dpop_proof").detail, /used before/)
      }
    }))

  it.effect("do not use up a DPoP proof that is refused for another reason", () =>
    Effect.gen(function*() {
      const holder = yield* authorize("bound")
      const jti = randomUUID()
      assertProblemOf(yield* read(holder, target, { claims: { jti, ath: "x" } }), "invalid_dpop_proof")
      assert.strictEqual((yield* read(holder, target, { claims: { jti } })).status, 200)
    }))
})
