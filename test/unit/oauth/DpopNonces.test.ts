/**
 * Nonces for DPoP proofs change each minute and are equal in all processes with the same key. The tests move the clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { makeDpopNonces } from "../../../src/oauth/DpopNonces.ts"

const keyOf = (byte: number, length = 32) => Redacted.make(new Uint8Array(length).fill(byte))

describe("Nonces for DPoP proofs", () => {
  it.effect("change every minute; the previous one is still good, and marked as previous", () =>
    Effect.gen(function*() {
      const nonces = yield* makeDpopNonces(keyOf(1))
      const first = yield* nonces.current
      assert.match(first, /^[A-Za-z0-9_-]{43}$/)
      yield* TestClock.adjust("59999 millis")
      assert.strictEqual(yield* nonces.current, first)
      assert.strictEqual(yield* nonces.check(first), "current")
      yield* TestClock.adjust("1 millis")
      assert.notStrictEqual(yield* nonces.current, first)
      assert.strictEqual(yield* nonces.check(first), "previous")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* nonces.check(first), "unknown")
    }))

  it.effect("are the same in all processes with the same key, and differ under another key", () =>
    Effect.gen(function*() {
      const [one, same, other] = [
        yield* makeDpopNonces(keyOf(1)),
        yield* makeDpopNonces(keyOf(1)),
        yield* makeDpopNonces(keyOf(2))
      ]
      assert.strictEqual(yield* same.check(yield* one.current), "current")
      assert.strictEqual(yield* other.check(yield* one.current), "unknown")
    }))

  it.effect("are good at a process whose clock is a little behind the issuing process", () =>
    Effect.gen(function*() {
      const [ahead, behind] = [yield* makeDpopNonces(keyOf(1)), yield* makeDpopNonces(keyOf(1))]
      yield* TestClock.setTime(60_000)
      const nonce = yield* ahead.current
      yield* TestClock.setTime(59_000)
      assert.strictEqual(yield* behind.check(nonce), "current")
      yield* TestClock.setTime(120_000)
      const next = yield* ahead.current
      yield* TestClock.setTime(59_000)
      assert.strictEqual(yield* behind.check(next), "unknown")
    }))

  it.effect("are refused unless they are complete strings", () =>
    Effect.gen(function*() {
      const nonces = yield* makeDpopNonces(keyOf(1))
      const nonce = yield* nonces.current
      for (const value of [undefined, null, "", 0, {}, [nonce], nonce.slice(1), `${nonce}=`]) {
        assert.strictEqual(yield* nonces.check(value), "unknown")
      }
    }))

  it.effect("need a key of 32 bytes", () =>
    Effect.gen(function*() {
      for (const length of [0, 16, 31, 33]) {
        assert.isTrue(Exit.isFailure(yield* Effect.exit(makeDpopNonces(keyOf(1, length)))))
      }
    }))
})
