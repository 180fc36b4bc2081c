import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { type ClockReading, elapsed, readClocks } from "./elapsed.ts"

/** Whether the worker is asked to stop, and since when. */
export interface Drain {
  /** Asks the worker to stop. */
  readonly begin: Effect.Effect<void>
  /** Waits until the worker is asked to stop. */
  readonly begun: Effect.Effect<void>
  readonly hasBegun: () => boolean
  /** Milliseconds since the worker was asked to stop; 0 before. */
  readonly elapsed: Effect.Effect<number>
}

export const makeDrain = (): Drain => {
  const latch = Latch.makeUnsafe(false)
  let since: ClockReading | null = null
  return {
    begin: Effect.flatMap(readClocks, (now) => {
      since = now
      return Effect.asVoid(latch.open)
    }),
    begun: Effect.asVoid(latch.await),
    hasBegun: () => latch.isOpen(),
    elapsed: Effect.suspend(() => since === null ? Effect.succeed(0) : elapsed(since))
  }
}
