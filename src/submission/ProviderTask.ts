import * as Effect from "effect/Effect"
import type * as FiberSet from "effect/FiberSet"
import type { ProviderName } from "../domain/Grant.ts"
import type { RequestKind } from "../domain/ProviderLimit.ts"
import { makeCapacity, runPoller } from "./Poller.ts"
import { passable } from "./providers/Circuit.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"

/** Work that exists for each provider: sending its operations, or reading their status. */
export interface ProviderTask<A> {
  /** What the work asks its providers for. */
  readonly kind: RequestKind
  /** Takes up to `limit` items of a provider from the store. */
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
 * takes no more items than the circuit of its provider lets through, and than the limit of the provider has permits for.
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
      const calls = Math.min(free, yield* passable(breaker, provider))
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
