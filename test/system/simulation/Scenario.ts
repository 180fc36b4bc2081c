/**
 * The scenario of a seed: the number of processes and operations, and which faults strike how often. Each seed has only
 * a few kinds of faults, because faults hide one another.
 */
import * as Duration from "effect/Duration"
import { readDelay } from "../../../src/domain/Submission.ts"
import { defaultPolicy } from "../../../src/submission/SubmissionPolicy.ts"
import { type Chance, each } from "./Chance.ts"
import { drawMishaps, forgottenClaims, type Mishaps } from "./Circumstances.ts"
import { drawNetworkFaults, type NetworkFaults, type Traits } from "./ProviderTraits.ts"
import { type DatabaseFaults, databaseFaults } from "./SimulatedDatabase.ts"
import { type WitnessFaults, witnessFaults } from "./SimulatedWitness.ts"

/** Short times, so that a run is short. */
const patient: Policy = {
  ...defaultPolicy,
  concurrency: 3,
  providerConcurrency: 2,
  sendWithin: Duration.millis(2000),
  attemptTimeout: Duration.millis(1500),
  retryDelay: Duration.millis(150),
  returnDelay: Duration.millis(500),
  rescueAfter: Duration.millis(4000),
  readTimeout: Duration.millis(1000),
  readSchedule: { first: Duration.millis(500), factor: 2, longest: Duration.seconds(4), jitter: 0.2 },
  hintInterval: Duration.millis(700),
  idle: Duration.seconds(3),
  pollInterval: Duration.seconds(5),
  rescueInterval: Duration.seconds(3),
  drainTimeout: Duration.millis(800),
  storeTimeout: Duration.millis(400),
  prepareTimeout: Duration.millis(400),
  reviewAfter: { accepted: Duration.seconds(5), submitted: Duration.seconds(8), indeterminate: Duration.seconds(5) }
}

/** The proportions of the default policy: it polls often, and gives up late. */
const eager: Policy = {
  ...patient,
  sendWithin: Duration.millis(5000),
  rescueAfter: Duration.millis(8000),
  pollInterval: Duration.millis(400),
  rescueInterval: Duration.millis(500)
}

export type Policy = typeof defaultPolicy

/** The longest time after a claim in which it may be sent, in milliseconds, by a clock of another speed. */
export const longestSend = ({ attemptTimeout, sendWithin }: Policy): number =>
  (Duration.toMillis(sendWithin) + Duration.toMillis(attemptTimeout)) * 1.05 + 10

/** The longest time after revoked consent in which an attempt may start, in milliseconds, by a clock of another speed. */
export const longestIgnorance = ({ storeTimeout }: Policy): number => Duration.toMillis(storeTimeout) * 1.05 + 10

/** The longest delay that a schedule gives an operation, in milliseconds by the clock of the database. */
export const longestDelay = (policy: Policy): number =>
  Math.max(
    readDelay(policy.readSchedule, 1000, 1),
    Duration.toMillis(policy.rescueAfter),
    Duration.toMillis(policy.idle),
    Duration.toMillis(policy.returnDelay),
    Duration.toMillis(policy.readTimeout) + 2 * Duration.toMillis(policy.storeTimeout)
  )

