/**
 * Turns of the clients: work of one client waits for the client itself, and not for others.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

/** Runs effects in turns: of each key, `permits` at once. */
export const makeTurns = (permits: number) => {
  /** Of keys with running or waiting effects. */
  const turnsOf = new Map<string, { inside: number; readonly turns: Semaphore.Semaphore }>()
  const enter = (key: string) => {
    const entry = turnsOf.get(key) ?? { inside: 0, turns: Semaphore.makeUnsafe(permits) }
    turnsOf.set(key, entry)
    entry.inside++
    return entry.turns
  }
  const leave = (key: string) => {
    const entry = turnsOf.get(key)!
    if (--entry.inside === 0) turnsOf.delete(key)
  }
  return <A, E, R>(key: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => Effect.ensuring(enter(key).withPermit(effect), Effect.sync(() => leave(key))))
}
