/** The loops of worker and reconciler, one for each provider: they take due items, handle them concurrently, wait, and start again. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type { ProviderName } from "../domain/Grant.ts"
import type { RequestKind } from "../domain/ProviderLimit.ts"
import { passable } from "./providers/Circuit.ts"
import { logFailure } from "./submissionLog.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"

/**
 * The capacity of one process: how many items may be under way. A part is reserved for each poller, so that slow work of
 * one poller never takes all of another. The pollers share the rest, first come, first served.
 */
interface Capacity {
  readonly reserved: number
  readonly shared: number
  sharedUsed: number
}

/**
 * Reserves half of the capacity, in equal parts, at least one item for each poller. `validatePolicy` refuses a policy with more
 * pollers than items.
 */
export const makeCapacity = (items: number, pollers: number): Capacity => {
  const reserved = Math.max(1, Math.floor(items / (2 * Math.max(1, pollers))))
  return { reserved, shared: items - reserved * pollers, sharedUsed: 0 }
}

export interface PollerOptions<A, R> {
  readonly capacity: Capacity
  /** Most items under way at the same time in this poller. */
  readonly limit: number
  readonly pollInterval: Duration.Duration
  /** How many items may be taken now, at most `free`. */
  readonly allowance: (free: number) => Effect.Effect<number, never, R>
  /** Takes up to `limit` items. Never interrupted, so that every item taken is handled. */
  readonly take: (limit: number) => Effect.Effect<ReadonlyArray<A>, never, R>
  /**
   * Handles an item. `release` frees its capacity early: what is left of the item needs none. Of released items, those beyond `limit`
   * use capacity all the same.
   */
  readonly handle: (item: A, release: Effect.Effect<void>) => Effect.Effect<void, never, R>
  /**
   * Milliseconds to the next poll, if the allowance of the last one was smaller than the free capacity, and all of it was used.
   * Default: `pollInterval`.
   */
  readonly reopensIn?: () => number
}

export interface Poller {
  /** Starts the next poll at once. */
  readonly wake: Effect.Effect<void>
}

/** Milliseconds that free capacity waits for more of it, so that one poll can fill it all. */
const gathering = 10

/** Polls until its scope closes. Handlers run in `running`, and continue after the scope of the poller has closed. */
export const runPoller = Effect.fnUntraced(function*<A, R>(
  options: PollerOptions<A, R>,
  running: FiberSet.FiberSet<void, never>
): Effect.fn.Return<Poller, never, R | Scope.Scope> {
  const { capacity, limit } = options
  const wake = Latch.makeUnsafe(false)
  const hasFreeCapacity = Latch.makeUnsafe(false)
  // Items that were taken, or are about to be, and have not released their capacity.
  let holding = 0
  let released = 0
  // More items may be due than the last poll could take. The next poll starts as soon as enough capacity is free, or soon after the
  // first one.
  let isBehind = false
  // More items may be due than the allowance of the last poll. It may be larger soon.
  let isHeldBack = false
  const used = () => holding + Math.max(0, released - limit)
  const sharedInUse = () => Math.max(0, used() - capacity.reserved)
  const freeCapacity = () =>
    Math.min(limit - used(), Math.max(0, capacity.reserved - used()) + capacity.shared - capacity.sharedUsed)
  // At least half of the capacity that this poller can have now is free. Shared capacity of other pollers does not count,
  // because they may stay occupied for long.
  const isWorthwhile = () => freeCapacity() > 0 && freeCapacity() * 2 >= used() + freeCapacity()

  const count = (change: { readonly holding?: number; readonly released?: number }) => {
    const before = sharedInUse()
    holding += change.holding ?? 0
    released += change.released ?? 0
    capacity.sharedUsed += sharedInUse() - before
  }

  const wakeIfBehind = () => {
    if (!isBehind) return
    if (isWorthwhile()) wake.openUnsafe()
    else if (freeCapacity() > 0) hasFreeCapacity.openUnsafe()
  }

  const start = (item: A) => {
    let isReleased = false
    const release = Effect.sync(() => {
      if (isReleased) return
      isReleased = true
      count({ holding: -1, released: 1 })
      wakeIfBehind()
    })
    const finish = Effect.sync(() => {
      count(isReleased ? { released: -1 } : { holding: -1 })
      wakeIfBehind()
    })
    return FiberSet.run(running)(Effect.ensuring(options.handle(item, release), finish))
  }

  const poll = Effect.gen(function*() {
    wake.closeUnsafe()
    hasFreeCapacity.closeUnsafe()
    const free = freeCapacity()
    const allowed = free > 0 ? yield* options.allowance(free) : 0
    // Other pollers may have taken capacity meanwhile. Using it before `take` keeps the others from doing so.
    const asked = Math.max(0, Math.min(allowed, freeCapacity()))
    count({ holding: asked })
    const items = asked > 0 ? yield* options.take(asked) : []
    count({ holding: items.length - asked })
    yield* Effect.forEach(items, start, { discard: true })
    const isFull = items.length === asked
    isBehind = free <= 0 || (allowed === free && isFull)
    // Capacity that became free during this poll, when nothing was known to be behind.
    if (isBehind && freeCapacity() > 0) hasFreeCapacity.openUnsafe()
    isHeldBack = free > 0 && allowed < free && isFull
  })

  const pause = Effect.flatMap(Random.nextBetween(0.5, 1), (share) => {
    const interval = Duration.toMillis(options.pollInterval) * share
    const pause = isHeldBack ? Math.min(interval, options.reopensIn?.() ?? interval) : interval
    return Effect.raceAllFirst([
      wake.await,
      Effect.sleep(pause),
      Effect.andThen(hasFreeCapacity.await, Effect.sleep(gathering))
    ])
  })

  yield* Effect.forkScoped(
    Effect.forever(Effect.andThen(
      // A `CircuitBreaker` of the application may throw. The next poll may succeed.
      Effect.catchCause(
        Effect.uninterruptible(poll),
        (cause) => logFailure("Poll failed; the next poll tries again", cause)
      ),
      Effect.suspend(() => isBehind && isWorthwhile() ? Effect.yieldNow : pause)
    ))
  )
  return { wake: Effect.asVoid(wake.open) }
})

