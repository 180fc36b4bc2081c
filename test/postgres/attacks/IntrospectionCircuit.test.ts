/**
 * Tokens that no authorization server has called active decide about no other token: strangers send such tokens, and the
 * authorization server answers them with every status or not at all, while good tokens are read.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Layer, Logger, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { ServerFailure } from "../../../src/http/JsonExchange.ts"
import { classifyProbe } from "../../../src/oauth/IntrospectionLane.ts"
import { type AgentClient, clientSecret } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  idsOf,
  read,
  settled,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/HttpProblem.ts"
import type { FakeServer, Received } from "../../fixtures/oauth/FakeServer.ts"
import {
  answerOf,
  eventually,
  judged,
  makeScene,
  path,
  tokenIn,
  tokensAsked,
  until
} from "../../fixtures/oauth/IntrospectionScene.ts"
import { epoch, issuer } from "../../fixtures/oauth/Issuing.ts"
import { Box, makeMiddlebox, type Treatment } from "./Middlebox.ts"

const metadata = "/.well-known/oauth-authorization-server"

/** Statuses that are about one request. */
const refusals = [201, 301, 302, 307, ...Array.from({ length: 19 }, (_, at) => 400 + at), 421, 422, 428, 431, 451]

/** Statuses of servers that are down or overloaded. */
const outages = [429, 500, 501, 502, 503, 504, 599]

const isMadeUp = (request: Received): boolean => tokenIn(request).startsWith("made-up")

/** Answers made-up tokens with this status or never, and all others as they should be. */
const answerMadeUp = (server: FakeServer, how: number | "silence") => {
  server.isSilentTo = (request) => how === "silence" && isMadeUp(request)
  server.serve(path, (request: Received) => isMadeUp(request) ? new Response("", { status: Number(how) }) : answerOf())
}

const timeout = Duration.millis(1500)

/** A verifier that has verified the token `known`. */
const makeKnown = Effect.fnUntraced(function*(changes: Parameters<typeof makeScene>[0] = {}) {
  const scene = yield* makeScene({ timeout, ...changes })
  assert.strictEqual(yield* judged(scene.verify("known")), "accepted")
  return scene
})

/** How many made-up tokens come at once, what the server answers them, and how long they pause then (milliseconds). */
const Step = Schema.Struct({
  how: Schema.Union([Schema.Literals(refusals), Schema.Literals(outages), Schema.Literal("silence")]),
  count: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 })),
  pause: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20_000 }))
})

