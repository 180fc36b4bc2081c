/** Limits of calls that wait for the same server or store, so that those of one issuer or client cannot hold all slots of the gateway. */
import * as Effect from "effect/Effect"

/**
 * Makes a limit of calls that run at once: `max` of all, and `maxOfKey` of one key. A further call runs `refused` instead. The
 * limit uses memory only for running calls.
 */
export const makeCallLimit = <B, E>(
  { max, maxOfKey = max }: { readonly max: number; readonly maxOfKey?: number },
  refused: Effect.Effect<B, E>
) => {
  const runningOf = new Map<string, number>()
  let running = 0

  const change = (key: string, by: 1 | -1) => {
    running += by
    const ofKey = (runningOf.get(key) ?? 0) + by
    if (ofKey === 0) runningOf.delete(key)
    else runningOf.set(key, ofKey)
  }

  return <A, E2, R>(key: string, call: Effect.Effect<A, E2, R>): Effect.Effect<A | B, E | E2, R> =>
    Effect.uninterruptibleMask((restore): Effect.Effect<A | B, E | E2, R> => {
      if (running >= max || (runningOf.get(key) ?? 0) >= maxOfKey) return refused
      change(key, 1)
      return Effect.ensuring(restore(call), Effect.sync(() => change(key, -1)))
    })
}
