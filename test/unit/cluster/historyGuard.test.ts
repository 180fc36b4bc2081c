/**
 * A ledger is behind exactly if it lacks something that was seen before. The model is a tree of histories: WAL grows, servers are promoted,
 * and any earlier state may come back.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { isBehind, type LedgerPlace, makeHistoryGuard } from "../../../src/cluster/historyGuard.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"

interface State {
  readonly place: LedgerPlace
  /** All states that it contains. */
  readonly past: ReadonlySet<LedgerPlace>
}

const moves = Schema.Array(
  Schema.Struct({
    kind: Schema.Literals(["grow", "grow", "promote", "back"]),
    to: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1000 }))
  })
).check(Schema.isMaxLength(25))

const start: LedgerPlace = { home: "1/1", timeline: 1, flushed: 0, marks: { 1: "first" }, is_compared: null }

describe("The memory of how far the ledger had come", () => {
  it.effect.prop(
    "finds every state behind that lacks what was seen, and no other",
    [moves],
    ([steps]) =>
      Effect.sync(() => {
        let ids = 0
        // Bytes of WAL are never written twice with the same content, but their numbers recur in another history.
        const grown = ({ past, place }: State): State => {
          const next = { ...place, flushed: place.flushed + 1 }
          return { place: next, past: new Set([...past, next]) }
        }
        const promoted = ({ past, place }: State): State => {
          const timeline = place.timeline + 1
          const next = {
            ...place,
            timeline,
            flushed: place.flushed + 1,
            marks: { ...place.marks, [timeline]: `${++ids}` }
          }
          return { place: next, past: new Set([...past, next]) }
        }
        const states: Array<State> = [{ place: start, past: new Set([start]) }]
        for (const { kind, to } of steps) {
          const last = states.at(-1)!
          if (kind === "back") states.push(states[to % states.length]!)
          else states.push(kind === "grow" ? grown(last) : promoted(last))
        }
        for (const { place: before } of states) {
          for (const { past, place: now } of states) {
            const isFork = now.timeline === before.timeline && now.marks[now.timeline] === before.marks[now.timeline]
            // WAL that grew anew after a disk was put back looks like that which was lost: only the length tells them apart.
            if (isFork && !past.has(before) && now.flushed >= before.flushed) continue
            // So does an ancestor timeline that was continued from an earlier place before the promotion.
            if (past.has(before)) assert.isFalse(isBehind(now, before), JSON.stringify({ now, before }))
            else if (now.timeline <= before.timeline) {
              assert.isTrue(isBehind(now, before), JSON.stringify({ now, before }))
            }
          }
        }
      })
  )

  it("does not compare two homes, whose timelines have nothing to do with each other", () => {
    assert.isFalse(isBehind({ ...start, home: "2/1" }, { ...start, timeline: 7, flushed: 9 }))
  })

  it("leaves the proof to the witness, once it was compared", () => {
    const later = { ...start, timeline: 2, flushed: 5, marks: { 1: "first", 2: "one" } }
    assert.isTrue(isBehind({ ...start, is_compared: false }, later))
    assert.isFalse(isBehind({ ...start, is_compared: true }, later))
  })

  it("finds a timeline of the same number that began elsewhere", () => {
    const seen = { ...start, timeline: 2, flushed: 5, marks: { 1: "first", 2: "one" } }
    assert.isTrue(isBehind({ ...seen, flushed: 9, marks: { 1: "first", 2: "other" } }, seen))
    assert.isTrue(isBehind({ ...seen, timeline: 3, flushed: 9, marks: { 1: "first", 2: "other", 3: "x" } }, seen))
    assert.isFalse(isBehind({ ...seen, timeline: 3, flushed: 9, marks: { 1: "first", 2: "one", 3: "x" } }, seen))
  })

  it.effect("holds once, after ten looks in a row behind, and only if the ledger is still behind then", () =>
    Effect.gen(function*() {
      const seen: LedgerPlace = { ...start, timeline: 2, flushed: 5, marks: { 1: "first", 2: "one" } }
      let place = seen
      const server = { unsafe: () => Effect.sync(() => [{ place }]) } as unknown as SqlClient.SqlClient
      const answered = yield* Latch.make()
      const conditions: Array<Effect.Effect<boolean, unknown>> = []
      const guard = yield* makeHistoryGuard((condition) => {
        conditions.push(condition)
        return Effect.as(answered.await, null)
      }).pipe(Effect.provideService(SqlClient.SqlClient, server))
      const look = (times: number) => Effect.andThen(Effect.repeat(guard.watch, { times: times - 1 }), Effect.yieldNow)
      yield* look(1)
      for (let round = 0; round < 2; round++) {
        place = start
        yield* look(9)
        place = seen
        yield* look(1)
      }
      place = start
      yield* look(9)
      assert.lengthOf(conditions, 0)
      yield* look(1)
      assert.lengthOf(conditions, 1)
      yield* look(30)
      assert.lengthOf(conditions, 1, "a hold is under way")
      assert.isTrue(yield* conditions[0]!)
      place = seen
      assert.isFalse(yield* conditions[0]!)
      yield* answered.open
    }))

  it.effect("asks with a statement that changes nothing before the claim after one that failed", () =>
    Effect.gen(function*() {
      const calls: Array<string> = []
      const call = <A>(name: string, answer: Effect.Effect<A, StoreUnavailable>) =>
        Effect.suspend(() => {
          calls.push(name)
          return answer
        })
      const rows = Effect.succeed([{ place: start }])
      const server = { unsafe: () => call("look", rows) } as unknown as SqlClient.SqlClient
      const guard = yield* makeHistoryGuard(() => Effect.succeed(null)).pipe(
        Effect.provideService(SqlClient.SqlClient, server)
      )
      const claim = guard.claimed(call("claim", rows))
      const lost = guard.claimed(call("lost", Effect.fail(new StoreUnavailable({ cause: null }))))
      yield* claim
      yield* Effect.flip(lost)
      yield* claim
      yield* claim
      assert.deepStrictEqual(calls, ["claim", "lost", "look", "claim", "claim"])
    }))

  it.effect("goes on after a hold, also when a claim from before it answers later", () =>
    Effect.gen(function*() {
      let place: LedgerPlace = { ...start, timeline: 2, flushed: 5, marks: { 1: "first", 2: "one" } }
      const server = { unsafe: () => Effect.sync(() => [{ place }]) } as unknown as SqlClient.SqlClient
      const held = yield* Deferred.make<boolean>()
      const guard = yield* makeHistoryGuard((condition) =>
        Effect.tap(Effect.as(Effect.orDie(condition), { held: 0, indeterminate: 0 }), Deferred.succeed(held, true))
      ).pipe(Effect.provideService(SqlClient.SqlClient, server))
      yield* guard.watch
      const answer = yield* Deferred.make<ReadonlyArray<unknown>>()
      const claim = yield* Effect.forkChild(Effect.flip(guard.claimed(Deferred.await(answer))), {
        startImmediately: true
      })

      place = start
      for (let looks = 0; looks < 10; looks++) yield* guard.watch
      yield* Deferred.await(held)
      yield* Effect.yieldNow
      yield* Deferred.succeed(answer, [{ place }])
      assert.strictEqual((yield* Fiber.join(claim))._tag, "StoreUnavailable")
      assert.lengthOf(yield* guard.claimed(Effect.succeed([{ place }])), 1)
    }))
})
