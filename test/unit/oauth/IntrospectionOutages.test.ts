/**
 * A verifier stops asking an authorization server that fails, probes it on a schedule, and asks again when it answers.
 * The tests let a fake server fail, fall silent and recover under the test clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"
import { ServerFailure } from "../../../src/http/JsonExchange.ts"
import { classifyProbe } from "../../../src/oauth/IntrospectionLimiter.ts"
import { type FakeServer, metadata, type Received } from "../../fixtures/oauth/FakeServer.ts"
import {
  answerMadeUp,
  answerOf,
  eventually,
  forkMany,
  isOver,
  judged,
  makeKnown,
  makeScene,
  outages,
  path,
  refusals,
  timeout,
  tokenIn,
  tokensAsked
} from "../../fixtures/oauth/IntrospectionScene.ts"
import { epoch, issuer } from "../../fixtures/oauth/Issuing.ts"
import { until } from "../../fixtures/until.ts"

/** Asks until questions no longer reach the server, and returns the number of requests until then. */
const askUntilOpen = Effect.fnUntraced(function*(
  server: FakeServer,
  ask: (index: number) => Effect.Effect<unknown, { readonly _tag: string }>
) {
  const before = server.requests.length
  for (let index = 0;; index++) {
    const asked = server.requests.length
    assert.strictEqual(yield* judged(ask(index)), "AuthorizationUnavailable")
    if (server.requests.length === asked) return asked - before
    // A probe follows each failed question.
    yield* until(() => server.requests.length === asked + 2 && server.open === 0)
    assert.isBelow(index, 50, "the circuit stays closed")
  }
})

describe("A server that fails", () => {
  it.effect("gets no more questions after three failed probes in a row, about known or unknown tokens", () =>
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

  it.effect("still gets questions if it fails once a minute: such failures are not in a row", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      for (let index = 1; index <= 4; index++) {
        assert.strictEqual(yield* judged(verify("known")), "AuthorizationUnavailable")
        yield* until(() => server.requests.length === 1 + 2 * index && server.open === 0)
        yield* TestClock.adjust("1 minute")
      }
    }))

  it.effect("is probed with the last verified token, never a new one, after 1, 2, 4, 8, 16 and then 30 seconds", () =>
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

  it.effect("is probed once for all requests that come when a probe is due, and then gets their questions", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeKnown()
      server.isDown = true
      yield* askUntilOpen(server, (index) => verify(`made-up-${index}`))
      server.isDown = false
      server.delay = "10 millis"
      yield* TestClock.adjust("1 second")
      const asked = server.requests.length
      const fibers = yield* forkMany(20, (index) => judged(verify(`new-${index}`)))
      while (!fibers.every(isOver)) {
        yield* until(() => server.open > 0 || fibers.every(isOver))
        yield* TestClock.adjust("10 millis")
      }
      for (const fiber of fibers) assert.strictEqual(yield* Fiber.join(fiber), "accepted")
      assert.strictEqual(tokensAsked(server)[asked], "known")
      assert.lengthOf(tokensAsked(server).slice(asked), 21)
    }))

  it.effect("is not probed with a token that has been revoked", () =>
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

  it.effect("is probed by its metadata, if they name the endpoint, before any token was verified", () =>
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

  it.effect("still gets questions while no verified token is valid: there is nothing to probe with", () =>
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

  it.effect("causes a warning that the circuit is open, which names no token", () =>
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

  it("fails with 5xx, 429 and silence, and succeeds with every other answer", () => {
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

describe("A server that refuses the gateway's credentials", () => {
  it.effect("makes tokens 503, and the cause names what to check", () =>
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
  it.effect("stays in use for an hour when the metadata names no endpoint, or another issuer", () =>
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

  it.effect("is looked up once in 30 seconds, without delaying questions, for any number of 404 answers", () =>
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
