/** The faults of a run, and their shares. */
import { type NetworkFault, networkFaults } from "../../../fixtures/processes/Proxy.ts"
import { type Dice, shuffle } from "../kit/Dice.ts"
import { type Blow, blows, type CrashPoint, crashPoints } from "../kit/Plan.ts"

/** The two ends of a network that fails. */
export type Link = "worker_database" | "worker_sandbox" | "client_database"

export type Fault =
  | { readonly kind: "crash_point"; readonly point: CrashPoint; readonly blow: Blow }
  /** SIGKILL, SIGSTOP and SIGTERM to a worker, at any point of its work. */
  | { readonly kind: "kill" | "stop" | "terminate" }
  /** SIGKILL to the process, and a restart on the same data. */
  | { readonly kind: "postgres_crash" | "sandbox_crash" }
  | { readonly kind: "network"; readonly link: Link; readonly fault: NetworkFault }

/** The name of a fault in reports. */
export const nameOf = (fault: Fault): string => {
  switch (fault.kind) {
    case "crash_point":
      return `${fault.blow} ${fault.point}`
    case "network":
      return `${fault.fault} ${fault.link}`
    default:
      return fault.kind
  }
}

const atCrashPoints: ReadonlyArray<Fault> = crashPoints.flatMap((point) =>
  blows.map((blow) => ({ kind: "crash_point", point, blow }) as const)
)

const ofNetwork = (link: Link): ReadonlyArray<Fault> =>
  networkFaults.map((fault) => ({ kind: "network", link, fault }) as const)

/** Shares of all faults, and the faults that fill each share in turn. The rest are faults of the network. */
const shares: ReadonlyArray<readonly [share: number, faults: ReadonlyArray<Fault>]> = [
  [0.2, atCrashPoints],
  [0.05, [{ kind: "kill" }]],
  [0.06, [{ kind: "stop" }]],
  [0.02, [{ kind: "terminate" }]],
  [0.02, [{ kind: "postgres_crash" }]],
  [0.01, [{ kind: "sandbox_crash" }]]
]

const onTheNetwork = (["worker_database", "worker_sandbox", "worker_sandbox", "client_database"] as const)
  .flatMap(ofNetwork)

const deal = (count: number, faults: ReadonlyArray<Fault>) =>
  Array.from({ length: Math.max(0, count) }, (_, n) => faults[n % faults.length]!)

/**
 * `count` faults in an order drawn by the dice. For any number, every crash point with each blow is among them,
 * and each way to strike a process.
 */
export const dealFaults = (count: number, dice: Dice): Array<Fault> => {
  const struck = shares.flatMap(([share, faults]) => deal(Math.max(faults.length, Math.round(share * count)), faults))
  return shuffle([...struck, ...deal(count - struck.length, onTheNetwork)], dice)
}
