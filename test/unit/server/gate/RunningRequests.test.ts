/** The list of running requests is ordered by age, and a request that leaves it keeps no link. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { RunningRequest, RunningRequests } from "../../../../src/server/gate/RunningRequests.ts"

/** Adds a request, or removes one, which may have left already: its index modulo their number. */
const Step = Schema.Union([Schema.Literal("add"), Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20 }))])

/** From the oldest to the youngest. */
const listOf = (running: RunningRequests, limit: number) => {
  const list: Array<RunningRequest> = []
  let request = running.oldest
  while (request !== null && request.fiber !== null && list.length <= limit) {
    list.push(request)
    request = request.younger
  }
  return list
}

describe("The running requests", () => {
  it.effect.prop(
    "stay ordered by age, and a request that leaves has no link",
    [Schema.Array(Step).check(Schema.isMaxLength(60))],
    ([steps]) =>
      Effect.gen(function*() {
        const running = new RunningRequests()
        const fiber = yield* Effect.fiber
        const all: Array<RunningRequest> = []
        let expected: Array<RunningRequest> = []
        for (const step of steps) {
          if (step === "add") {
            const request = new RunningRequest(fiber, all.length)
            running.add(request)
            all.push(request)
            expected.push(request)
          } else if (all.length > 0) {
            const leaving = all[step % all.length]!
            running.remove(leaving)
            expected = expected.filter((request) => request !== leaving)
          }
          const list = listOf(running, all.length)
          assert.deepStrictEqual(list.map(({ deadline }) => deadline), expected.map(({ deadline }) => deadline))
          assert.strictEqual(running.oldest, expected[0] ?? null)
          for (const [at, request] of expected.entries()) {
            if (at > 0) assert.strictEqual(request.older, expected[at - 1])
          }
          for (const gone of all.filter((request) => !expected.includes(request))) {
            assert.deepStrictEqual([gone.older, gone.younger, gone.fiber], [null, null, null])
          }
        }
      })
  )
})
