/**
 * The command `serve` accepts tokens of the authorization servers in its environment. The tests run real processes, a
 * real authorization server and the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { decodeJwt } from "jose"
import { makeAgent } from "../../fixtures/authorization/Agent.ts"
import {
  type AgentClient,
  clientSecret,
  makeAuthorizationServer
} from "../../fixtures/authorization/AuthorizationServer.ts"
import { makeProof } from "../../fixtures/authorization/Keys.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { openTransaction, untilWaiting } from "../../fixtures/postgres/Pools.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, result, run, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "bound", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "other", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "opaque", tokens: "opaque", authentication: "client_secret_basic", binding: "none" }
]

const target = "/v1/operations"

/** The status of an answer, and the code of a problem. */
const get = (port: number, headers: Record<string, string>) =>
  Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${port}${target}`, { headers })
    const { code } = await response.json() as { readonly code?: string }
    return code ?? response.status
  })

/** Reads until the gateway is not busy. A process that has just started may miss the deadline of its first reads. */
const served = <E, R>(read: Effect.Effect<string | number, E, R>) =>
  Effect.repeat(read, { until: (answer) => answer !== "service_unavailable" })

/** Another process on the same database, behind the same base URL. */
const start = Effect.fnUntraced(function*(env: Readonly<Record<string, string>>) {
  const port = yield* freePort
  yield* serve(["--port", String(port), "--base-url", baseUrl], env)
  return port
})

describe("The command serve, with the authorization servers of the environment", () => {
  it.live("accepts their tokens in every process, each DPoP proof once, no revoked grant, and others while a client's grants wait", () =>
    Effect.gen(function*() {
      const database = yield* createDatabase()
      const server = yield* makeAuthorizationServer({ agents, resources: [baseUrl] })
      const env = {
        DATABASE_URL: urlOf(database),
        OAUTH_ISSUERS: JSON.stringify([{ issuer: server.issuer, first_sight: {} }])
      }
      const [one, other] = [yield* start(env), yield* start(env)]
      const agent = yield* Effect.promise(() => makeAgent(server, "bound"))
      const { access } = yield* Effect.promise(() => agent.authorize({ account: "alice", resource: baseUrl }))
      const prove = () => ({
        authorization: `DPoP ${access}`,
        dpop: makeProof({ key: agent.key, token: access, url: baseUrl + target })
      })

      for (const port of [one, other]) {
        assert.strictEqual(yield* served(Effect.suspend(() => get(port, prove()))), 200)
      }
      const proof = prove()
      assert.strictEqual(yield* get(one, proof), 200)
      assert.strictEqual(yield* get(other, proof), "invalid_dpop_proof")
      assert.strictEqual(yield* get(other, prove()), 200)
      assert.strictEqual(yield* get(one, { authorization: `Bearer ${access}` }), "invalid_token")

      const { grant_id } = decodeJwt(access)
      // The equals sign keeps a name that begins with a hyphen from being read as a flag.
      yield* result(
        ["grants", "revoke", "--issuer", server.issuer, "--client", "bound", `--grant=${String(grant_id)}`],
        { DATABASE_URL: urlOf(database) }
      )
      for (const port of [one, other]) assert.strictEqual(yield* get(port, prove()), "grant_revoked")

      // DPoP proofs of others are checked while grants of one client wait for its revocation, and are soon 503.
      /** Reads with a token that the gateway has not seen, and with a new DPoP proof each time. */
      const authorize = (client_id: string, account: string) =>
        Effect.promise(async () => {
          const agent = await makeAgent(server, client_id)
          const { access } = await agent.authorize({ account, resource: baseUrl })
          return Effect.suspend(() =>
            get(one, {
              authorization: `DPoP ${access}`,
              dpop: makeProof({ key: agent.key, token: access, url: baseUrl + target })
            })
          )
        })
      const stranger = yield* authorize("other", "alice")
      assert.strictEqual(yield* served(stranger), 200)
      const unseen = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, n) => `owner-${n}`),
        (account) => authorize("bound", account)
      )

      yield* Effect.gen(function*() {
        const revocation = yield* openTransaction
        yield* revocation("SELECT lock_grants('bound', true)")
        const waiting = yield* Effect.forEach(unseen, (read) => Effect.forkChild(read))
        yield* untilWaiting(2)
        assert.strictEqual(yield* served(stranger), 200)
        assert.isAtMost(waiting.filter((read) => read.pollUnsafe() !== undefined).length, unseen.length / 2)
        for (const read of waiting) assert.strictEqual(yield* Fiber.join(read), "service_unavailable")
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerFor(database))))
      for (const read of unseen) assert.strictEqual(yield* served(read), 200)
    }).pipe(Effect.provide(Platform)))

  it.live("registers their grants with a role of its own, reads with another, and reports a missing role", () =>
    Effect.gen(function*() {
      const { urlAs } = yield* rolesWith({ proofs: true })
      const server = yield* makeAuthorizationServer({ agents, resources: [baseUrl] })
      const env = {
        DATABASE_URL: urlAs("reader"),
        OAUTH_ISSUERS: JSON.stringify([{ issuer: server.issuer, first_sight: {} }])
      }
      const port = yield* freePort
      const args = ["--no-migrate", "--port", String(port), "--base-url", baseUrl]
      const refused = yield* run(["serve", ...args], env)
      assert.strictEqual(refused.code, 1)
      assert.match(refused.stderr, /^error: the database role may not register grants.*PROVISIONER_DATABASE_URL.*\n$/m)
      const withoutDatabase = { OAUTH_ISSUERS: env.OAUTH_ISSUERS, PROVISIONER_DATABASE_URL: urlAs("provisioner") }
      const directory = yield* temporaryDirectory
      const misconfigured = yield* run(["serve", ...args, "--data-dir", directory], withoutDatabase)
      assert.match(misconfigured.stderr, /PROVISIONER_DATABASE_URL is set without DATABASE_URL/)

      yield* serve(args, { ...env, PROVISIONER_DATABASE_URL: urlAs("provisioner") })
      const agent = yield* Effect.promise(() => makeAgent(server, "bound"))
      const { access } = yield* Effect.promise(() => agent.authorize({ account: "alice", resource: baseUrl }))
      const read = Effect.suspend(() =>
        get(port, {
          authorization: `DPoP ${access}`,
          dpop: makeProof({ key: agent.key, token: access, url: baseUrl + target })
        })
      )
      assert.strictEqual(yield* served(read), 200)
      const { grant_id } = decodeJwt(access)
      yield* result(
        ["grants", "revoke", "--issuer", server.issuer, "--client", "bound", `--grant=${String(grant_id)}`],
        { DATABASE_URL: urlAs("writer") }
      )
      assert.strictEqual(yield* read, "grant_revoked")
    }).pipe(Effect.provide(Platform)))

  it.live("introspects opaque tokens, and reveals none of its secrets", () =>
    Effect.gen(function*() {
      const database = yield* createDatabase()
      const server = yield* makeAuthorizationServer({ agents, resources: [baseUrl] })
      const issuer = {
        tokens: "introspection",
        issuer: server.issuer,
        client_id: "gateway-basic",
        client_secret: clientSecret,
        first_sight: {}
      }
      const port = yield* freePort
      const { output } = yield* serve(
        ["--port", String(port), "--base-url", baseUrl],
        { DATABASE_URL: urlOf(database), OAUTH_ISSUERS: JSON.stringify([issuer]) }
      )
      const agent = yield* Effect.promise(() => makeAgent(server, "opaque"))
      const { access } = yield* Effect.promise(() => agent.authorize({ account: "alice", resource: baseUrl }))
      const authorization = `Bearer ${access}`
      assert.strictEqual(yield* served(get(port, { authorization })), 200)
      server.behave("badly")
      assert.strictEqual(yield* get(port, { authorization }), "authorization_unavailable")
      server.behave("well")
      yield* Effect.promise(() => agent.revoke(access))
      assert.strictEqual(yield* get(port, { authorization }), "invalid_token")
      for (const secret of [access, clientSecret, "alice"]) assert.notInclude(output.stderr, secret)
    }).pipe(Effect.provide(Platform)))

  it.live("does not start with an invalid configuration, and gives the reason without a secret", () =>
    Effect.gen(function*() {
      const env = { DATABASE_URL: urlOf(yield* createDatabase()) }
      const issuer = { issuer: "https://as.test" }
      const provisioning = (name: string) => ({
        issuer: `https://${name}.test`,
        client_prefix: `${name}/`,
        first_sight: { owner_prefix: name }
      })
      const bad: ReadonlyArray<readonly [Readonly<Record<string, string>>, RegExp]> = [
        [{ OAUTH_ISSUERS: "secret{" }, /OAUTH_ISSUERS must be a JSON array/],
        [{ OAUTH_ISSUERS: JSON.stringify([{ ...issuer, secret: "secret" }]) }, /OAUTH_ISSUERS must be a JSON array/],
        [{ OAUTH_ISSUERS: JSON.stringify([{ issuer: "http://as.test" }]) }, /must be https/],
        [{ OAUTH_ISSUERS: JSON.stringify([{ ...issuer, algorithms: ["HS256"] }]) }, /HS256 is not accepted/],
        [{ OAUTH_ISSUERS: JSON.stringify([issuer, { issuer: "https://other.test" }]) }, /client prefix/],
        [{ OAUTH_ISSUERS: JSON.stringify(["a", "ab"].map(provisioning)) }, /owner prefix/],
        [{ OAUTH_ISSUERS: JSON.stringify([issuer]), SENDER_CONSTRAINED: "secret" }, /SENDER_CONSTRAINED must be/],
        [{ OAUTH_ISSUERS: JSON.stringify([issuer]), DPOP_NONCE_KEY: "secret" }, /DPOP_NONCE_KEY must be 32 bytes/],
        [{ OAUTH_ISSUERS: JSON.stringify([issuer]), TRUSTED_PROXIES: "127.0.0.1" }, /CLIENT_CERTIFICATE_HEADER/],
        [
          {
            OAUTH_ISSUERS: JSON.stringify([issuer]),
            TRUSTED_PROXIES: "10.0.0.0/33",
            CLIENT_CERTIFICATE_HEADER: "client-cert"
          },
          /TRUSTED_PROXIES must be IP addresses or CIDR blocks/
        ],
        [{ OAUTH_ISSUERS: JSON.stringify([{ ...issuer, signature_cache: 61 }]) }, /kept for 60 seconds at most/],
        [{ SENDER_CONSTRAINED: "required" }, /need OAUTH_ISSUERS/]
      ]
      yield* Effect.forEach(bad, ([extra, reason]) =>
        Effect.gen(function*() {
          const { code, stderr } = yield* run(["serve", "--no-migrate", "--port", String(yield* freePort)], {
            ...env,
            ...extra
          })
          assert.strictEqual(code, 1)
          assert.match(stderr, reason)
          assert.notInclude(stderr, "secret")
        }), { concurrency: 2 })
    }).pipe(Effect.provide(Platform)))
})