/** Work that exists for each provider: sending its operations, or reading their status. */
export interface ProviderTask<A> {
  readonly kind: RequestKind
  readonly take: (provider: ProviderName, limit: number) => Effect.Effect<ReadonlyArray<A>>
  /** Handles an item. `release` tells that its request has ended, and frees its capacity for the next one. */
  readonly handle: (item: A, release: Effect.Effect<void>) => Effect.Effect<void>
}

/**
 * Takes and handles up to `limit` items of a provider once, all at the same time. Yields their number when all are
 * done.
 */
export const runOnce = <A>({ handle, take }: ProviderTask<A>) =>
  Effect.fnUntraced(function*(provider: ProviderName, limit: number) {
    const items = yield* take(provider, limit)
    yield* Effect.forEach(items, (item) => handle(item, Effect.void), { concurrency: "unbounded", discard: true })
    return items.length
  })

/**
 * Starts one poller for each provider, and yields the pollers by provider. They share the capacity of the policy. A poller
 * takes no more items than the circuits of its provider let through, and than the limit of the provider has permits for.
 */
export const runPollers = Effect.fnUntraced(function*<A>(
  { breaker, policy, providers, requestPermits }: SubmissionServices,
  { handle, kind, take }: ProviderTask<A>,
  running: FiberSet.FiberSet<void, never>
) {
  const capacity = makeCapacity(policy.concurrency, providers.size)
  const pollers = yield* Effect.forEach(providers.keys(), (provider) => {
    let reopensIn = Infinity
    const allowance = Effect.fnUntraced(function*(free: number) {
      const calls = Math.min(free, yield* passable(breaker, provider, kind))
      const open = calls > 0 ? yield* requestPermits.open(provider, kind, calls) : null
      reopensIn = open === null || open.count >= calls ? Infinity : open.again
      return open === null ? 0 : Math.min(calls, open.count)
    })
    return Effect.map(
      runPoller({
        capacity,
        limit: policy.providerConcurrency,
        pollInterval: policy.pollInterval,
        allowance,
        reopensIn: () => reopensIn,
        take: (limit) => take(provider, limit),
        handle
      }, running),
      (poller) => [provider, poller] as const
    )
  })
  return new Map(pollers)
})
