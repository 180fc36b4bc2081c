/**
 * The key set of an authorization server is fetched, kept and renewed within fixed bounds. The tests use a server
 * without a network and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { issuerSettings } from "../../../src/oauth/Issuer.ts"
import { makeKeySet } from "../../../src/oauth/KeySet.ts"
import { makeFakeServer, metadata } from "../../fixtures/oauth/FakeServer.ts"
import { forkMany, isOver } from "../../fixtures/oauth/IntrospectionScene.ts"
import { audience, epoch, issuer, signerOf, tokenOf } from "../../fixtures/oauth/Issuing.ts"
import { jwkOf, keySetOf, makeFetched, makeScene, verdictOn } from "../../fixtures/oauth/TokenScene.ts"
import { skewedClock } from "../../fixtures/SkewedClock.ts"
import { until } from "../../fixtures/until.ts"

describe("The keys of an authorization server", () => {
  it.effect("are fetched for the first search, and not before", () =>
    Effect.gen(function*() {
      const server = makeFakeServer([yield* jwkOf("one")])
      const search = yield* keySetOf(server)
      assert.lengthOf(server.requests, 0)
      assert.strictEqual(yield* search("one"), "found")
      assert.deepStrictEqual(server.requests.map(({ url }) => new URL(url).pathname), [metadata, "/jwks"])
    }))

  it.effect("are fetched from the configured URL, without discovery", () =>
    Effect.gen(function*() {
      const server = makeFakeServer()
      server.serve("/elsewhere", { keys: [yield* jwkOf("one")] })
      const search = yield* keySetOf(server, { jwksUri: `${issuer}/elsewhere` })
      assert.strictEqual(yield* search("one"), "found")
      assert.lengthOf(server.requests, 1)
    }))

  it.effect("are fresh for ten minutes", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      yield* TestClock.adjust("599 seconds")
      assert.strictEqual(yield* search("one"), "found")
      assert.strictEqual(server.asked("/jwks"), 1)
      yield* TestClock.adjust("1 second")
      server.serve("/jwks", { keys: [yield* jwkOf("two")] })
      assert.strictEqual(yield* search("one"), "InvalidCredential")
      assert.strictEqual(server.asked("/jwks"), 2)
    }))

  it.effect("are fetched again for an unknown key, so that a new key is good at once", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      yield* TestClock.adjust("30 seconds")
      server.serve("/jwks", { keys: [yield* jwkOf("one"), yield* jwkOf("two")] })
      assert.strictEqual(yield* search("two"), "found")
      assert.strictEqual(yield* search("one"), "found")
      assert.strictEqual(server.asked("/jwks"), 2)
    }))

  it.effect("are fetched once in 30 seconds under a flood of unknown keys, which are all refused", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      for (let second = 0; second < 90; second++) {
        const results = yield* Effect.all(Array.from({ length: 20 }, (_, index) => search(`${second}-${index}`)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(results, Array(20).fill("InvalidCredential"))
        assert.strictEqual(server.asked("/jwks"), 1 + Math.floor(second / 30))
        yield* TestClock.adjust("1 second")
      }
    }))

  it.effect("are fetched once for simultaneous searches, also when the first of them is interrupted", () =>
    Effect.gen(function*() {
      const server = makeFakeServer([yield* jwkOf("one")])
      server.delay = "400 millis"
      const search = yield* keySetOf(server)
      const first = yield* Effect.forkChild(search("one"))
      yield* TestClock.adjust("100 millis")
      const second = yield* Effect.forkChild(search("one"))
      yield* TestClock.adjust("100 millis")
      yield* Fiber.interrupt(first)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(second), "found")
      assert.strictEqual(server.asked("/jwks"), 1)
      assert.strictEqual(server.aborted, 0)
    }))

  it.effect("are used for an hour after the last fetch when the server is down, and then are unavailable", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      server.isDown = true
      for (const minutes of [10, 30, 19]) {
        yield* TestClock.adjust(`${minutes} minutes`)
        assert.strictEqual(yield* search("one"), "found")
      }
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* search("one"), "AuthorizationUnavailable")
      server.isDown = false
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* search("one"), "found")
    }))

  it.effect("are used for an hour when the server is down, also while the wall clock steps back", () =>
    Effect.gen(function*() {
      const clock = skewedClock()
      yield* Effect.gen(function*() {
        const { search, server } = yield* makeFetched
        server.isDown = true
        clock.skew = -3_600_000
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(yield* search("one"), "AuthorizationUnavailable")
      }).pipe(Effect.updateService(Clock.Clock, clock.over))
    }))

  it.effect("verify for eleven minutes after another key took their place, or an hour and a minute while the server is down", () =>
    Effect.gen(function*() {
      for (const isDown of [false, true]) {
        const { server, signer, verify } = yield* makeScene({ signatureTimeToLive: "60 seconds" })
        const old = yield* tokenOf(signer, { exp: epoch + 86_400 })
        const another = yield* tokenOf(signer, { exp: epoch + 86_400, jti: "another" })
        assert.strictEqual(yield* verdictOn(verify, old), "accepted")
        server.serve("/jwks", { keys: [(yield* signerOf("two")).jwk] })
        server.isDown = isDown
        yield* TestClock.adjust(isDown ? "59 minutes" : "9 minutes")
        yield* TestClock.adjust("59 seconds")
        assert.strictEqual(yield* verdictOn(verify, old), "accepted")
        yield* TestClock.adjust("59 seconds")
        const refused = isDown ? "AuthorizationUnavailable" : "InvalidCredential"
        assert.deepStrictEqual([yield* verdictOn(verify, old), yield* verdictOn(verify, another)], [
          "accepted",
          refused
        ])
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* verdictOn(verify, old), refused)
      }
    }))

  it.effect("are requested at most once in 30 seconds from a server that is down", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      yield* TestClock.adjust("10 minutes")
      server.isDown = true
      const before = server.requests.length
      for (let second = 0; second < 60; second++) {
        yield* search("one")
        yield* search("unknown")
        yield* TestClock.adjust("1 second")
      }
      assert.strictEqual(server.requests.length - before, 2)
    }))

  it.effect("are unavailable, not unknown, while the server is down: an unknown key may be new; once it is back, they are unknown", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      yield* TestClock.adjust("30 seconds")
      server.isDown = true
      assert.strictEqual(yield* search("two"), "AuthorizationUnavailable")
      assert.strictEqual(yield* search("one"), "found")
      server.isDown = false
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* search("two"), "InvalidCredential")
    }))

  it.effect("delay a search by at most a second: a known key is then used, and an unknown key is unavailable", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      yield* TestClock.adjust("10 minutes")
      server.delay = "2500 millis"
      const known = yield* Effect.forkChild(search("one"))
      const unknown = yield* Effect.forkChild(search("two"))
      yield* TestClock.adjust("990 millis")
      assert.isUndefined(known.pollUnsafe())
      assert.isUndefined(unknown.pollUnsafe())
      yield* TestClock.adjust("10 millis")
      assert.strictEqual(yield* Fiber.join(known), "found")
      assert.strictEqual(yield* Fiber.join(unknown), "AuthorizationUnavailable")
      // Later searches do not wait.
      assert.strictEqual(yield* search("one"), "found")
      assert.strictEqual(yield* search("two"), "AuthorizationUnavailable")
      yield* TestClock.adjust("1500 millis")
      assert.strictEqual(yield* search("two"), "InvalidCredential")
      assert.strictEqual(server.asked("/jwks"), 2)
    }))

  it.effect("are waited for by 256 requests at most, also of one token: others are unavailable at once, and a known key is used", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene({ signatureTimeToLive: "60 seconds" })
      const lasting = { exp: epoch + 86_400 }
      const unknown = yield* tokenOf(yield* signerOf("two"), lasting)
      assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signer, lasting)), "accepted")
      server.isSilentTo = () => true
      for (const round of [1, 2]) {
        yield* TestClock.adjust("10 minutes")
        const strangers = yield* forkMany(300, () => verdictOn(verify, unknown))
        yield* until(() => strangers.filter(isOver).length === 300 - 256)
        const known = yield* tokenOf(signer, { ...lasting, jti: `${round}` })
        assert.strictEqual(yield* verdictOn(verify, known), "accepted")
        yield* TestClock.adjust("1 second")
        for (const stranger of strangers) assert.strictEqual(yield* Fiber.join(stranger), "AuthorizationUnavailable")
      }
    }))

  it.effect("are unavailable before the first success, and requested after 1, 2, 4, 8, 16 and then every 30 seconds", () =>
    Effect.gen(function*() {
      const server = makeFakeServer([yield* jwkOf("one")])
      server.isDown = true
      const search = yield* keySetOf(server)
      const attempts: Array<number> = []
      for (let second = 0; second <= 91; second++) {
        const before = server.requests.length
        assert.strictEqual(yield* search("one"), "AuthorizationUnavailable")
        if (server.requests.length > before) attempts.push(second)
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(attempts, [0, 1, 3, 7, 15, 31, 61, 91])
      server.isDown = false
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* search("one"), "found")
    }))

  it.effect("report issuer and error code when they are unavailable, or a timeout, and no content of the request", () =>
    Effect.gen(function*() {
      const down = { isDown: true, says: "the connection was refused (ECONNREFUSED)" }
      const silent = { delay: "1 minute", says: "its keys did not come in time" } as const
      for (const { says, ...state } of [down, silent]) {
        const server = Object.assign(makeFakeServer(), state)
        const keys = yield* Effect.provideService(
          makeKeySet(issuerSettings({ issuer, audience })),
          HttpClient.HttpClient,
          server.client
        )
        const asked = yield* Effect.forkChild(Effect.flip(keys.find({ algorithm: "ES256", kid: "one" })))
        yield* TestClock.adjust("1 second")
        const error = yield* Fiber.join(asked)
        const cause = error._tag === "AuthorizationUnavailable" ? error.cause as Error : null
        assert.strictEqual(cause?.message, `${issuer}: ${says}`)
      }
    }))

  it.effect("are discovered again when the metadata is an hour old", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      for (let minutes = 0; minutes < 50; minutes += 10) {
        yield* TestClock.adjust("10 minutes")
        yield* search("one")
      }
      assert.strictEqual(server.asked(metadata), 1)
      assert.strictEqual(server.asked("/jwks"), 6)
      yield* TestClock.adjust("10 minutes")
      yield* search("one")
      assert.strictEqual(server.asked(metadata), 2)
    }))

  it.effect("are discovered again when their URL answers 404", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      yield* TestClock.adjust("30 seconds")
      server.serve(metadata, { issuer, jwks_uri: `${issuer}/moved` })
      server.serve("/jwks", () => new Response("", { status: 404 }))
      server.serve("/moved", { keys: [yield* jwkOf("two")] })
      assert.strictEqual(yield* search("two"), "AuthorizationUnavailable")
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* search("two"), "found")
    }))

  it.effect("are unavailable, not unknown, when the server's answer is not a key set", () =>
    Effect.gen(function*() {
      for (const document of [{}, { keys: null }, { keys: {} }, []]) {
        const server = makeFakeServer()
        server.serve("/jwks", document)
        const search = yield* keySetOf(server)
        assert.strictEqual(yield* search("one"), "AuthorizationUnavailable")
      }
    }))
})
