/**
 * Faults in such a mixture that certain mistakes show soon.
 */
import * as Duration from "effect/Duration"
import type { Scenario } from "./Scenario.ts"
import { noDatabaseFaults } from "./SimulatedDatabase.ts"
import { type NetworkFaults, noNetworkFaults } from "./SimulatedProvider.ts"

const nothing: Scenario["mishaps"] = {
  crash: Infinity,
  pause: Infinity,
  drain: Infinity,
  databaseRestart: Infinity,
  failover: Infinity,
  clockStep: Infinity,
  withdrawal: Infinity,
  operator: Infinity
}

/** Failovers that forget, and operators who are busy. */
export const forgetful = (scenario: Scenario): Scenario => ({
  ...scenario,
  forgets: true,
  mishaps: { ...scenario.mishaps, failover: 1500, operator: 500 }
})

/**
 * Claims that are forgotten, found not to have been sent and claimed again, while their first holder still has them.
 * Nothing else strikes, and clocks are exact, so that this happens often.
 */
export const forgottenClaims = (scenario: Scenario, network: Partial<NetworkFaults>): Scenario => ({
  ...scenario,
  forgets: true,
  forgottenClaims: 0.5,
  skew: 0,
  drift: 0,
  processes: 3,
  operations: 6,
  calmAt: 15_000,
  providers: scenario.providers.map((provider) => ({
    ...provider,
    refusesLate: true,
    forgetful: 0,
    consistency: 20,
    window: 30
  })),
  database: noDatabaseFaults,
  network: { ...noNetworkFaults, ...network },
  mishaps: nothing
})

/** The same with a provider that finds nothing, so that only operators release anything; they are busy, as workers are. */
export const forgottenAndUnfindable = (scenario: Scenario, network: Partial<NetworkFaults>): Scenario => {
  const { mishaps, providers, ...others } = forgottenClaims(scenario, network)
  return {
    ...others,
    policy: { ...others.policy, pollInterval: Duration.millis(400) },
    providers: providers.map((provider) => ({ ...provider, forgetful: 1, window: null })),
    mishaps: { ...mishaps, operator: 200 }
  }
}
