/**
 * Verified tokens are kept for a bounded time, and checked against the clock at each use. The tests count
 * verifications.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Hash, Redacted } from "effect"
import { Digest } from "effect/crypto"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { InvalidCredential } from "../../../src/domain/Credential.ts"
import { makeTokenCache, type VerifyToken } from "../../../src/oauth/TokenCache.ts"
import type { VerifiedToken } from "../../../src/oauth/TokenClaims.ts"
import { epoch, issuer } from "../../fixtures/oauth/Issuing.ts"
import { until } from "../../fixtures/until.ts"

const verified = (changes: Partial<VerifiedToken> = {}): VerifiedToken => ({
  issuer,
  client_id: "agent-1",
  subject: "subject-1",
  grant: "grant-1",
  scopes: [],
  issued_at: epoch,
  expires_at: epoch + 300,
  confirmation: { jkt: null, x5t: null },
  claims: {},
  ...changes
})

/** A verifier that counts its calls, and the cache in front of it. */
const makeScene = Effect.fnUntraced(function*(options: {
  readonly timeToLive?: Duration.Input
  readonly token?: VerifiedToken
  readonly verify?: VerifyToken
} = {}) {
  yield* TestClock.setTime(epoch * 1000)
  let count = 0
  const verify: VerifyToken = (token, resource) =>
    Effect.suspend(() => {
      count++
      return (options.verify ?? (() => Effect.succeed(options.token ?? verified())))(token, resource)
    })
  const cached = yield* makeTokenCache(verify, { timeToLive: options.timeToLive ?? "60 seconds", clockTolerance: 5 })
    .pipe(Effect.provide(Digest.layerWebCrypto))
  return {
    count: () => count,
    verify: (token: string, resource: string | null = null) => cached(Redacted.make(token), resource)
  }
})

describe("The cached results of tokens", () => {
  it.effect("are kept for a minute, also if more is configured", () =>
    Effect.gen(function*() {
      for (const timeToLive of ["60 seconds", "1 hour"] as const) {
        const { count, verify } = yield* makeScene({ timeToLive })
        yield* verify("a")
        yield* TestClock.adjust("59999 millis")
        yield* verify("a")
        assert.strictEqual(count(), 1)
        yield* TestClock.adjust("1 millis")
        yield* verify("a")
        assert.strictEqual(count(), 2)
      }
    }))

  it.effect("belong to one resource each, while the token is verified and after, and never include failures", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const { count, verify } = yield* makeScene({
        verify: (_, resource) =>
          Effect.andThen(
            Deferred.await(gate),
            resource === "https://gateway.test/mcp" ? Effect.succeed(verified()) : Effect.fail(new InvalidCredential())
          )
      })
      const resources = ["https://gateway.test/mcp", null, "https://gateway.test/other"]
      const fibers = yield* Effect.forEach(
        resources,
        (resource) => Effect.forkChild(Effect.isSuccess(verify("a", resource)))
      )
      yield* until(() => count() === 3)
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), [true, false, false])
      const repeated = yield* Effect.forEach(resources, (resource) => Effect.isSuccess(verify("a", resource)))
      assert.deepStrictEqual(repeated, [true, false, false])
      // Only the success is kept.
      assert.strictEqual(count(), 5)
    }))

  it.effect("are separated by the whole digest, not by a hash of it", () =>
    Effect.gen(function*() {
      const { count, verify } = yield* makeScene({
        verify: (token) => Effect.succeed(verified({ grant: Redacted.value(token) }))
      })
      const [one, other] = collision()
      assert.strictEqual((yield* verify(one)).grant, one)
      assert.strictEqual((yield* verify(other)).grant, other)
      assert.strictEqual(count(), 2)
    }))

  it.effect("are not kept beyond the expiry of the token", () =>
    Effect.gen(function*() {
      const { count, verify } = yield* makeScene({ token: verified({ expires_at: epoch + 10 }) })
      yield* verify("a")
      yield* TestClock.adjust("9999 millis")
      yield* verify("a")
      assert.strictEqual(count(), 1)
      yield* TestClock.adjust("1 millis")
      yield* verify("a")
      assert.strictEqual(count(), 2)
    }))

  it.effect("are checked against the clock at each use", () =>
    Effect.gen(function*() {
      const expires = yield* makeScene({ token: verified({ expires_at: epoch + 300 }) })
      yield* expires.verify("a")
      // The clock was wrong and is corrected.
      yield* TestClock.setTime((epoch + 305) * 1000)
      assert.deepStrictEqual(yield* Effect.flip(expires.verify("a")), new InvalidCredential())
      const begins = yield* makeScene({ token: verified({ claims: { nbf: epoch }, issued_at: null }) })
      yield* begins.verify("a")
      yield* TestClock.setTime((epoch - 6) * 1000)
      assert.deepStrictEqual(yield* Effect.flip(begins.verify("a")), new InvalidCredential())
    }))

  it.effect("are shared once they are there: until then each request verifies, so that a limit of verifications counts it", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const { count, verify } = yield* makeScene({ verify: () => Effect.as(Deferred.await(gate), verified()) })
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(verify("a")))
      yield* until(() => count() === 3)
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.forEach(fibers, Fiber.join)
      yield* verify("a")
      assert.strictEqual(count(), 3)
    }))

  it.effect("are not kept when the time to live is zero", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const { count, verify } = yield* makeScene({
        timeToLive: Duration.zero,
        verify: () => Effect.as(Deferred.await(gate), verified())
      })
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(verify("a")))
      yield* until(() => count() === 3)
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.forEach(fibers, Fiber.join)
      yield* verify("a")
      assert.strictEqual(count(), 4)
    }))

  it.effect("are at most ten thousand: the least recently used one is removed first", () =>
    Effect.gen(function*() {
      const { count, verify } = yield* makeScene()
      for (let index = 0; index < 10_000; index++) yield* verify(`${index}`)
      yield* verify("0")
      assert.strictEqual(count(), 10_000)
      yield* verify("one more")
      yield* verify("0")
      assert.strictEqual(count(), 10_001)
      yield* verify("1")
      assert.strictEqual(count(), 10_002)
    }))
})

/** Two tokens whose digests have the same hash. A hundred thousand tokens contain such pairs. */
const collision = (): readonly [string, string] => {
  const seen = new Map<number, string>()
  for (let index = 0;; index++) {
    const token = `token ${index}`
    const hash = Hash.string(createHash("sha256").update(token).digest("hex"))
    const other = seen.get(hash)
    if (other !== undefined) return [other, token]
    seen.set(hash, token)
  }
}
