/**
 * Made-up tokens decide about no other token, with any answer of the authorization server to them. The tests send them in
 * numbers while good tokens are read, with a fake server.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import {
  answerMadeUp,
  forkMany,
  isOver,
  judged,
  makeKnown,
  makeScene,
  outages,
  path,
  refusals,
  timeout,
  tokensAsked
} from "../../fixtures/oauth/IntrospectionScene.ts"
import { issuer } from "../../fixtures/oauth/Issuing.ts"
import { until } from "../../fixtures/until.ts"

/** The number of concurrent made-up tokens, the server's answer to them, and the pause after them (milliseconds). */
const Step = Schema.Struct({
  how: Schema.Union([Schema.Literals(refusals), Schema.Literals(outages), Schema.Literal("silence")]),
  count: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 })),
  pause: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20_000 }))
})

describe("Tokens that a stranger makes up", () => {
  it.effect("are 503 one by one when the server refuses questions about them or fails, and good tokens are accepted", () =>
    Effect.gen(function*() {
      for (const status of [...refusals, ...outages]) {
        const { server, verify } = yield* makeKnown()
        answerMadeUp(server, status)
        for (let index = 0; index < 12; index++) {
          assert.strictEqual(yield* judged(verify(`made-up-${index}`)), "AuthorizationUnavailable", `${status}`)
        }
        for (const good of ["known", "new"]) assert.strictEqual(yield* judged(verify(good)), "accepted", `${status}`)
        const probes = tokensAsked(server).slice(1, -2).filter((token) => token === "known")
        if (refusals.some((refusal) => refusal === status)) assert.isEmpty(probes, `${status} makes no probe`)
      }
    }))

  it.effect("that make the server fail before any token was verified refuse no new token", () =>
    Effect.gen(function*() {
      for (const endpoint of [null, `${issuer}${path}`]) {
        for (const status of outages) {
          const { server, verify } = yield* makeScene({ endpoint, timeout })
          answerMadeUp(server, status)
          for (let index = 0; index < 12; index++) {
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
      const strangers = yield* forkMany(1000, (index) => judged(verify(`made-up-${index}`)))
      const refused = () => strangers.filter(isOver).length
      // 32 are asked about, and seven times as many wait; the others are refused at once.
      yield* until(() => refused() === 1000 - 8 * 32 && server.open === 32)
      assert.strictEqual(yield* judged(verify("known")), "accepted")
      assert.strictEqual(server.mostOpen, 33)
      yield* TestClock.adjust(timeout)
      for (const stranger of strangers) assert.strictEqual(yield* Fiber.join(stranger), "AuthorizationUnavailable")
      assert.strictEqual(yield* judged(verify("new")), "accepted")
    }))

  it.effect("take no more places by simultaneous requests with one token: 128 wait, with all tokens 256, and the others are refused", () =>
    Effect.gen(function*() {
      for (const answerTimeToLive of [Duration.zero, Duration.seconds(10)]) {
        const { server, verify } = yield* makeKnown({ answerTimeToLive })
        answerMadeUp(server, "silence")
        for (const leaves of [true, false]) {
          const same = yield* forkMany(300, () => judged(verify("made-up")))
          yield* until(() => same.filter(isOver).length === 300 - 128)
          const others = yield* forkMany(300, (index) => judged(verify(`made-up-${index}`)))
          yield* until(() => others.filter(isOver).length === 300 - 128)
          assert.strictEqual(yield* judged(verify("known")), "accepted")
          for (const fiber of [...same, ...others].filter(isOver)) {
            assert.strictEqual(yield* Fiber.join(fiber), "AuthorizationUnavailable")
          }
          // The places are free after clients leave, and after the timeout. A request that others wait for may begin a quarter of it later.
          if (leaves) yield* Fiber.interruptAll([...same, ...others])
          yield* TestClock.adjust(Duration.times(timeout, 2))
          yield* until(() => server.open === 0 && [...same, ...others].every(isOver))
        }
      }
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
      const strangers = yield* forkMany(400, (index) => judged(verify(`made-up-${index}`)))
      yield* until(() => strangers.filter(isOver).length === 400 - 8 * 32)
      assert.strictEqual(server.mostOpen, 64)
      yield* TestClock.adjust(timeout)
      for (const fiber of [...holders, ...strangers]) {
        assert.strictEqual(yield* Fiber.join(fiber), "AuthorizationUnavailable")
      }
      // At most one probe of each kind.
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
          const strangers = yield* forkMany(count, () => judged(verify(`made-up-${made++}`)))
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
