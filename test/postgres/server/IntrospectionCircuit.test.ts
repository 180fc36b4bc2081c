/**
 * Made-up tokens decide about no other token, whatever the authorization server answers to them. The tests send them in
 * numbers while good tokens are read, with a fake server and with the real gateway behind a firewall.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
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
import { judged, makeScene, path, tokensAsked, until } from "../../fixtures/oauth/IntrospectionScene.ts"
import { issuer } from "../../fixtures/oauth/Issuing.ts"
import { answerMadeUp, makeKnown, outages, refusals, timeout } from "../../fixtures/oauth/MadeUpTokens.ts"
import { answerOf, type Proxy, proxyTo, targetOf, type Treatment } from "../../fixtures/processes/Proxy.ts"

/** The number of concurrent made-up tokens, the server's answer to them, and the pause after them (milliseconds). */
const Step = Schema.Struct({
  how: Schema.Union([Schema.Literals(refusals), Schema.Literals(outages), Schema.Literal("silence")]),
  count: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 })),
  pause: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20_000 }))
})

describe("Tokens that a stranger makes up", () => {
  it.effect("are 503 one by one when the server refuses questions about them, with any status", () =>
    Effect.gen(function*() {
      for (const status of refusals) {
        const { server, verify } = yield* makeKnown()
        answerMadeUp(server, status)
        for (let index = 0; index < 20; index++) {
          assert.strictEqual(yield* judged(verify(`made-up-${index}`)), "AuthorizationUnavailable", `${status}`)
        }
        assert.strictEqual(yield* judged(verify("known")), "accepted", `${status}`)
        assert.strictEqual(yield* judged(verify("new")), "accepted", `${status}`)
        assert.notInclude(tokensAsked(server).slice(1, -2), "known", `${status} makes no probe`)
      }
    }))

  it.effect("that make the server fail refuse neither known tokens nor new ones", () =>
    Effect.gen(function*() {
      for (const status of outages) {
        const { server, verify } = yield* makeKnown()
        answerMadeUp(server, status)
        for (let index = 0; index < 50; index++) {
          assert.strictEqual(yield* judged(verify(`made-up-${index}`)), "AuthorizationUnavailable", `${status}`)
        }
        assert.strictEqual(yield* judged(verify("known")), "accepted", `${status}`)
        assert.strictEqual(yield* judged(verify("new")), "accepted", `${status}`)
      }
    }))

  it.effect("that make the server fail before any token was verified refuse no new token", () =>
    Effect.gen(function*() {
      for (const endpoint of [null, `${issuer}${path}`]) {
        for (const status of outages) {
          const { server, verify } = yield* makeScene({ endpoint, timeout })
          answerMadeUp(server, status)
          for (let index = 0; index < 50; index++) {
            assert.strictEqual(yield* judged(verify(`made-up-${index}`)), "AuthorizationUnavailable", `${status}`)
          }
          assert.strictEqual(yield* judged(verify("new")), "accepted", `${status}`)
        }
      }
    }))

  it.effect("are asked about 32 at a time, also if thousands come and the server does not answer", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      answerMadeUp(server, "silence")
      const strangers = yield* Effect.forEach(
        Array.from({ length: 1000 }),
        (_, index) => Effect.forkChild(judged(verify(`made-up-${index}`)))
      )
      const refused = () => strangers.filter((stranger) => stranger.pollUnsafe() !== undefined).length
      // 32 are asked about, and seven times as many wait; the others are refused at once.
      yield* until(() => refused() === 1000 - 8 * 32 && server.open === 32)
      assert.strictEqual(yield* judged(verify("known")), "accepted")
      assert.strictEqual(server.mostOpen, 33)
      yield* TestClock.adjust(timeout)
      for (const stranger of strangers) assert.strictEqual(yield* Fiber.join(stranger), "AuthorizationUnavailable")
      assert.strictEqual(yield* judged(verify("new")), "accepted")
    }))

  it.effect("leave half of the places to known tokens, which may take all places", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      const names = Array.from({ length: 200 }, (_, index) => `known-${index}`)
      yield* Effect.forEach(names, (name) => verify(name))
      server.isSilentTo = () => true
      server.mostOpen = 0
      const holders = yield* Effect.forEach(names, (name) => Effect.forkChild(judged(verify(name))))
      yield* until(() => server.open === 64)
      const strangers = yield* Effect.forEach(
        Array.from({ length: 400 }),
        (_, index) => Effect.forkChild(judged(verify(`made-up-${index}`)))
      )
      yield* until(() => strangers.filter((stranger) => stranger.pollUnsafe() !== undefined).length === 400 - 8 * 32)
      assert.strictEqual(server.mostOpen, 64)
      yield* TestClock.adjust(timeout)
      for (const fiber of [...holders, ...strangers]) {
        assert.strictEqual(yield* Fiber.join(fiber), "AuthorizationUnavailable")
      }
      // At most one probe in each lane.
      yield* until(() => server.open <= 2)
    }))

  it.effect.prop(
    "never change the verification of good tokens, with any answer of the server, in any order and at any time",
    [Schema.Array(Step).check(Schema.isMaxLength(8))],
    ([steps]) =>
      Effect.gen(function*() {
        const { server, verify } = yield* makeKnown()
        let made = 0
        for (const { count, how, pause } of steps) {
          answerMadeUp(server, how)
          const asked = server.requests.length
          const strangers = yield* Effect.forEach(
            Array.from({ length: count }),
            () => Effect.forkChild(judged(verify(`made-up-${made++}`)))
          )
          yield* until(() => server.requests.length >= asked + Math.min(count, 32))
          assert.strictEqual(yield* judged(verify("known")), "accepted")
          yield* TestClock.adjust(timeout)
          for (const stranger of strangers) assert.notStrictEqual(yield* Fiber.join(stranger), "accepted")
          assert.strictEqual(yield* judged(verify(`new-${made}`)), "accepted")
          yield* TestClock.adjust(pause)
        }
      }),
    { arbitrary: { runs: 40 } }
  )
})

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