describe("Tokens that a stranger makes up", () => {
  it.effect("are 503 one by one where the server refuses to be asked about them, with any status", () =>
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

  it.effect("make the server fail, and refuse neither tokens that were verified before nor tokens that are new", () =>
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

  it.effect("make the server fail before any token was verified, and refuse no new token", () =>
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

  it.effect("are asked about 32 at a time, however many come and however silent the server is about them", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      answerMadeUp(server, "silence")
      const strangers = yield* Effect.forEach(
        Array.from({ length: 1000 }),
        (_, index) => Effect.forkChild(judged(verify(`made-up-${index}`)))
      )
      const refused = () => strangers.filter((stranger) => stranger.pollUnsafe() !== undefined).length
      // 32 are asked about, and seven times as many wait; the rest have nothing to wait for.
      yield* until(() => refused() === 1000 - 8 * 32 && server.open === 32)
      assert.strictEqual(yield* judged(verify("known")), "accepted")
      assert.strictEqual(server.mostOpen, 33)
      yield* TestClock.adjust(timeout)
      for (const stranger of strangers) assert.strictEqual(yield* Fiber.join(stranger), "AuthorizationUnavailable")
      assert.strictEqual(yield* judged(verify("new")), "accepted")
    }))

  it.effect("leave half of the places to tokens that were verified before, which fill all of them where they need to", () =>
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
      // One probe in each lane, at most.
      yield* until(() => server.open <= 2)
    }))

  it.effect.prop(
    "never change what becomes of good tokens, whatever the server answers them, in any order and at any time",
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

/** Asks until a question reaches the server no more, and returns how many requests it took. */
const askUntilOpen = Effect.fnUntraced(function*(
  server: FakeServer,
  ask: (index: number) => Effect.Effect<unknown, { readonly _tag: string }>
) {
  const before = server.requests.length
  for (let index = 0;; index++) {
    const asked = server.requests.length
    assert.strictEqual(yield* judged(ask(index)), "AuthorizationUnavailable")
    if (server.requests.length === asked) return asked - before
    // A probe follows each question that fails.
    yield* until(() => server.requests.length === asked + 2 && server.open === 0)
    assert.isBelow(index, 50, "the circuit stays closed")
  }
})

describe("A server that fails", () => {
  it.effect("is left alone once three probes in a row have failed, about known and about unknown tokens", () =>
    Effect.gen(function*() {
      for (const failWith of [...outages, "network"] as const) {
        const { server, verify } = yield* makeKnown()
        server.isDown = failWith === "network"
        server.serve(path, () => new Response("", { status: Number(failWith) }))
        assert.strictEqual(yield* askUntilOpen(server, () => verify("known")), 6, `${failWith}`)
        assert.strictEqual(yield* askUntilOpen(server, (index) => verify(`made-up-${index}`)), 6, `${failWith}`)
        assert.deepStrictEqual(tokensAsked(server).slice(-6), [0, 1, 2].flatMap((at) => [`made-up-${at}`, "known"]))
      }
    }))

  it.effect("is asked on where it fails once in a minute: such failures are not in a row", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      for (let index = 1; index <= 4; index++) {
        assert.strictEqual(yield* judged(verify("known")), "AuthorizationUnavailable")
        yield* until(() => server.requests.length === 1 + 2 * index && server.open === 0)
        yield* TestClock.adjust("1 minute")
      }
    }))

  it.effect("is left alone when it is silent", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isSilentTo = () => true
      for (let index = 0; index < 3; index++) {
        const asked = server.requests.length
        const question = yield* Effect.forkChild(judged(verify("known")))
        yield* until(() => server.requests.length === asked + 1)
        yield* TestClock.adjust(timeout)
        assert.strictEqual(yield* Fiber.join(question), "AuthorizationUnavailable")
        yield* until(() => server.requests.length === asked + 2)
        yield* TestClock.adjust(timeout)
        yield* until(() => server.open === 0)
      }
      const asked = server.requests.length
      assert.strictEqual(yield* judged(verify("known")), "AuthorizationUnavailable")
      assert.strictEqual(server.requests.length, asked)
    }))

  it.effect("is probed with the token that was verified last, after 1, 2, 4, 8, 16 and then 30 seconds, and never with a new one", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      yield* askUntilOpen(server, (index) => verify(`made-up-${index}`))
      const asked = server.requests.length
      const seconds: Array<number> = []
      for (let second = 0; second <= 91; second++) {
        const before = server.requests.length
        assert.strictEqual(yield* judged(verify(`new-${second}`)), "AuthorizationUnavailable")
        if (server.requests.length > before) seconds.push(second)
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(seconds, [1, 3, 7, 15, 31, 61, 91])
      assert.deepStrictEqual(tokensAsked(server).slice(asked), seconds.map(() => "known"))
      server.isDown = false
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* judged(verify("new")), "accepted")
      assert.deepStrictEqual(tokensAsked(server).slice(-2), ["known", "new"])
    }))

  it.effect("is probed once for all requests that come when it may be well again, and then asked what they ask", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      yield* askUntilOpen(server, (index) => verify(`made-up-${index}`))
      server.isDown = false
      server.delay = "10 millis"
      yield* TestClock.adjust("1 second")
      const asked = server.requests.length
      const fibers = yield* Effect.forEach(
        Array.from({ length: 20 }),
        (_, index) => Effect.forkChild(judged(verify(`new-${index}`)))
      )
      while (fibers.some((fiber) => fiber.pollUnsafe() === undefined)) {
        yield* until(() => server.open > 0 || fibers.every((fiber) => fiber.pollUnsafe() !== undefined))
        yield* TestClock.adjust("10 millis")
      }
      for (const fiber of fibers) assert.strictEqual(yield* Fiber.join(fiber), "accepted")
      assert.strictEqual(tokensAsked(server)[asked], "known")
      assert.lengthOf(tokensAsked(server).slice(asked), 21)
    }))

  it.effect("is not failing where its refusals are about known tokens too: each question stands for itself", () =>
    Effect.gen(function*() {
      for (const status of refusals) {
        const { server, verify } = yield* makeKnown()
        server.serve(path, () => new Response("", { status }))
        for (let index = 0; index < 10; index++) {
          assert.strictEqual(yield* judged(verify("known")), "AuthorizationUnavailable", `${status}`)
        }
        assert.strictEqual(server.asked(path), 11, `${status}`)
      }
    }))

  it.effect("closes the circuit by any answer to a probe", () =>
    Effect.gen(function*() {
      for (const answer of [() => ({ active: false }), () => new Response("", { status: 406 })]) {
        const { server, verify } = yield* makeKnown()
        server.isDown = true
        yield* askUntilOpen(server, (index) => verify(`made-up-${index}`))
        server.isDown = false
        server.serve(path, (request: Received) => tokenIn(request) === "known" ? answer() : answerOf())
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* judged(verify("new")), "accepted")
      }
    }))

  it.effect("is not probed with a token that was revoked since", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.serve(path, (request: Received) =>
        tokenIn(request) === "known" ? { active: false } : new Response("", { status: 500 }))
      yield* judged(verify("made-up-0"))
      yield* until(() =>
        server.requests.length === 3
      )
      for (const index of [1, 2, 3]) yield* judged(verify(`made-up-${index}`))
      assert.deepStrictEqual(
        tokensAsked(server),
        ["known", "made-up-0", "known", "made-up-1", "made-up-2", "made-up-3"]
      )
    }))

  it.effect("before any token was verified is probed by its metadata, where the endpoint comes from there", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ endpoint: null, timeout })
      server.serve(path, { active: false })
      assert.strictEqual(yield* judged(verify("made-up")), "InvalidCredential")
      server.isDown = true
      assert.strictEqual(yield* askUntilOpen(server, (index) => verify(`made-up-${index}`)), 6)
      assert.strictEqual(server.asked(metadata), 4)
      server.isDown = false
      server.serve(path, answerOf())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* judged(verify("new")), "accepted")
      assert.strictEqual(server.asked(metadata), 5)
    }))

  it.effect("is asked on while there is nothing to probe it with: no token that was verified is good any more", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      yield* askUntilOpen(server, (index) => verify(`made-up-${index}`))
      // The token has expired.
      yield* TestClock.adjust("301 seconds")
      const asked = server.requests.length
      for (let index = 0; index < 10; index++) yield* judged(verify(`new-${index}`))
      assert.deepStrictEqual(tokensAsked(server).slice(asked), Array.from({ length: 10 }, (_, index) => `new-${index}`))
    }))

  it.effect("leaves a warning that the circuit is open, which names no token", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      const lines: Array<string> = []
      const logger = Logger.make((options) => void lines.push(Logger.formatLogFmt.log(options)))
      yield* Effect.provide(askUntilOpen(server, (index) => verify(`made-up-${index}`)), Logger.layer([logger]))
      assert.lengthOf(lines, 1)
      assert.include(lines[0]!, `Circuit open: introspection of unknown tokens at ${issuer}`)
      assert.notMatch(lines[0]!, /made-up|token=known/)
    }))
})

