/** Calls that share runs: outcomes that one statement records, permits that one statement reserves, questions of several reads. */
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

/** A call, and what it waits for. The run that gets it must complete the answer. */
export interface WaitingCall<Call, A, E> {
  readonly call: Call
  readonly answer: Deferred.Deferred<A, E>
}

/**
 * Makes the function that joins the next run. Calls of one turn of the event loop share a run, and so do all that come while one is under
 * way: theirs begins after it. A run belongs to no caller: the interruption of one ends no run, and runs have the given context. `run` must
 * not fail. `countOf` is how many of the waiting calls go together: all of them by default.
 */
export const gatherCalls = <Call, A, E>(
  context: Context.Context<never>,
  run: (calls: ReadonlyArray<WaitingCall<Call, A, E>>) => Effect.Effect<void>,
  countOf: (waiting: ReadonlyArray<WaitingCall<Call, A, E>>) => number = (waiting) => waiting.length
): (call: Call) => Effect.Effect<A, E> => {
  let waiting: Array<WaitingCall<Call, A, E>> = []
  let isRunning = false
  const runAll = Effect.gen(function*() {
    while (waiting.length > 0) {
      const count = countOf(waiting)
      const calls = waiting.slice(0, count)
      waiting = waiting.slice(count)
      yield* run(calls)
    }
    // In the turn that found no call: one that comes later sees it, and starts the next run.
    isRunning = false
  })
  return (call) =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<A, E>()
      waiting.push({ call, answer })
      if (!isRunning) {
        isRunning = true
        // In this turn: no interruption can come between the mark and the run. It begins after this turn, whose calls it takes along.
        Effect.runForkWith(context)(Effect.andThen(Effect.yieldNow, runAll))
      }
      return Deferred.await(answer)
    })
}
