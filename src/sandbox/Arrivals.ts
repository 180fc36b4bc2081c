/**
 * When requests arrived: submissions and status reads, in the order of their heads. The sandbox keeps the last ones in memory,
 * and can turn requests away that are more than a provider takes.
 */
import { chance } from "./Chance.ts"
import type { Saying } from "./Dialect.ts"
import type { FaultSettings, Stage } from "./Faults.ts"

/** A request that arrived. */
export interface Arrival {
  readonly kind: Stage
  /** Milliseconds since 1970. */
  readonly at: number
  /** Whether the fault `too_many_requests` or `unauthorized` struck it. */
  readonly isTurnedAway: boolean
}

/** Most arrivals that are kept: the last ones. */
const mostKept = 100_000

export interface Arrivals {
  /** Notes a request. Returns what turns it away, or null. */
  readonly admit: (kind: Stage, at: number) => Saying | null
  /** The last arrivals, in order. */
  readonly all: () => ReadonlyArray<Arrival>
}

export const makeArrivals = (seed: string, faults: () => FaultSettings): Arrivals => {
  let arrivals: Array<Arrival> = []
  // The requests that were admitted in the last window.
  let admitted: Array<number> = []
  let count = 0

  const note = (arrival: Arrival) => {
    arrivals.push(arrival)
    if (arrivals.length >= 2 * mostKept) arrivals = arrivals.slice(-mostKept)
  }

  const admit = (kind: Stage, at: number): Saying | null => {
    const { too_many_requests: fault, unauthorized } = faults()
    if (chance(seed, "unauthorized", arrivals.length) < (unauthorized?.rate ?? 0)) {
      note({ kind, at, isTurnedAway: true })
      return { _tag: "Unauthorized" }
    }
    const { ms = 1000, requests = 50 } = fault ?? {}
    admitted = fault === undefined ? [] : admitted.filter((time) => time > at - ms)
    const isTurnedAway = fault !== undefined && admitted.length >= requests
      && chance(seed, "too_many_requests", ++count) < fault.rate
    note({ kind, at, isTurnedAway })
    if (fault === undefined) return null
    if (!isTurnedAway) {
      admitted.push(at)
      return null
    }
    const retryAfterSeconds = Math.max(1, Math.ceil((admitted[0]! + ms - at) / 1000))
    return { _tag: "TooManyRequests", retryAfterSeconds }
  }

  return { admit, all: () => arrivals.slice(-mostKept) }
}
