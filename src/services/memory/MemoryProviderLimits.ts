/**
 * Provider limits in memory. Each reservation is one synchronous step.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import { longestRetryAfter, type PermitDemand, type PermitTerms } from "../../domain/ProviderLimit.ts"
import { sharePermits, stateAfter, toPermits, unusedLimit, wasSetBack } from "../rules/providerPermits.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"

/** Microseconds. */
const longestPause = Duration.toMillis(longestRetryAfter) * 1000

export const makeProviderLimits = ({ memory: { limits }, millis }: MemoryQueueTable) => {
  const stateOf = (provider: ProviderName) => limits.get(provider) ?? unusedLimit
  const sharesOf = (provider: ProviderName, demand: PermitDemand, terms: PermitTerms, now: number) =>
    sharePermits(stateOf(provider), demand, terms, now, longestPause)

  const reservePermits = (provider: ProviderName, demand: PermitDemand, terms: PermitTerms) =>
    Effect.sync(() => {
      const now = millis() * 1000
      const shares = sharesOf(provider, demand, terms, now)
      limits.set(provider, stateAfter(stateOf(provider), shares, terms, now))
      return toPermits(shares, terms)
    })

  const openPermits = (provider: ProviderName, demand: PermitDemand, terms: PermitTerms) =>
    Effect.suspend(() => {
      const now = millis() * 1000
      const permits = toPermits(sharesOf(provider, demand, terms, now), terms)
      const back = wasSetBack(stateOf(provider), terms, now, longestPause)
      return back
        ? Effect.as(reservePermits(provider, { submissions: 0, reads: 0 }, terms), permits)
        : Effect.succeed(permits)
    })

  const closeProvider = (provider: ProviderName, pause: Duration.Duration) =>
    Effect.sync(() => {
      const state = stateOf(provider)
      const until = millis() * 1000 + Math.min(Duration.toMillis(pause) * 1000, longestPause)
      limits.set(provider, { ...state, closed_until: Math.max(state.closed_until, until) })
    })

  return { reservePermits, openPermits, closeProvider }
}