describe("A probe", () => {
  const failed = (status: number | null) => Exit.fail(new ServerFailure({ reason: "", status }))

  it("fails with 5xx, 429 and silence, and every other answer shows that the server is there", () => {
    for (const status of [null, ...outages]) {
      assert.strictEqual(classifyProbe(failed(status))._tag, "Failure", `${status}`)
    }
    for (const status of [200, ...refusals]) {
      assert.strictEqual(classifyProbe(failed(status))._tag, "Success", `${status}`)
    }
    assert.strictEqual(classifyProbe(Exit.succeed({ active: false }))._tag, "Success")
    assert.strictEqual(classifyProbe(Exit.die(new Error()))._tag, "Ignored")
  })
})

describe("Credentials of the gateway that the server refuses", () => {
  it.effect("make questions 503, and say what to check", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.serve(path, () => new Response("", { status: 401 }))
      for (let index = 0; index < 10; index++) {
        const failure = yield* Effect.flip(verify("known"))
        assert.strictEqual(failure._tag, "AuthorizationUnavailable")
        assert.match(
          failure._tag === "AuthorizationUnavailable" ? String(failure.cause) : "",
          /status 401 for the gateway's own client authentication: check its client id/
        )
      }
      server.serve(path, answerOf())
      assert.strictEqual(yield* judged(verify("known")), "accepted")
    }))
})

