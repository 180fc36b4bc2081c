/**
 * Several issuers share one gateway without sharing clients, keys or failures. The tests use several real authorization
 * servers.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { decodeJwt } from "jose"
import { Grants } from "../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import type { IssuersOptions } from "../../../src/services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../../../src/services/verification/ProofReplay.ts"
import { type AgentClient, clientSecret } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  idsOf,
  read,
  server,
  type Setup,
  submit
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { signToken } from "../../fixtures/authorization/Keys.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../fixtures/http/HttpScene.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "agent", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "bearer", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }
]

const opaqueAgents: ReadonlyArray<AgentClient> = [
  { client_id: "bearer", tokens: "opaque", authentication: "client_secret_basic", binding: "none" }
]

const setup: Setup = {
  servers: [{ agents }, { agents }, { agents: opaqueAgents }],
  own: true,
  accept: ([first, second, third]) => ({
    issuers: [
      {
        issuer: first!.issuer,
        audience: baseUrl,
        grantProvisioning: { ownerPrefix: "people/" },
        clientPrefix: "first/"
      },
      {
        issuer: second!.issuer,
        audience: baseUrl,
        grantProvisioning: { ownerPrefix: "others/" },
        clientPrefix: "second/"
      },
      {
        tokens: "introspection",
        issuer: third!.issuer,
        audience: baseUrl,
        grantProvisioning: { ownerPrefix: "people/" },
        clientPrefix: "third/",
        client: { method: "client_secret_basic", clientId: "gateway-basic", secret: Redacted.make(clientSecret) }
      }
    ]
  })
}

const prefixes = [["first/", "people/"], ["second/", "others/"], ["third/", "people/"]] as const

layer(authorizedGateway(setup), { excludeTestServices: true })("Several issuers at once", (it) => {
  it.effect("each have their own clients, even with equal names, beside those of the gateway's own tokens", () =>
    Effect.gen(function*() {
      const account = "the-same-owner"
      const holders = yield* Effect.forEach(prefixes, ([client, owner], index) =>
        Effect.gen(function*() {
          const holder = yield* authorize("bearer", { account, from: yield* server(index) })
          assert.deepStrictEqual(idsOf(yield* read(holder)), [])
          return { holder, operation: yield* submit(owner + account, `${client}bearer`) }
        }))
      for (const { holder, operation } of holders) {
        assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
      }
      const own = yield* issue()
      const operation = yield* accept(own)
      const answer = yield* Gateway.use(({ send }) => send("/v1/operations", { token: own.token }))
      assert.deepStrictEqual(idsOf(answer), [operation.id])
    }))

  it.effect("share the provider connections of people with equal names only behind one owner prefix", () =>
    Effect.gen(function*() {
      for (const index of prefixes.keys()) {
        const holder = yield* authorize("bearer", { account: "1001", from: yield* server(index) })
        assert.deepStrictEqual(idsOf(yield* read(holder)), [])
      }
      const sql = yield* SqlClient.SqlClient
      const connections = yield* sql`
        SELECT resource_owner, array_agg(g.client_id ORDER BY g.client_id) AS clients
        FROM provider_connections p JOIN grants g USING (resource_owner)
        WHERE resource_owner LIKE '%1001' GROUP BY p.id, resource_owner ORDER BY resource_owner`
      assert.deepStrictEqual<unknown>(connections, [
        { resource_owner: "others/1001", clients: ["second/bearer"] },
        { resource_owner: "people/1001", clients: ["first/bearer", "third/bearer"] }
      ])
    }))

  it.effect("cannot sign for each other", () =>
    Effect.gen(function*() {
      const [first, second] = [yield* server(0), yield* server(1)]
      const { tokens: { access } } = yield* authorize("bearer")
      const { send } = yield* Gateway
      const claims = decodeJwt(access)
      assert.strictEqual(
        (yield* send("/v1/operations", { token: signToken(first.keys(), "ES256", claims) })).status,
        200
      )
      const forged = [
        signToken(second.keys(), "ES256", claims),
        signToken(second.keys(), "ES256", claims, { kid: first.keys()[0]!.kid }),
        signToken(first.keys(), "ES256", { ...claims, iss: second.issuer })
      ]
      for (const token of forged) assertProblemOf(yield* send("/v1/operations", { token }), "invalid_token")
    }))

  it.effect("keep serving while one of them is down", () =>
    Effect.gen(function*() {
      const [first, , third] = [yield* server(0), yield* server(1), yield* server(2)]
      const one = yield* authorize("bearer", { from: first })
      const opaque = yield* authorize("bearer", { from: third })
      assert.strictEqual((yield* read(opaque)).status, 200)
      yield* third.close
      assert.strictEqual((yield* read(one)).status, 200)
      assertProblemOf(yield* read(opaque), "authorization_unavailable")
      yield* third.reopen
    }))

  it.effect("are asked only about their own tokens", () =>
    Effect.gen(function*() {
      const third = yield* server(2)
      const { send } = yield* Gateway
      const one = yield* authorize("bearer")
      const { token } = yield* issue()
      const elsewhere = signToken(third.keys(), "ES256", {
        ...decodeJwt(one.tokens.access),
        iss: "https://as.evil.test"
      })
      const before = third.requests().length
      assert.strictEqual((yield* read(one)).status, 200)
      assert.strictEqual((yield* send("/v1/operations", { token })).status, 200)
      assertProblemOf(yield* send("/v1/operations", { token: elsewhere }), "invalid_token")
      assert.strictEqual(third.requests().length, before)
    }))

  it.effect("keep the gateway from starting if they could name each other's clients or owners, or are named twice", () =>
    Effect.gen(function*() {
      const issuer = (name: string, clientPrefix: string) => ({
        issuer: `https://${name}.test`,
        audience: baseUrl,
        clientPrefix
      })
      const owners = (...prefixes: ReadonlyArray<string | undefined>) =>
        prefixes.map((ownerPrefix, n) => ({
          ...issuer(`${n}`, `${n}/`),
          grantProvisioning: ownerPrefix === undefined ? {} : { ownerPrefix }
        }))
      const start = (issuers: IssuersOptions["issuers"]) =>
        Layer.build(Layer.fresh(GrantVerifier.layerIssuers({ issuers }))).pipe(
          Effect.provide([ProofReplay.layerMemory, Grants.layerMemory, FetchHttpClient.layer]),
          Effect.provide(MemoryLedger.layer),
          Effect.provide(Platform)
        )
      for (const good of [owners("", ""), owners("a/", "b/", "a/"), [...owners(undefined), issuer("two", "two/")]]) {
        yield* start(good)
      }
      const bad = [
        [issuer("one", ""), issuer("two", "two/")],
        [issuer("one", "a"), issuer("two", "a")],
        [issuer("one", "a"), issuer("two", "ab")],
        [issuer("one", "a/"), issuer("one", "b/")],
        [issuer("one", "caf\u00e9"), issuer("two", "b/")],
        owners(undefined, undefined),
        owners("a/", undefined),
        owners("", "b/"),
        owners("a", "ab"),
        owners("caf\u00e9"),
        []
      ]
      for (const issuers of bad) {
        assert.strictEqual((yield* Effect.flip(start(issuers)))._tag, "AuthorizationMisconfigured")
      }
    }))
})
