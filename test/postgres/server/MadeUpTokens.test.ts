/**
 * Made-up tokens decide about no other token of the real gateway, whatever its authorization server answers to them behind a
 * firewall. `unit/oauth/IntrospectionCircuit` has the rules.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { type AgentClient, clientSecret } from "../../fixtures/authorization/AuthorizationServer.ts"
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
import { until } from "../../fixtures/oauth/IntrospectionScene.ts"
import { answerOf, type Proxy, proxyTo, targetOf, type Treatment } from "../../fixtures/processes/Proxy.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "agent", tokens: "opaque", authentication: "client_secret_basic", binding: "none" }
]

const target = "/v1/operations"

class Firewall extends Context.Service<Firewall, Proxy>()("test/Firewall") {}

/** What a question about a made-up token meets, and the number of these questions. */
const madeUp = { treatment: undefined as Treatment | undefined, asked: 0 }

const watch = () => (bytes: Buffer) => {
  if (!bytes.includes("token=made-up")) return
  madeUp.asked++
  return madeUp.treatment
}

/** A gateway that asks its authorization server through a firewall. */
const behindFirewall = Layer.unwrap(Effect.map(proxyTo({ port: 0 }, watch), (firewall) => {
  const setup: Setup = {
    servers: [{ agents }],
    // Longer than any answer in this test takes.
    lifecycle: { deadline: 60_000 },
    accept: ([server]) => {
      firewall.target = targetOf(server!.issuer)
      return {
        issuers: [{
          tokens: "introspection",
          issuer: server!.issuer,
          endpoint: `http://127.0.0.1:${firewall.port}/token/introspection`,
          audience: baseUrl,
          grantProvisioning: {},
          timeout: "30 seconds",
          client: { method: "client_secret_basic", clientId: "gateway-basic", secret: Redacted.make(clientSecret) }
        }]
      }
    }
  }
  return Layer.merge(authorizedGateway(setup), Layer.succeed(Firewall, firewall))
}))

/** Sends a request on a connection of its own, and returns a promise of the answer. */
const sendAlone = Effect.fnUntraced(function*(token: string) {
  const wire = yield* Gateway.use(({ wire }) => wire)
  wire.send(`GET ${target} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${token}\r\n\r\n`)
  return wire.next()
})

layer(behindFirewall, { excludeTestServices: true })(
  "The gateway, whose authorization server is behind a firewall,",
  (it) => {
    it.effect("serves good tokens, old and new, while the firewall answers made-up ones with 406, 429 and 500", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { holder, operation } = yield* settled("agent")
        for (const status of ["406 Not Acceptable", "429 Too Many Requests", "500 Internal Server Error"]) {
          madeUp.treatment = answerOf(status)
          for (let index = 0; index < 20; index++) {
            assertProblemOf(yield* send(target, { token: `made-up-${index}` }), "authorization_unavailable")
          }
          assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
          assert.deepStrictEqual(idsOf(yield* read(yield* authorize("agent"))), [])
        }
      }))

    it.effect("serves good tokens while hundreds of made-up ones get no answer, and asks about 32", () =>
      Effect.gen(function*() {
        const firewall = yield* Firewall
        const { holder, operation } = yield* settled("agent")
        madeUp.treatment = "forgotten"
        madeUp.asked = 0
        const answers = yield* Effect.forEach(
          Array.from({ length: 400 }),
          (_, index) => sendAlone(`made-up-${index}`),
          { concurrency: 50 }
        )
        let refused = 0
        for (const answer of answers) void answer.then(() => refused++)
        // The requests that are asked about, and those that wait for it, get no answer yet.
        yield* until(() => refused >= 400 - 8 * 32 && madeUp.asked === 32)
        for (let times = 0; times < 10; times++) assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
        assert.strictEqual(madeUp.asked, 32, "none of them has ended")
        madeUp.treatment = answerOf("406 Not Acceptable")
        firewall.strike("reset")
        for (const answer of answers) assert.strictEqual((yield* Effect.promise(() => answer))?.status, 503)
        assert.deepStrictEqual(idsOf(yield* read(yield* authorize("agent"))), [])
      }))
  }
)