describe("The introspection endpoint", () => {
  it.effect("serves until it is an hour old under metadata that names none, or that of another issuer", () =>
    Effect.gen(function*() {
      for (
        const document of [
          {},
          { issuer },
          { issuer, introspection_endpoint: null },
          { issuer, introspection_endpoint: "http://as.test/introspect" },
          { issuer: "https://other.test", introspection_endpoint: "https://other.test/introspect" }
        ]
      ) {
        const { server, verify } = yield* makeKnown({ endpoint: null })
        server.serve(metadata, document)
        server.serve(path, answerOf({ exp: epoch + 86_400 }))
        for (let minutes = 10; minutes < 60; minutes += 10) {
          yield* TestClock.adjust("10 minutes")
          assert.strictEqual(yield* judged(verify("new")), "accepted", JSON.stringify(document))
          yield* until(() => server.asked(metadata) === 1 + minutes / 10)
        }
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(yield* judged(verify("new")), "AuthorizationUnavailable", JSON.stringify(document))
        server.serve(metadata, { issuer, introspection_endpoint: `${issuer}${path}` })
        yield* TestClock.adjust("30 seconds")
        assert.strictEqual(yield* judged(verify("new")), "accepted", JSON.stringify(document))
      }
    }))

  it.effect("is looked for once in 30 seconds, beside the questions, however often a stranger has the server say 404", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown({ endpoint: null })
      answerMadeUp(server, 404)
      server.isSilentTo = ({ url }) => url.endsWith(metadata)
      yield* TestClock.adjust("30 seconds")
      for (let second = 0; second < 60; second++) {
        assert.strictEqual(yield* judged(verify(`made-up-${second}`)), "AuthorizationUnavailable")
        assert.strictEqual(yield* judged(verify("known")), "accepted")
        yield* TestClock.adjust("1 second")
      }
      assert.strictEqual(server.asked(metadata), 3)
      yield* eventually(judged(verify("new")), "accepted")
    }))
})

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "agent", tokens: "opaque", authentication: "client_secret_basic", binding: "none" }
]

const target = "/v1/operations"

/** A gateway that asks its authorization server through a middlebox. */
const behindMiddlebox = Layer.unwrap(Effect.map(makeMiddlebox, (middlebox) => {
  const setup: Setup = {
    servers: [{ agents }],
    // No answer of this test is waited for that long.
    lifecycle: { deadline: 60_000 },
    accept: ([server]) => {
      middlebox.forwardTo(server!.issuer)
      return {
        issuers: [{
          tokens: "introspection",
          issuer: server!.issuer,
          endpoint: `${middlebox.origin}/token/introspection`,
          audience: baseUrl,
          grantProvisioning: {},
          timeout: "30 seconds",
          client: { method: "client_secret_basic", clientId: "gateway-basic", secret: Redacted.make(clientSecret) }
        }]
      }
    }
  }
  return Layer.merge(authorizedGateway(setup), Layer.succeed(Box, middlebox))
}))

/** Sends a request on a connection of its own, and tells when the status is there. */
const sendAlone = Effect.fnUntraced(function*(token: string) {
  const wire = yield* Gateway.use(({ wire }) => wire)
  wire.send(`GET ${target} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${token}\r\n\r\n`)
  return wire.next()
})

layer(behindMiddlebox, { excludeTestServices: true })(
  "The gateway, whose authorization server is behind a firewall,",
  (it) => {
    const treatMadeUp = (how: Treatment) =>
      Effect.map(Box, ({ treat }) => treat(({ body }) => body.includes("token=made-up") ? how : "forward"))

    it.effect("serves good tokens, old and new, while the firewall answers made-up ones with 406, 429 and 500", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { holder, operation } = yield* settled("agent")
        for (const status of [406, 429, 500]) {
          yield* treatMadeUp(status)
          for (let index = 0; index < 20; index++) {
            assertProblemOf(yield* send(target, { token: `made-up-${index}` }), "authorization_unavailable")
          }
          assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
          assert.deepStrictEqual(idsOf(yield* read(yield* authorize("agent"))), [])
        }
      }))

    it.effect("serves good tokens while the firewall leaves hundreds of made-up ones without an answer, and asks about 32", () =>
      Effect.gen(function*() {
        const { hangUp, mostOpen, open } = yield* Box
        const { holder, operation } = yield* settled("agent")
        yield* treatMadeUp("silence")
        const answers = yield* Effect.forEach(
          Array.from({ length: 400 }),
          (_, index) => sendAlone(`made-up-${index}`),
          { concurrency: 50 }
        )
        let refused = 0
        for (const answer of answers) void answer.then(() => refused++)
        // As many as are asked about, and as wait for that, hear nothing.
        yield* until(() => refused >= 400 - 8 * 32 && open() === 32)
        for (let times = 0; times < 10; times++) assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
        // The question of a read may end a little after its answer has arrived.
        assert.isAtMost(mostOpen(), 32 + 2)
        yield* treatMadeUp(406)
        yield* hangUp
        for (const answer of answers) assert.strictEqual((yield* Effect.promise(() => answer))?.status, 503)
        assert.deepStrictEqual(idsOf(yield* read(yield* authorize("agent"))), [])
      }))
  }
)
