/**
 * A quota admits its burst and its rate, and no more, and a client's address cannot be forged through untrusted
 * proxies. The tests check the rules by property, without sockets.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import { clientAddress } from "../../../../src/server/gate/ClientAddress.ts"
import { Generations, layerRateLimits, type Quota, RateLimits } from "../../../../src/server/gate/RateLimits.ts"

describe("The address of a client", () => {
  const addressOf = (
    socket: string | null,
    header: string | null,
    proxies: ReadonlyArray<string> = ["10.0.0.0/8", "fd00::/8"]
  ) =>
    clientAddress(proxies)({
      remoteAddress: Option.fromNullishOr(socket),
      headers: (header === null ? {} : { "x-forwarded-for": header }) as never
    })

  it("is that of the socket, unless that is a trusted proxy's", () => {
    assert.strictEqual(addressOf("192.0.2.1", null), "192.0.2.1")
    assert.strictEqual(addressOf("192.0.2.1", "192.0.2.9"), "192.0.2.1")
    assert.strictEqual(addressOf("10.0.0.1", "192.0.2.9"), "192.0.2.9")
    assert.strictEqual(addressOf("::ffff:10.0.0.1", "192.0.2.9"), "192.0.2.9")
    assert.strictEqual(addressOf("::ffff:192.0.2.1", null), "192.0.2.1")
    assert.strictEqual(addressOf("fd00::1%eth0", "192.0.2.9"), "192.0.2.9")
    assert.strictEqual(addressOf("10.0.0.1", "192.0.2.9", []), "10.0.0.1")
    assert.strictEqual(addressOf(null, "192.0.2.9"), "unknown")
  })

  it("is the last untrusted address of X-Forwarded-For that trusted proxies report", () => {
    assert.strictEqual(addressOf("10.0.0.1", "198.51.100.1,192.0.2.9 , 10.0.0.3"), "192.0.2.9")
    assert.strictEqual(addressOf("10.0.0.1", "10.0.0.2, 10.0.0.3"), "10.0.0.2", "all addresses are proxies")
    assert.strictEqual(addressOf("10.0.0.1", "192.0.2.9:4711"), "192.0.2.9")
    assert.strictEqual(addressOf("10.0.0.1", ""), "10.0.0.1")
    for (const made of ["unknown", "_hidden", "192.0.2.300", "192.0.2.9, ", "x".repeat(10_000)]) {
      assert.strictEqual(addressOf("10.0.0.1", `192.0.2.9, ${made}`), "10.0.0.1", made.slice(0, 20))
      assert.strictEqual(addressOf("10.0.0.1", `${made}, 192.0.2.9`), "192.0.2.9", made.slice(0, 20))
    }
  })

  it("of IPv6 is a block of /64", () => {
    for (const address of ["2001:db8::1", "2001:db8:0:0:ffff:ffff:ffff:ffff", "2001:0db8::2"]) {
      assert.strictEqual(addressOf(address, null), "2001:db8::/64")
    }
    assert.strictEqual(addressOf("2001:db8:0:1::1", null), "2001:db8:0:1::/64")
  })
})

/** For each request after these pauses (milliseconds), whether the quota of one key admits it. */
const admissions = (of: Quota, pauses: ReadonlyArray<number>) =>
  Effect.gen(function*() {
    const limits = (yield* RateLimits)!
    const grant = { client_id: "client", subject: "subject" } as GrantIdentity
    const admitted: Array<number> = []
    let now = 0
    for (const pause of pauses) {
      yield* TestClock.adjust(pause)
      now += pause
      const { retryAfter } = yield* limits.take(grant)
      if (retryAfter === null) admitted.push(now)
      else assert.isAtLeast(retryAfter, 1)
    }
    return admitted
  }).pipe(Effect.provide(layerRateLimits({ quota: of })))

describe("A quota", () => {
  const anyQuota = fc.record({
    requests: fc.integer({ min: 1, max: 1000 }),
    window: fc.constantFrom(1, 60, 3600),
    burst: fc.integer({ min: 1, max: 20 })
  })
  const anyPauses = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 5000 })), { maxLength: 100 })

  it("admits at most its burst and its rate in any span of time, and no less in total", () =>
    fc.assert(
      fc.asyncProperty(anyQuota, anyPauses, async (quota, pauses) => {
        const admitted = await Effect.runPromise(Effect.provide(admissions(quota, pauses), TestClock.layer()))
        const rate = quota.requests / (quota.window * 1000)
        for (let from = 0; from < admitted.length; from++) {
          for (let to = from; to < admitted.length; to++) {
            const most = quota.burst + (admitted[to]! - admitted[from]!) * rate
            assert.isAtMost(to - from + 1, Math.floor(most + 1e-6))
          }
        }
        // All requests that come as fast as the quota refills, or slower, are admitted.
        const slow = pauses.filter((pause) => pause * rate >= 1)
        const all = await Effect.runPromise(Effect.provide(admissions(quota, slow), TestClock.layer()))
        assert.strictEqual(all.length, slow.length)
      }),
      { numRuns: 100 }
    ))

  it("keeps a bounded number of keys, among them those used last", () => {
    const generations = new Generations<number>(100)
    let made = 0
    for (let key = 0; key < 100_000; key++) {
      generations.get(`${key}`, () => ++made)
      generations.get("always", () => ++made)
      assert.isAtMost(generations.size, 200)
    }
    assert.strictEqual(made, 100_001)
    for (let key = 99_999; key > 99_900; key--) generations.get(`${key}`, () => assert.fail(`${key} was forgotten`))
  })

  const grant = { client_id: "client", subject: "subject" } as GrantIdentity
  const quota: Quota = { requests: 1, window: 60, burst: 2 }

  it.effect("never gives back more than its burst", () =>
    Effect.gen(function*() {
      const limits = (yield* RateLimits)!
      yield* limits.take(grant)
      yield* limits.giveBack(grant)
      assert.strictEqual((yield* limits.giveBack(grant)).fields.RateLimit, "\"requests\";r=2;t=1")
      for (const expected of [null, null, 60]) assert.strictEqual((yield* limits.take(grant)).retryAfter, expected)
    }).pipe(Effect.provide(layerRateLimits({ quota }))))

  it.effect("goes on from a clock that was set back", () =>
    Effect.gen(function*() {
      const limits = (yield* RateLimits)!
      yield* TestClock.setTime(3_600_000)
      for (const expected of [null, null, 60]) assert.strictEqual((yield* limits.take(grant)).retryAfter, expected)
      yield* TestClock.setTime(0)
      assert.strictEqual((yield* limits.take(grant)).retryAfter, 60)
      yield* TestClock.adjust("60 seconds")
      for (const expected of [null, 60]) assert.strictEqual((yield* limits.take(grant)).retryAfter, expected)
    }).pipe(Effect.provide(layerRateLimits({ quota }))))
})