export interface Scenario {
  readonly policy: Policy
  readonly processes: number
  readonly operations: number
  readonly accounts: number
  /** Share of the accounts whose grants have limits. */
  readonly limitedGrants: number
  readonly providers: ReadonlyArray<Traits>
  /** When faults end, in milliseconds. */
  readonly calmAt: number
  readonly database: DatabaseFaults
  readonly network: NetworkFaults
  readonly mishaps: Mishaps
  /** Mean milliseconds between persons who ask a provider about a fenced operation, and record the answer later; `Infinity` for none. */
  readonly asks: number
  /** Share of acceptances whose announcement is lost. */
  readonly lostAnnouncements: number
  /** The largest error of a clock, in milliseconds. */
  readonly skew: number
  /** The share by which clocks run faster or slower. */
  readonly drift: number
  /**
   * Whether a failover loses acknowledged commits. Held operations are still released, by evidence and by
   * operators. The simulation leaves out cases that no fence can prevent:
   * - Operators who release a sent operation: they check the provider's record first. They release all operations if
   *   no commit was lost. If the clock of the database is set, they wait by their own clock.
   * - Snapshots that workers reach before an operator has held all operations: PostgreSQL cannot notice a restore.
   * - Providers whose "not found" is final although their clocks or the workers' differ by more than declared,
   *   or that accept late requests: then "not found" is no evidence, with or without a failover.
   * - Lost acceptances: their operation no longer exists, and the same request creates another one.
   */
  readonly forgets: boolean
  /** Share of claims that a failover loses while their holder is stopped. */
  readonly forgottenClaims: number
  /** Whether the run continues, at its end, without a process that could act on the remaining operations. */
  readonly endsInOutage: boolean
  /** Whether a restarted process has the worker id of the one that ended. */
  readonly hasWorkerIds: boolean
  readonly opsBeforeYield: number
  /** Whether the workers have a witness. Then no operator holds all operations after a snapshot was restored. */
  readonly hasWitness: boolean
  readonly witness: WitnessFaults
  /** Share of failovers that leave the old server behind, with some of the processes. Only with a witness. */
  readonly leftBehind: number
  /** Share of these servers that become the primary again, on their old timeline. */
  readonly backAgain: number
}

/** Some seeds are for situations that need several rare faults in a row. */
export const drawScenario = (chance: Chance): Scenario => {
  const scenario = drawCommonScenario(chance)
  if (!chance.happens(0.02)) return scenario
  return forgottenClaims(
    scenario,
    chance.happens(0.7) ? { slowConnection: 0.9, refused: chance.pick([0.3, 0.5]) } : { lateRequest: 0.8 }
  )
}

const drawCommonScenario = (chance: Chance): Scenario => {
  const appetite = chance.pick([0.15, 0.3, 0.45])
  const share = () => chance.happens(appetite) ? chance.pick([0.05, 0.2, 0.5]) : 0
  const mean = () => chance.happens(appetite) ? chance.pick([1500, 4000]) : Infinity
  const isExact = chance.happens(0.5)
  const mishaps = drawMishaps(mean)
  const forgets = mishaps.failover < Infinity && chance.happens(0.7)
  const skew = isExact ? chance.pick([0, 20, 150]) : chance.pick([1000, 2400, 3_600_000])
  const traits = (name: string): Traits => {
    const refusesLate = chance.happens(isExact ? 0.7 : 0.1)
    const consistency = chance.pick([20, 300, 2000])
    return {
      name,
      refusesLate,
      consistency,
      // Twice the greatest difference between two clocks, which is twice the error of one clock.
      window: refusesLate && isExact && chance.happens(0.7) ? consistency + 4 * skew + 10 : null,
      forgetful: 0,
      fences: false
    }
  }
  const providers = ["bank", "broker"].slice(0, chance.pick([1, 1, 1, 1, 2])).map(traits)
  return {
    policy: chance.happens(0.04) ? eager : patient,
    processes: chance.pick([2, 2, 2, 2, 2, 2, 2, 2, 2, 3]),
    operations: chance.pick([2, 3, 3, 3, 4, 5]),
    accounts: chance.between(1, 2),
    limitedGrants: 0.3,
    providers: providers.map((provider) =>
      provider.window === null && chance.happens(0.3) ? { ...provider, forgetful: 0.5 } : provider
    ),
    calmAt: chance.between(2000, 4500),
    database: each(databaseFaults, share),
    network: drawNetworkFaults(share),
    mishaps,
    asks: Infinity,
    lostAnnouncements: share() * 2,
    skew,
    drift: isExact ? 0 : chance.pick([0, 0.02]),
    forgets,
    forgottenClaims: 0,
    endsInOutage: chance.happens(0.04),
    hasWorkerIds: chance.happens(0.5),
    opsBeforeYield: chance.pick([2048, 2048, 2048, 2048, 2048, 2048, 2048, 60, 30, 7]),
    hasWitness: chance.happens(0.3),
    witness: each(witnessFaults, share),
    leftBehind: chance.happens(0.5) ? 0.6 : 0,
    backAgain: 0.25
  }
}
