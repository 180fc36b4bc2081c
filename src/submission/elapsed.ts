import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** A moment by both clocks of the process. Each of them may stand still or be set. */
export interface ClockReading {
  /** Milliseconds since 1970. */
  readonly wall: number
  /** Nanoseconds. */
  readonly monotonic: bigint
}

export const readClocks: Effect.Effect<ClockReading> = Effect.zipWith(
  Clock.currentTimeMillis,
  Clock.monotonicTimeNanos,
  (wall, monotonic) => ({ wall, monotonic })
)

/** Milliseconds that passed by the wall clock and not by the other one since a reading: about by how much the clock was set. */
export const clockSet = (since: ClockReading): Effect.Effect<number> =>
  Effect.map(readClocks, (now) => now.wall - since.wall - Number(now.monotonic - since.monotonic) / 1_000_000)

/** Milliseconds since a reading, by the clock that is further ahead. */
export const elapsed = (since: ClockReading): Effect.Effect<number> =>
  Effect.map(
    readClocks,
    (now) => Math.max(now.wall - since.wall, Number(now.monotonic - since.monotonic) / 1_000_000)
  )
