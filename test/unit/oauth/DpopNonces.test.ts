import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { makeDpopNonces } from "../../../src/oauth/DpopNonces.ts"

const keyOf = (byte: number, length = 32) => Redacted.make(new Uint8Array(length).fill(byte))

describe("Nonces for DPoP proofs", () => {
  it.effect("change every minute; the last one is still good, and said to be the last", () =>
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

  it.effect("are the same in all processes that have the key, and others under another", () =>
    Effect.gen(function*() {
      const [one, same, other] = [
        yield* makeDpopNonces(keyOf(1)),
        yield* makeDpopNonces(keyOf(1)),
        yield* makeDpopNonces(keyOf(2))
      ]
      assert.strictEqual(yield* same.check(yield* one.current), "current")
      assert.strictEqual(yield* other.check(yield* one.current), "unknown")
    }))

  it.effect("are good where the clock is a little behind that of who handed them out", () =>
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

  it.effect("are texts, and no other values", () =>
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
