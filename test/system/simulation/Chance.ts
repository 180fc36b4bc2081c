/** A seeded source of chance: the same seed gives the same decisions on any machine. */
import type { Random } from "effect/Random"

/** Numbers by the names of faults: probabilities, or mean times between two of them. */
export type Faults<K extends string> = Readonly<Record<K, number>>

/** Draws a number for each name, in their order. */
export const each = <K extends string>(keys: ReadonlyArray<K>, draw: () => number): Faults<K> =>
  Object.fromEntries(keys.map((key) => [key, draw()])) as Record<K, number>

/** One word from two, well mixed (the finalizer of MurmurHash3). */
const mix = (a: number, b: number): number => {
  let h = (a ^ Math.imul(b, 0x9e3779b1)) | 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) | 0
}

/** Chris Doty-Humphrey's sfc32. */
export class Chance {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: number) {
    this.#a = mix(seed | 0, 1)
    this.#b = mix(Math.floor(seed / 2 ** 32), 2)
    this.#c = mix(seed | 0, 3)
    for (let i = 0; i < 12; i++) this.next()
  }

  #word(): number {
    const t = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t | 0
    return t >>> 0
  }

  /** A number in [0, 1). */
  next(): number {
    return this.#word() / 2 ** 32
  }

  /** A whole number below `limit`. */
  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1)
  }

  /** Mostly near `least`, sometimes much more: the distribution of delays. */
  skewed(least: number, most: number): number {
    const share = this.next()
    return least + Math.floor((most - least) * share * share * share)
  }

  /** True with this probability. Draws no number if the probability is 0 or 1. */
  happens(probability: number): boolean {
    return probability > 0 && this.next() < probability
  }

  pick<A>(items: ReadonlyArray<A>): A {
    return items[this.below(items.length)]!
  }

  /** The same source as Effect's `Random`. */
  asRandom(): Random {
    return {
      nextDoubleUnsafe: () => this.next(),
      nextIntUnsafe: () => this.#word() * 2 ** 21 + (this.#word() >>> 11)
    }
  }
}
