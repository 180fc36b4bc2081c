/**
 * Provider limits in memory. Each reservation is one synchronous step.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import { longestRetryAfter, type SlotDemand, type SlotTerms } from "../../domain/ProviderLimit.ts"
import { shareSlots, stateAfter, toSlots, unusedLimit, wasSetBack } from "../rules/providerSlots.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"

/** Microseconds. */
const longestPause = Duration.toMillis(longestRetryAfter) * 1000

export const makeProviderLimits = ({ memory: { limits }, millis }: MemoryQueueTable) => {
  const stateOf = (provider: ProviderName) => limits.get(provider) ?? unusedLimit
  const sharesOf = (provider: ProviderName, demand: SlotDemand, terms: SlotTerms, now: number) =>
    shareSlots(stateOf(provider), demand, terms, now, longestPause)

  const reserveSlots = (provider: ProviderName, demand: SlotDemand, terms: SlotTerms) =>
    Effect.sync(() => {
      const now = millis() * 1000
      const shares = sharesOf(provider, demand, terms, now)
      limits.set(provider, stateAfter(stateOf(provider), shares, terms, now))
      return toSlots(shares, terms)
    })

  const openSlots = (provider: ProviderName, demand: SlotDemand, terms: SlotTerms) =>
    Effect.suspend(() => {
      const now = millis() * 1000
      const slots = toSlots(sharesOf(provider, demand, terms, now), terms)
      const back = wasSetBack(stateOf(provider), terms, now, longestPause)
      return back
        ? Effect.as(reserveSlots(provider, { submissions: 0, reads: 0 }, terms), slots)
        : Effect.succeed(slots)
    })

  const closeProvider = (provider: ProviderName, pause: Duration.Duration) =>
    Effect.sync(() => {
      const state = stateOf(provider)
      const until = millis() * 1000 + Math.min(Duration.toMillis(pause) * 1000, longestPause)
      limits.set(provider, { ...state, closed_until: Math.max(state.closed_until, until) })
    })

  return { reserveSlots, openSlots, closeProvider }
}
