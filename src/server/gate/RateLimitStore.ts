/**
 * A store for rate limiters that holds a bounded number of keys.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerStoreMemory, RateLimiterStore } from "effect/persistence/RateLimiter"

interface Bucket {
  tokens: number
  lastRefill: number
}

/** Keys in one generation. Two generations of buckets with keys of 500 characters take 40 MiB. */
export const maxKeys = 16_384

/**
 * A bounded map. Recently used keys are in the younger generation. When that is full, it becomes the older generation,
 * and the previous older generation is dropped. A use costs one look-up as a rule. An entry is written once for each
 * key and generation, not for each request.
 */
export class Generations<Value> {
  readonly #maxKeys: number
  #younger = new Map<string, Value>()
  #older = new Map<string, Value>()

  /** Holds at most twice `maxKeys` keys. The `maxKeys` most recently used keys are never dropped. */
  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#younger.size + this.#older.size
  }

  get(key: string, make: () => Value): Value {
    const known = this.#younger.get(key)
    if (known !== undefined) return known
    const value = this.#older.get(key) ?? make()
    if (this.#younger.size >= this.#maxKeys) {
      this.#older = this.#younger
      this.#younger = new Map()
    }
    this.#younger.set(key, value)
    this.#older.delete(key)
    return value
  }
}

/**
 * A store in the memory of this process with bounded size. Effect's own store keeps every key for ever. A dropped
 * bucket counts as full, so a client that uses more keys than the store holds gains nothing over using new keys. A
 * charge of negative tokens gives tokens back, up to the limit. Counters and adaptive limits use Effect's store, and
 * are unbounded.
 */
export const layerStoreBounded = (maxKeys: number): Layer.Layer<RateLimiterStore> =>
  Layer.effect(
    RateLimiterStore,
    Effect.map(RateLimiterStore, (store) => {
      const buckets = new Generations<Bucket>(maxKeys)
      return RateLimiterStore.of({
        ...store,
        tokenBucket: ({ allowOverflow, key, limit, refillRate, tokens }) =>
          Effect.clockWith((clock) => {
            const now = clock.currentTimeMillisUnsafe()
            const interval = Duration.toMillis(refillRate)
            const bucket = buckets.get(key, () => ({ tokens: limit, lastRefill: now }))
            // A clock that was set back would stop the refill until it catches up.
            if (now < bucket.lastRefill) bucket.lastRefill = now
            const refilled = Math.floor((now - bucket.lastRefill) / interval)
            if (refilled > 0) {
              bucket.tokens = Math.min(limit, bucket.tokens + refilled)
              bucket.lastRefill += refilled * interval
            }
            if (bucket.tokens >= limit) bucket.lastRefill = now
            const left = Math.min(limit, bucket.tokens - tokens)
            if (left >= 0 || allowOverflow) bucket.tokens = left
            return Effect.succeed([left, Math.max(0, now - bucket.lastRefill)] as const)
          })
      })
    })
  ).pipe(Layer.provide(layerStoreMemory))
