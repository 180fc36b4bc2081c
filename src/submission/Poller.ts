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
 * The places of one process. Some are reserved for each pump and stay free for it, so that slow work of one pump never
 * takes the last place of another. The pumps share the rest, first come, first served.
 */
export interface Room {
  /** Places for each pump alone. */
  readonly reserved: number
  /** Places for all of them. */
  readonly shared: number
  /** Shared places that are taken. */
  sharedUsed: number
}

/**
 * Reserves half of the places, in equal parts, at least one for each pump. `policyFault` refuses to run more pumps than
 * there are places.
 */
export const makeRoom = (places: number, pumps: number): Room => {
  const reserved = Math.max(1, Math.floor(places / (2 * Math.max(1, pumps))))
  return { reserved, shared: places - reserved * pumps, sharedUsed: 0 }
}

export interface PumpOptions<A, R> {
  readonly room: Room
  /** Items at the same time in this pump. */
  readonly limit: number
  readonly pollInterval: Duration.Duration
  /** How many may be taken now, of those for which there is room. */
  readonly allowance: (room: number) => Effect.Effect<number, never, R>
  /** Takes up to so many items. Never interrupted: what was taken is handled. */
  readonly take: (limit: number) => Effect.Effect<ReadonlyArray<A>, never, R>
  readonly handle: (item: A) => Effect.Effect<void, never, R>
}

export interface Pump {
  /** Lets the pump look at once. */
  readonly wake: Effect.Effect<void>
}

/**
 * Runs for as long as its scope is open. Handlers run in `running`, and go on when the scope of the pump closes.
 */
export const runPump = Effect.fnUntraced(function*<A, R>(
  options: PumpOptions<A, R>,
  running: FiberSet.FiberSet<void, never>
): Effect.fn.Return<Pump, never, R | Scope.Scope> {
  const { limit, room } = options
  const wake = Latch.makeUnsafe(false)
  let used = 0
  // There was perhaps more than could be taken: it is looked for as soon as there is room for a batch.
  let isBehind = false
  const beyondReserve = () => Math.max(0, used - room.reserved)
  const roomLeft = () => Math.min(limit - used, Math.max(0, room.reserved - used) + room.shared - room.sharedUsed)
  // A quarter of what this pump can have while others keep their shared places, which may be for long.
  const isWorthwhile = () => roomLeft() > 0 && roomLeft() * 4 >= used + roomLeft()

  const occupy = (count: number) => {
    const before = beyondReserve()
    used += count
    room.sharedUsed += beyondReserve() - before
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
    const left = roomLeft()
    const allowed = left > 0 ? yield* options.allowance(left) : 0
    // Other pumps took room meanwhile, and may not take that of what is being asked for.
    const asked = Math.max(0, Math.min(allowed, roomLeft()))
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
