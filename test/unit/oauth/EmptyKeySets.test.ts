/**
 * Emptied, invalid or foreign documents of an authorization server do not replace good keys or metadata. Each test
 * fetches good documents first, and then serves bad ones.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import { type FakeServer, makeFakeServer, metadata } from "../../fixtures/oauth/FakeServer.ts"
import { issuer, signerOf } from "../../fixtures/oauth/Issuing.ts"
import { jwkOf, keySetOf, makeFetched } from "../../fixtures/oauth/TokenScene.ts"

/** Key sets without a key for the algorithms that the gateway accepts by default. */
const uselessSets = Effect.gen(function*() {
  const good = yield* jwkOf("one")
  const { privateJwk } = yield* signerOf("one")
  return {
    "no keys": [],
    "values that are not keys": [null, 1, "key", [], {}],
    "keys that cannot be imported": [{ ...good, x: good.y, y: good.x }, { ...good, x: "AAAA" }],
    "only keys of other algorithms": [yield* jwkOf("one", "ES384"), yield* jwkOf("two", "RS256")],
    "only keys for encryption": [{ ...good, use: "enc" }],
    "only private keys": [privateJwk]
  }
})

/** The warnings that are logged while the effect runs, as one text. */
const warnings = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const lines: Array<string> = []
  const logger = Logger.make((options) => {
    if (options.logLevel === "Warn") lines.push(Logger.formatLogFmt.log(options))
  })
  return Effect.map(Effect.provide(effect, Logger.layer([logger])), () => lines)
}

/** Serves this instead of good documents, and returns the results for a known and an unknown key over an hour. */
const verdictsUnder = Effect.fnUntraced(function*(spoil: (server: FakeServer) => void) {
  const { search, server } = yield* makeFetched
  spoil(server)
  const verdicts: Array<readonly [known: string, unknown: string]> = []
  for (let minutes = 10; minutes <= 60; minutes += 10) {
    yield* TestClock.adjust("10 minutes")
    verdicts.push([yield* search("one"), yield* search("two")])
  }
  return verdicts
})

const servedForAnHour = [
  ...Array.from({ length: 5 }, () => ["found", "AuthorizationUnavailable"]),
  ["AuthorizationUnavailable", "AuthorizationUnavailable"]
]

describe("Good keys", () => {
  it.effect("stay in use for an hour when the new key set has no usable key; unknown keys are 503, and never 401", () =>
    Effect.gen(function*() {
      for (const [name, keys] of Object.entries(yield* uselessSets)) {
        const verdicts = yield* verdictsUnder((server) => server.serve("/jwks", { keys }))
        assert.deepStrictEqual(verdicts as unknown, servedForAnHour, name)
      }
    }))

  it.effect("are replaced as soon as the key set has a usable key again", () =>
    Effect.gen(function*() {
      const { search, server } = yield* makeFetched
      server.serve("/jwks", { keys: [] })
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* search("two"), "AuthorizationUnavailable")
      server.serve("/jwks", { keys: [yield* jwkOf("two")] })
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* search("two"), "found")
      assert.strictEqual(yield* search("one"), "InvalidCredential")
    }))

  it.effect("stay in use when the metadata names no key set, or another issuer", () =>
    Effect.gen(function*() {
      for (
        const document of [
          { issuer },
          { issuer: "https://other.test", jwks_uri: `${issuer}/jwks` },
          { issuer, jwks_uri: "http://as.test/jwks" },
          {}
        ]
      ) {
        const { search, server } = yield* makeFetched
        // Metadata is an hour old, and keys are not.
        yield* TestClock.adjust("50 minutes")
        assert.strictEqual(yield* search("one"), "found")
        server.serve(metadata, document)
        for (const _ of Array.from({ length: 5 })) {
          yield* TestClock.adjust("10 minutes")
          assert.strictEqual(yield* search("one"), "found", JSON.stringify(document))
          assert.strictEqual(yield* search("two"), "AuthorizationUnavailable", JSON.stringify(document))
        }
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(yield* search("one"), "AuthorizationUnavailable", JSON.stringify(document))
      }
    }))

  it.effect("are not needed for the warning, which names the mistake in the key set", () =>
    Effect.gen(function*() {
      for (const [name, keys] of Object.entries(yield* uselessSets)) {
        const { search, server } = yield* makeFetched
        server.serve("/jwks", { keys })
        yield* TestClock.adjust("10 minutes")
        const lines = yield* warnings(search("one"))
        assert.lengthOf(lines, 1, name)
        assert.include(lines[0]!, `The keys of ${issuer} could not be fetched`, name)
        assert.include(lines[0]!, `its key set of ${keys.length} keys has no usable key for ES256, EdDSA`, name)
      }
    }))
})

describe("The first key set", () => {
  it.effect("without a usable key is ignored: tokens are 503, and the gateway fetches again after a second", () =>
    Effect.gen(function*() {
      for (const [name, keys] of Object.entries(yield* uselessSets)) {
        const server = makeFakeServer(keys)
        const search = yield* keySetOf(server)
        assert.strictEqual(yield* search("one"), "AuthorizationUnavailable", name)
        server.serve("/jwks", { keys: [yield* jwkOf("one")] })
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* search("one"), "found", name)
      }
    }))
})
