/**
 * The loop that worker and reconciler share: take what is due, handle it concurrently, wait, and do so again.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import { logFailure } from "./logFailure.ts"

/**
 * The slots of one process. Some are reserved for each poller and stay free for it, so that slow work of one poller never
 * takes the last slot of another. The pollers share the rest, first come, first served.
 */
export interface Slots {
  /** Places for each poller alone. */
  readonly reserved: number
  /** Places for all of them. */
  readonly shared: number
  /** Shared slots that are taken. */
  sharedUsed: number
}

/**
 * Reserves half of the slots, in equal parts, at least one for each poller. `validatePolicy` refuses to run more pollers than
 * there are slots.
 */
export const makeSlots = (slots: number, pollers: number): Slots => {
  const reserved = Math.max(1, Math.floor(slots / (2 * Math.max(1, pollers))))
  return { reserved, shared: slots - reserved * pollers, sharedUsed: 0 }
}

export interface PollerOptions<A, R> {
  readonly slots: Slots
  /** Items at the same time in this poller. */
  readonly limit: number
  readonly pollInterval: Duration.Duration
  /** How many may be taken now, of those for which there is slots. */
  readonly allowance: (slots: number) => Effect.Effect<number, never, R>
  /** Takes up to so many items. Never interrupted: what was taken is handled. */
  readonly take: (limit: number) => Effect.Effect<ReadonlyArray<A>, never, R>
  readonly handle: (item: A) => Effect.Effect<void, never, R>
}

export interface Poller {
  /** Lets the poller look at once. */
  readonly wake: Effect.Effect<void>
}

/**
 * Runs for as long as its scope is open. Handlers run in `running`, and go on when the scope of the poller closes.
 */
export const runPoller = Effect.fnUntraced(function*<A, R>(
  options: PollerOptions<A, R>,
  running: FiberSet.FiberSet<void, never>
): Effect.fn.Return<Poller, never, R | Scope.Scope> {
  const { limit, slots } = options
  const wake = Latch.makeUnsafe(false)
  let used = 0
  // There was perhaps more than could be taken: it is looked for as soon as there is slots for a batch.
  let isBehind = false
  const beyondReserve = () => Math.max(0, used - slots.reserved)
  const freeSlots = () => Math.min(limit - used, Math.max(0, slots.reserved - used) + slots.shared - slots.sharedUsed)
  // A quarter of what this poller can have while others keep their shared slots, which may be for long.
  const isWorthwhile = () => freeSlots() > 0 && freeSlots() * 4 >= used + freeSlots()

  const occupy = (count: number) => {
    const before = beyondReserve()
    used += count
    slots.sharedUsed += beyondReserve() - before
  }

  const start = (item: A) => {
    const finish = Effect.sync(() => {
      occupy(-1)
      if (isBehind && isWorthwhile()) wake.openUnsafe()
    })
    return FiberSet.run(running)(Effect.ensuring(options.handle(item), finish))
  }

  const turn = Effect.gen(function*() {
    wake.closeUnsafe()
    const left = freeSlots()
    const allowed = left > 0 ? yield* options.allowance(left) : 0
    // Other pollers took slots meanwhile, and may not take that of what is being asked for.
    const asked = Math.max(0, Math.min(allowed, freeSlots()))
    occupy(asked)
    const items = asked > 0 ? yield* options.take(asked) : []
    occupy(items.length - asked)
    yield* Effect.forEach(items, start, { discard: true })
    isBehind = left <= 0 || (allowed === left && items.length === asked)
  })

  const pause = Effect.flatMap(
    Random.nextBetween(0.5, 1),
    (share) => Effect.raceFirst(Effect.sleep(Duration.times(options.pollInterval, share)), wake.await)
  )

  yield* Effect.forkScoped(
    Effect.forever(Effect.andThen(
      // A circuit of somebody else's may fail in ways of its own. The next turn may go well.
      Effect.catchCause(Effect.uninterruptible(turn), (cause) => logFailure("A turn went wrong", cause)),
      Effect.suspend(() => isBehind && isWorthwhile() ? Effect.yieldNow : pause)
    ))
  )
  return { wake: Effect.asVoid(wake.open) }
})
