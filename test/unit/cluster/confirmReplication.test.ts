/**
 * Confirmations of a session are shared, and none begins before the statements that it confirms have ended. The session is a model whose
 * answers come when the test lets them.
 */
import type { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema } from "effect"
import { makeSharedConfirm } from "../../../src/cluster/confirmReplication.ts"

type Rows = { readonly rows: ReadonlyArray<{ readonly gap: string | null }> }

/** A session that notes when each confirmation begins, and answers on demand. */
const makeSession = () => {
  const calls: Array<{ readonly begun: number; readonly answer: Deferred.Deferred<Rows> }> = []
  let now = 0
  const query = () =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<Rows>()
      calls.push({ begun: ++now, answer })
      return Deferred.await(answer)
    })
  // The cast: the rest of a session is not used.
  const session = { query } as unknown as PgConnection.PgConnection
  return { calls, session, tick: () => ++now }
}

const turn = Effect.callback<void>((resume) => void setImmediate(() => setImmediate(() => resume(Effect.void))))

const answerWith = (isConfirmed: boolean): Rows => ({ rows: [{ gap: isConfirmed ? null : "none" }] })

const steps = Schema.Array(Schema.Literals(["ask", "abandon", "yes", "no", "turn"])).check(Schema.isMaxLength(60))

describe("Confirmations of a session", () => {
  it.live.prop(
    "begin after each caller asked, one at a time, and answer exactly those callers",
    [steps],
    ([steps]) =>
      Effect.gen(function*() {
        const { calls, session, tick } = makeSession()
        const confirm = makeSharedConfirm(session)
        const asked: Array<{ readonly at: number; readonly fiber: Fiber.Fiber<number, unknown>; abandoned: boolean }> =
          []
        const verdicts: Array<boolean> = []
        const answer = (confirmed: boolean) => {
          verdicts.push(confirmed)
          return Deferred.succeed(calls[verdicts.length - 1]!.answer, answerWith(confirmed))
        }
        const ask = Effect.gen(function*() {
          const at = tick()
          // Told by how many confirmations had been answered then: the last of them is the caller's.
          const fiber = yield* Effect.forkChild(
            Effect.map(confirm, () => verdicts.length).pipe(Effect.mapError(() => verdicts.length))
          )
          asked.push({ at, fiber, abandoned: false })
          yield* Effect.yieldNow
        })
        for (const step of steps) {
          if (step === "ask") yield* ask
          else if (step === "turn") yield* turn
          else if (step === "abandon" && asked.length > 0) {
            const last = asked.at(-1)!
            last.abandoned = true
            yield* Fiber.interrupt(last.fiber)
          } else if ((step === "yes" || step === "no") && calls.length > verdicts.length) {
            yield* answer(step === "yes")
            yield* turn
          }
          assert.isAtMost(calls.length - verdicts.length, 1, "one at a time")
        }
        yield* turn
        while (calls.length > verdicts.length) {
          yield* answer(true)
          yield* turn
        }
        for (const { abandoned, at, fiber } of asked) {
          if (abandoned) continue
          const exit = yield* Fiber.await(fiber)
          const told = Exit.isSuccess(exit) ? exit.value : (exit.cause.reasons[0] as { readonly error: number }).error
          assert.isAbove(calls[told - 1]!.begun, at, "it began after the caller asked")
          assert.strictEqual(Exit.isSuccess(exit), verdicts[told - 1], "the caller learns its own verdict")
        }
        assert.isAtMost(calls.length, asked.length)
      })
  )

  it.live("are one for all statements that end in one turn of the event loop", () =>
    Effect.gen(function*() {
      const { calls, session } = makeSession()
      const confirm = makeSharedConfirm(session)
      const all = yield* Effect.forkChild(
        Effect.all(Array.from({ length: 50 }, () => confirm), { concurrency: "unbounded" })
      )
      yield* turn
      assert.lengthOf(calls, 1)
      yield* Deferred.succeed(calls[0]!.answer, answerWith(true))
      yield* Fiber.join(all)
      assert.lengthOf(calls, 1)
    }))
})
