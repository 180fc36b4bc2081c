/** The properties of a simulated provider, and the faults of the network to it. */
import type { ProviderLimit } from "../../../src/domain/ProviderLimit.ts"
import { each, type Faults } from "./Chance.ts"

const networkFaults = [
  "refused",
  /** The adapter fails before it connects, for a reason that an operator can repair. */
  "localFailure",
  /** The provider answers that it did nothing: it is busy, or the key is wrong. */
  "turnedAway",
  "slowConnection",
  "lostRequest",
  /** Bytes arrive seconds after they left, also if their sender no longer runs. */
  "lateRequest",
  "lostAnswer",
  "lateAnswer",
  /** A gateway answers in the provider's place, or the answer is unreadable. */
  "garbledAnswer",
  "adapterDefect",
  "unreachableRead",
  "unclearRead",
  "hangingRead",
  /** A replica that lags answers the read. */
  "staleRead",
  /** The provider answers with the status of another operation. */
  "foreignAnswer",
  "foreignRead"
] as const

/** Probabilities of faults of a submission and of a status read. */
export type NetworkFaults = Faults<typeof networkFaults[number]>
export const drawNetworkFaults = (draw: () => number): NetworkFaults => each(networkFaults, draw)
export const noNetworkFaults = drawNetworkFaults(() => 0)

/** The faults of a status read, in the order in which they are drawn. */
export const readFaults = [
  "unreachableRead",
  "unclearRead",
  "hangingRead",
  "adapterDefect",
  "staleRead",
  "foreignRead"
] as const

/** The properties of a provider. */
export interface Traits {
  readonly name: string
  /** Refuses requests that arrive after `send_before`. */
  readonly refusesLate: boolean
  /** The longest time until a read finds a received operation, in milliseconds. */
  readonly consistency: number
  /** The declared window after which "not found" is final. Only for providers that refuse late requests. */
  readonly window: number | null
  /** Share of operations that status reads never find. */
  readonly forgetful: number
  /** Whether its adapter has a fence. Only for providers that take late requests. */
  readonly fences: boolean
  /** How many requests it takes. */
  readonly limit?: ProviderLimit
  /**
   * Whether the judge counts the requests that arrive. Only where no fault delays a request beyond the slack of the limit, or
   * sets the clock of the database.
   */
  readonly isCounted?: true
}
