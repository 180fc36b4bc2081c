/**
 * The gateway asks an authorization server about tokens, shares answers, and survives its failures. The tests use a
 * server without a network and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { type IntrospectionSettings, validateIntrospectionSettings } from "../../../src/oauth/Introspection.ts"
import { metadata } from "../../fixtures/oauth/FakeServer.ts"
import {
  answerOf,
  eachAnswer,
  forkMany,
  isOver,
  judged,
  makeScene,
  path,
  settings
} from "../../fixtures/oauth/IntrospectionScene.ts"
import { epoch } from "../../fixtures/oauth/Issuing.ts"
import { until } from "../../fixtures/until.ts"

describe("An authorization server that introspects tokens", () => {
  it.effect("is unavailable when its answer cannot be understood, and the token is not refused", () =>
    Effect.gen(function*() {
      const json = { "content-type": "application/json" }
      const good = JSON.stringify(answerOf())
      yield* eachAnswer([
        new Response(good, { status: 201, headers: json }),
        ...[400, 401, 403, 500].map((status) => new Response(good, { status, headers: json })),
        new Response(good, { status: 302, headers: { ...json, location: "https://other.test" } }),
        new Response(good, { headers: { "content-type": "text/plain" } }),
        new Response(good, { headers: { "content-type": "application/token-introspection+jwt" } }),
        new Response(good.slice(0, -1), { headers: json }),
        ...["null", "[]", ""].map((body) => new Response(body, { headers: json })),
        new Response(Buffer.from(good.replace("token-1", "token-\xff"), "latin1"), { headers: json }),
        answerOf({ padding: "x".repeat(64 * 1024) })
      ], "AuthorizationUnavailable")
      yield* eachAnswer([answerOf({ padding: "x".repeat(60 * 1024) })], "accepted")
    }))

  it.effect("has the configured time to answer, discovery included", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ endpoint: null, timeout: Duration.millis(1500) })
      server.delay = "900 millis"
      const fiber = yield* Effect.forkChild(judged(verify("t")))
      yield* until(() => server.open === 1)
      yield* TestClock.adjust("900 millis")
      yield* until(() => server.asked(path) === 1)
      yield* TestClock.adjust("590 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("10 millis")
      assert.strictEqual(yield* Fiber.join(fiber), "AuthorizationUnavailable")
      assert.strictEqual(server.aborted, 1)
    }))

  const odd = [400, 403, 413, 414, 422]
  it.effect("is discovered again when its endpoint is gone or unreachable, and after no other failure", () =>
    Effect.gen(function*() {
      const lookedForAfter = (failWith: number | "network") =>
        Effect.gen(function*() {
          const { server, verify } = yield* makeScene({ endpoint: null })
          yield* verify("t")
          yield* TestClock.adjust("30 seconds")
          server.isDown = failWith === "network"
          if (failWith !== "network") server.serve(path, () => new Response("", { status: failWith }))
          yield* judged(verify("t"))
          server.isDown = false
          server.serve(path, answerOf())
          assert.strictEqual(yield* judged(verify("t")), "accepted")
          return server.asked(metadata) === 2
        })
      for (const failure of [404, 410, "network"] as const) assert.isTrue(yield* lookedForAfter(failure), `${failure}`)
      for (const status of [...odd, 302, 401, 429, 500, 503]) assert.isFalse(yield* lookedForAfter(status), `${status}`)
    }))

  it.effect("is not discovered again at once when its metadata is refused", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ endpoint: null })
      server.serve(metadata, () => new Response("", { status: 403 }))
      const attempts: Array<number> = []
      for (let second = 0; second <= 31; second++) {
        for (let index = 0; index < 5; index++) {
          const before = server.asked(metadata)
          assert.strictEqual(yield* judged(verify(`${second} ${index}`.replace(" ", "-"))), "AuthorizationUnavailable")
          if (server.asked(metadata) > before) attempts.push(second)
        }
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(attempts, [0, 0, 0, 1, 3, 7, 15, 31])
      assert.strictEqual(server.asked(path), 0)
    }))

  it.effect("is asked for each request by default", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      yield* verify("t")
      server.serve(path, { active: false })
      assert.strictEqual(yield* judged(verify("t")), "InvalidCredential")
      assert.strictEqual(server.asked(path), 2)
    }))

  it.effect("gives no answer older than the request, for any number of simultaneous requests", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      server.delay = "100 millis"
      const first = yield* Effect.forkChild(judged(verify("t")))
      yield* until(() => server.open === 1)
      // The token is revoked while the answer is under way.
      server.serve(path, () => server.asked(path) === 1 ? answerOf() : { active: false })
      const others = yield* forkMany(50, () => judged(verify("t")))
      const areOver = () => [first, ...others].every(isOver)
      while (!areOver()) {
        yield* until(() => server.open > 0 || areOver())
        yield* TestClock.adjust("100 millis")
      }
      assert.strictEqual(yield* Fiber.join(first), "accepted")
      for (const other of others) assert.strictEqual(yield* Fiber.join(other), "InvalidCredential")
      assert.strictEqual(server.mostOpen, 1)
    }))

  it.effect("is asked again after the configured time, or when the token expires", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ answerTimeToLive: Duration.seconds(10) })
      yield* verify("t")
      yield* TestClock.adjust("9999 millis")
      yield* verify("t")
      assert.strictEqual(server.asked(path), 1)
      server.serve(path, answerOf({ exp: epoch + 12 }))
      yield* TestClock.adjust("1 millis")
      yield* verify("t")
      assert.strictEqual(server.asked(path), 2)
      yield* TestClock.adjust("2 seconds")
      yield* verify("t")
      assert.strictEqual(server.asked(path), 3)
      server.serve(path, { active: false })
      assert.strictEqual(yield* judged(verify("other")), "InvalidCredential")
      assert.strictEqual(yield* judged(verify("other")), "InvalidCredential")
      assert.strictEqual(server.asked(path), 5)
    }))

  it.effect("receives the token, which appears in no failure", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      server.serve(path, () => new Response("SECRET-token", { status: 500 }))
      const failures = [yield* Effect.flip(verify("SECRET-token"))]
      server.isDown = true
      failures.push(yield* Effect.flip(verify("SECRET-token")))
      for (const failure of failures) {
        const cause = failure._tag === "AuthorizationUnavailable" ? failure.cause as Error : null
        const shown = [failure, failure.stack, cause, cause?.stack, cause?.cause]
        for (const text of shown) assert.notMatch(`${String(text)} ${JSON.stringify(text)}`, /SECRET|hush/)
        assert.match(cause?.message ?? "", /^https:\/\/as\.test: (?:status 500|the connection was refused)/)
      }
    }))
})

describe("The settings of introspection", () => {
  const faultOf = (changes: Partial<IntrospectionSettings>) =>
    validateIntrospectionSettings({ ...settings, ...changes }) ?? ""

  it("follow the rules for issuers, endpoints and times", () => {
    assert.isNull(validateIntrospectionSettings(settings))
    assert.isNull(validateIntrospectionSettings({ ...settings, endpoint: null }))
    assert.include(faultOf({ issuer: "http://as.test" }), "must be https")
    assert.include(faultOf({ endpoint: "http://as.test/introspect" }), "introspection endpoint")
    assert.include(faultOf({ timeout: Duration.zero }), "between 100 milliseconds and 30 seconds")
    assert.include(faultOf({ timeout: Duration.infinity }), "between 100 milliseconds and 30 seconds")
    assert.include(faultOf({ answerTimeToLive: Duration.seconds(61) }), "60 seconds at most")
  })
})
