/**
 * When requests arrived: submissions and status reads, in the order of their heads. The sandbox keeps the last ones in memory,
 * and can turn requests away that are more than a provider takes.
 */
import { jsonAnswer } from "./Answer.ts"
import type { Answer } from "./Answer.ts"
import { chance } from "./Chance.ts"
import { type FaultSettings, type Stage } from "./Faults.ts"
import type { SandboxProblem } from "./Protocol.ts"

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
  /** Notes a request. Returns the answer that turns it away, or null. */
  readonly admit: (kind: Stage, at: number) => Answer | null
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

  const admit = (kind: Stage, at: number): Answer | null => {
    const { too_many_requests: fault, unauthorized } = faults()
    if (chance(seed, "unauthorized", arrivals.length) < (unauthorized?.rate ?? 0)) {
      note({ kind, at, isTurnedAway: true })
      return jsonAnswer<SandboxProblem>(401, {
        code: "unauthorized",
        message: "Unknown credentials; nothing was carried out"
      })
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
    const seconds = Math.max(1, Math.ceil((admitted[0]! + ms - at) / 1000))
    return {
      ...jsonAnswer<SandboxProblem>(429, {
        code: "too_many_requests",
        message: "Too many requests; nothing was carried out"
      }),
      headers: { "retry-after": String(seconds) }
    }
  }

  return { admit, all: () => arrivals.slice(-mostKept) }
}
