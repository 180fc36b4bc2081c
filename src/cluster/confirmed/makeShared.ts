import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/**
 * Runs an effect for all that ask at the same time. Calls of one turn of the event loop share a run, and so do all that come while one is
 * under way: theirs begins after it. So no caller gets a result of a run that began before its call. A run belongs to no caller, and the
 * interruption of one does not end it.
 */
export const makeShared = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => {
  let waiting: Array<(result: Effect.Effect<A, E>) => void> = []
  let isUnderWay = false

  const begin = () => {
    const served = waiting
    waiting = []
    Effect.runCallback(effect, {
      onExit: (exit) => {
        const result = Exit.isSuccess(exit) ? Effect.succeed(exit.value) : Effect.failCause(exit.cause)
        for (const resume of served) resume(result)
        if (waiting.length === 0) isUnderWay = false
        else begin()
      }
    })
  }

  return Effect.callback((resume) => {
    waiting.push(resume)
    if (isUnderWay) return
    isUnderWay = true
    setImmediate(begin)
  })
}
