/** The clock of one machine: it may be wrong, drift and be set, and it behaves like Effect's own clock on Node. */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Owner, World } from "./World.ts"

/** 2026-01-01T00:00:00Z: the start of true time. */
export const epoch = 1_767_225_600_000

const nanosPerMilli = 1_000_000n
const reanchorAt = 1_000_000_000n

export class MachineClock implements Clock.Clock {
  readonly #world: World
  readonly #rate: number
  /** The runner of the tasks that the timers start. */
  owner: Owner | null = null
  #offset: number
  #stoodStill = 0
  #anchor: bigint | undefined

  constructor(world: World, offset: number, rate: number) {
    this.#world = world
    this.#offset = offset
    this.#rate = rate
  }

  /** Milliseconds by which the wall clock differs from the truth, drift apart. */
  get offset(): number {
    return this.#offset
  }

  /** Sets the wall clock. */
  set(offset: number): void {
    this.#offset = offset
  }

  /** Sets the wall clock to what another clock shows. */
  follow(other: MachineClock): void {
    this.#offset += other.currentTimeMillisUnsafe() - this.currentTimeMillisUnsafe()
  }

  /** Suspends the machine for this many milliseconds: its monotonic clock does not advance. */
  standStill(duration: number): void {
    this.#stoodStill += duration
  }

  /** Milliseconds for which the machine was not suspended. */
  get #running(): number {
    return this.#world.now - this.#stoodStill
  }

  currentTimeMillisUnsafe(): number {
    return Math.floor(epoch + this.#offset + this.#world.now * this.#rate)
  }

  monotonicTimeNanosUnsafe(): bigint {
    return BigInt(Math.floor(this.#running * this.#rate)) * nanosPerMilli
  }

  /** As in Effect: monotonic, from an origin that follows the wall clock when the two differ by a second. */
  currentTimeNanosUnsafe(): bigint {
    const monotonic = this.monotonicTimeNanosUnsafe()
    const wall = BigInt(this.currentTimeMillisUnsafe()) * nanosPerMilli
    const apart = this.#anchor === undefined ? reanchorAt + 1n : wall - this.#anchor - monotonic
    if (apart > reanchorAt || -apart > reanchorAt) this.#anchor = wall - monotonic
    return this.#anchor! + monotonic
  }

  readonly currentTimeMillis = Effect.sync(() => this.currentTimeMillisUnsafe())
  readonly monotonicTimeNanos = Effect.sync(() => this.monotonicTimeNanosUnsafe())
  readonly currentTimeNanos = Effect.sync(() => this.currentTimeNanosUnsafe())

  sleep(duration: Duration.Duration): Effect.Effect<void> {
    const millis = Duration.toMillis(duration)
    if (millis <= 0) return Effect.yieldNow
    return Number.isFinite(millis)
      ? Effect.callback((resume) => Effect.sync(this.#timer(millis, () => resume(Effect.void))))
      : Effect.never
  }

  /** Runs a task after this many milliseconds by this clock. Returns a function that cancels it. */
  #timer(millis: number, run: () => void): () => void {
    const endsAt = this.#running + millis / this.#rate
    const ring = () => {
      const left = endsAt - this.#running
      if (left <= 0) run()
      else due = this.#world.after(left, ring, this.owner)
    }
    let due = this.#world.after(endsAt - this.#running, ring, this.owner)
    return () => {
      due.isCancelled = true
    }
  }
}
