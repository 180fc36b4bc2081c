/**
 * A read has an index that was asked for after it began, and its result is told after a confirmation that began after it: on the session
 * that gave the index. The session is a model whose answers come when the test lets them.
 */
import type { PgConnection, PgPool } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { makeUseReadIndex, walPosition } from "../../../../src/cluster/standbys/StandbyReads.ts"

type Row = Readonly<Record<string, unknown>>
type Answer = { readonly rows: ReadonlyArray<Row> }

/** A pool of one session, which notes the statements and answers on demand. */
const makeModel = () => {
  const asked: Array<{ readonly text: string; readonly answer: Deferred.Deferred<Answer> }> = []
  const query = (text: string) =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<Answer>()
      asked.push({ text: /CALL|pg_current_wal_flush_lsn/u.exec(text)![0], answer })
      return Deferred.await(answer)
    })
  // The casts: the rest of session and pool is not used.
  const session = { query } as unknown as PgConnection.PgConnection
  const pool = {
    use: (run: (session: PgConnection.PgConnection) => unknown) => run(session)
  } as unknown as PgPool.PgPool
  return { asked, use: makeUseReadIndex(pool), texts: () => asked.map(({ text }) => text) }
}

const turn = Effect.callback<void>((resume) => void setImmediate(() => setImmediate(() => resume(Effect.void))))

const at = (position: string): Answer => ({ rows: [{ position, mark: "m" }] })

const confirmed = (gap: string | null): Answer => ({ rows: [{ gap }] })

const [question, confirmation] = ["pg_current_wal_flush_lsn", "CALL"]

describe("A read with an index", () => {
  it.live("begins after the answer of a question that began after the call", () =>
    Effect.gen(function*() {
      const { asked, texts, use } = makeModel()
      const positions: Array<bigint> = []
      const read = use(({ position }) => Effect.sync(() => void positions.push(position)))
      yield* Effect.forkChild(read)
      yield* turn
      // The question is under way: its answer is too old for these two, which share the next one.
      yield* Effect.forkChild(read)
      yield* Effect.forkChild(read)
      yield* turn
      assert.deepStrictEqual(texts(), [question])
      yield* Deferred.succeed(asked[0]!.answer, at("0/10"))
      yield* turn
      assert.deepStrictEqual(positions, [16n])
      assert.sameMembers(texts(), [question, question, confirmation])
      const next = asked.findLast(({ text }) => text === question)!
      yield* Deferred.succeed(next.answer, at("1/0"))
      yield* turn
      assert.deepStrictEqual(positions, [16n, 4_294_967_296n, 4_294_967_296n])
    }))

  it.live("is told after a confirmation that began after it, and fails if that fails", () =>
    Effect.gen(function*() {
      for (const gap of [null, "a gap"]) {
        const { asked, texts, use } = makeModel()
        const read = yield* Deferred.make<string>()
        const told = yield* Effect.forkChild(Effect.result(use(() => Deferred.await(read))))
        yield* turn
        yield* Deferred.succeed(asked[0]!.answer, at("0/1"))
        yield* turn
        assert.deepStrictEqual(texts(), [question])
        yield* Deferred.succeed(read, "row")
        yield* turn
        assert.deepStrictEqual(texts(), [question, confirmation])
        assert.isUndefined(told.pollUnsafe())
        yield* Deferred.succeed(asked[1]!.answer, confirmed(gap))
        assert.strictEqual((yield* Fiber.join(told))._tag, gap === null ? "Success" : "Failure")
      }
    }))

  it.live("that fails needs no confirmation", () =>
    Effect.gen(function*() {
      const { asked, texts, use } = makeModel()
      const told = yield* Effect.forkChild(Effect.flip(use(() => Effect.fail("behind"))))
      yield* turn
      yield* Deferred.succeed(asked[0]!.answer, at("0/1"))
      assert.strictEqual(yield* Fiber.join(told), "behind")
      assert.deepStrictEqual(texts(), [question])
    }))
})

describe("A position in the WAL", () => {
  it("is a number of 64 bits", () => {
    assert.strictEqual(walPosition("0/0"), 0n)
    assert.strictEqual(walPosition("16/B374D848"), 0x16_B374_D848n)
    assert.strictEqual(walPosition("FFFFFFFF/FFFFFFFF"), 2n ** 64n - 1n)
  })
})
