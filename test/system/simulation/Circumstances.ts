/** Mixtures of faults in which certain mistakes show soon. Most have no limits of grants, which would refuse operations that they need. */
import * as Duration from "effect/Duration"
import { each, type Faults } from "./Chance.ts"
import { type NetworkFaults, noNetworkFaults } from "./ProviderTraits.ts"
import type { Scenario } from "./Scenario.ts"
import { noDatabaseFaults } from "./SimulatedDatabase.ts"
import { noWitnessFaults } from "./SimulatedWitness.ts"

const mishaps = [
  "crash",
  "pause",
  "drain",
  "databaseRestart",
  "failover",
  "clockStep",
  "standingChange",
  "operator",
  "hint"
] as const

/** Mean milliseconds between faults of one kind; `Infinity` for none. */
export type Mishaps = Faults<typeof mishaps[number]>
export const drawMishaps = (draw: () => number): Mishaps => each(mishaps, draw)

const nothing = () => drawMishaps(() => Infinity)

/** Failovers that lose commits, and operators who act often. */
export const forgetful = (scenario: Scenario): Scenario => ({
  ...scenario,
  limitedGrants: 0,
  hasWitness: false,
  forgets: true,
  mishaps: { ...scenario.mishaps, failover: 1500, operator: 500 }
})

/**
 * Claims that a failover loses, that are found unsent and claimed again, while their first holder still has them.
 * There are no other faults, and clocks are exact: the situation is then frequent.
 */
export const forgottenClaims = (scenario: Scenario, network: Partial<NetworkFaults>): Scenario => ({
  ...scenario,
  limitedGrants: 0,
  hasWitness: false,
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
    fences: false,
    forgetful: 0,
    consistency: 20,
    window: 30
  })),
  database: noDatabaseFaults,
  network: { ...noNetworkFaults, ...network },
  mishaps: nothing()
})

/**
 * Four workers that use up the limit of a provider, and crash often. There are no other faults, and clocks are exact: then no
 * request takes longer to its provider than the slack of the limit.
 */
export const limited = (scenario: Scenario): Scenario => ({
  ...scenario,
  limitedGrants: 0,
  policy: { ...scenario.policy, concurrency: 16, providerConcurrency: 8, pollInterval: Duration.millis(400) },
  processes: 4,
  operations: 40,
  calmAt: 12_000,
  skew: 0,
  drift: 0,
  forgets: false,
  hasWitness: false,
  forgottenClaims: 0,
  endsInOutage: false,
  providers: scenario.providers.map((provider) => ({
    ...provider,
    isCounted: true as const,
    limit: { requests: 5, interval: "1 second" as const }
  })),
  database: noDatabaseFaults,
  network: noNetworkFaults,
  mishaps: { ...nothing(), crash: 1000 }
})

/** The faults of a seed, at providers whose adapters have a fence if "not found" is never final there. Requests get lost more often. */
export const withFences = (scenario: Scenario): Scenario => ({
  ...scenario,
  network: { ...scenario.network, lostRequest: Math.max(0.2, scenario.network.lostRequest) },
  providers: scenario.providers.map((provider) =>
    provider.window === null ? { ...provider, refusesLate: false, fences: true } : provider
  )
})

/** Requests that get lost or arrive seconds later, at a provider whose adapter has a fence. There are no other faults. */
export const fenced = (scenario: Scenario): Scenario => ({
  ...scenario,
  limitedGrants: 0,
  skew: 0,
  drift: 0,
  forgets: false,
  hasWitness: false,
  operations: 5,
  calmAt: 25_000,
  providers: scenario.providers.map((provider) => ({
    ...provider,
    refusesLate: false,
    forgetful: 0,
    consistency: 20,
    window: null,
    fences: true
  })),
  database: noDatabaseFaults,
  network: { ...noNetworkFaults, lostRequest: 0.5, lateRequest: 0.3, lostAnswer: 0.3 },
  mishaps: nothing()
})

/** The same, while persons ask the provider, and record its answer up to many fences later. Most orders of fences stay uncancelled at first. */
export const asked = (scenario: Scenario): Scenario => ({
  ...fenced(scenario),
  // An answer counts a minute after the last fence, so fences are rare enough.
  policy: { ...scenario.policy, readSchedule: { ...scenario.policy.readSchedule, longest: Duration.minutes(3) } },
  calmAt: 300_000,
  asks: 2000,
  network: { ...noNetworkFaults, lostRequest: 0.7, lateRequest: 0.3, lostAnswer: 0.5 }
})

/**
 * Failovers that often lose commits and leave the old server behind, processes that stop at any point, and a witness. Providers find
 * no operation, and no operator acts: only the witness releases.
 */
export const witnessed = (scenario: Scenario, changes: Partial<Scenario> = {}): Scenario => ({
  ...scenario,
  limitedGrants: 0,
  // A backlog: operations are accepted for a while before a worker claims them.
  policy: { ...scenario.policy, pollInterval: Duration.millis(2000) },
  lostAnnouncements: 1,
  forgets: true,
  forgottenClaims: 0.2,
  skew: 0,
  drift: 0,
  processes: 3,
  operations: 24,
  calmAt: 15_000,
  endsInOutage: false,
  hasWitness: true,
  witness: noWitnessFaults,
  leftBehind: 0.7,
  providers: scenario.providers.map((provider) => ({
    ...provider,
    refusesLate: false,
    forgetful: 1,
    consistency: 20,
    window: null
  })),
  database: noDatabaseFaults,
  network: { ...noNetworkFaults, localFailure: 0.15 },
  mishaps: { ...nothing(), failover: 2500, pause: 3000 },
  ...changes
})

/** Many requests under grants with limits, of which some succeed, some stay uncertain, and some fail or are cancelled by operators. */
export const spending = (scenario: Scenario): Scenario => ({
  ...scenario,
  accounts: 1,
  limitedGrants: 1,
  operations: 12,
  network: { ...scenario.network, lostAnswer: 0.3 },
  mishaps: { ...scenario.mishaps, operator: 500 }
})
