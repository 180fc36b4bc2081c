/** Sessions of operators end by age, by idleness, by sign-out, and when there are too many. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { maxSessions, Sessions } from "../../../../../src/operator/console/access/Sessions.ts"

const start = Effect.gen(function*() {
  const { id, session } = yield* (yield* Sessions).start("olivia")
  return { id: Redacted.value(id), session }
})

const find = Effect.fnUntraced(function*(id: string, prolongs = true) {
  return yield* (yield* Sessions).find(id, { prolongs })
})

const test = (rule: string, body: () => Effect.Effect<void, never, Sessions>) =>
  it.effect(rule, () => Effect.provide(body(), Sessions.layer))

describe("Sessions", () => {
  test("have ids and anti-forgery tokens of 256 random bits, no two the same", () =>
    Effect.gen(function*() {
      const all = yield* Effect.all([start, start, start])
      const secrets = all.flatMap(({ id, session }) => [id, session.csrfToken])
      assert.strictEqual(new Set(secrets).size, 6)
      for (const secret of secrets) assert.strictEqual(Buffer.from(secret, "base64url").length, 32)
    }))

  test("are found by their id alone", () =>
    Effect.gen(function*() {
      const { id, session } = yield* start
      assert.strictEqual(yield* find(id), session)
      for (const other of ["", id.slice(1), `${id}A`, session.csrfToken]) assert.isNull(yield* find(other))
    }))

  test("end after an hour without a request", () =>
    Effect.gen(function*() {
      const { id } = yield* start
      yield* TestClock.adjust("59 minutes")
      assert.isNotNull(yield* find(id))
      yield* TestClock.adjust("59 minutes")
      assert.isNotNull(yield* find(id))
      yield* TestClock.adjust("60 minutes")
      assert.isNull(yield* find(id))
    }))

  test("end after 12 hours, however often they are used", () =>
    Effect.gen(function*() {
      const { id } = yield* start
      for (let quarter = 1; quarter < 48; quarter++) {
        yield* TestClock.adjust("15 minutes")
        assert.isNotNull(yield* find(id), `after ${quarter} quarters of an hour`)
      }
      yield* TestClock.adjust("15 minutes")
      assert.isNull(yield* find(id))
    }))

  test("end when they are told to, alone", () =>
    Effect.gen(function*() {
      const first = yield* start
      const second = yield* start
      yield* (yield* Sessions).end(first.session)
      assert.isNull(yield* find(first.id))
      assert.isNotNull(yield* find(second.id))
    }))

  test("are at most 100: a further one ends the one that was idle for the longest time", () =>
    Effect.gen(function*() {
      const sessions = yield* Effect.all(Array.from({ length: maxSessions }, () => start))
      yield* find(sessions[0]!.id)
      const further = yield* start
      assert.isNotNull(yield* find(sessions[0]!.id))
      assert.isNull(yield* find(sessions[1]!.id))
      assert.isNotNull(yield* find(sessions[2]!.id))
      assert.isNotNull(yield* find(further.id))
    }))

  test("tell those who wait for their end: after a sign-out, after an idle hour, and at once if it has passed", () =>
    Effect.gen(function*() {
      const { end, ended } = yield* Sessions
      const { session } = yield* start
      const waiting = yield* Effect.forkChild(ended(session), { startImmediately: true })
      yield* end(session)
      yield* Fiber.join(waiting)
      yield* ended(session)

      const other = yield* start
      const idle = yield* Effect.forkChild(ended(other.session), { startImmediately: true })
      yield* TestClock.adjust("30 minutes")
      yield* find(other.id)
      yield* TestClock.adjust("30 minutes")
      assert.isUndefined(idle.pollUnsafe())
      yield* TestClock.adjust("30 minutes")
      yield* Fiber.join(idle)
    }))
})
