/** A semaphore for each key, such as a client, whose work then waits for its own work and not for that of others. */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

/** Runs effects, of each key `permits` at once. */
export const makeKeyedSemaphore = (permits: number) => {
  /** Of keys with running or waiting effects. */
  const entries = new Map<string, { inside: number; readonly semaphore: Semaphore.Semaphore }>()
  const enter = (key: string) => {
    const entry = entries.get(key) ?? { inside: 0, semaphore: Semaphore.makeUnsafe(permits) }
    entries.set(key, entry)
    entry.inside++
    return entry.semaphore
  }
  const leave = (key: string) => {
    const entry = entries.get(key)!
    if (--entry.inside === 0) entries.delete(key)
  }
  return <A, E, R>(key: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => Effect.ensuring(enter(key).withPermit(effect), Effect.sync(() => leave(key))))
}
