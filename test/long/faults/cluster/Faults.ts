/** Which faults a run has, in which order. */
import { type Dice, shuffle } from "../kit/Dice.ts"
import { type FaultKind, faultKinds } from "./Plan.ts"

export interface Fault {
  readonly kind: Exclude<FaultKind, "pair">
  /** Begins at the same time. */
  readonly second?: Fault["kind"]
}

/** Pairs that leave a cluster which can heal by itself. The first one strikes the primary. */
const pairs: ReadonlyArray<readonly [first: Fault["kind"], second: Fault["kind"]]> = [
  ["kill_node", "slow_links"],
  ["cut", "kill_backend"],
  ["freeze", "kill_standby"],
  ["kill_postmaster", "etcd_down"],
  ["one_way", "clock_jump"],
  ["switchover", "slow_links"],
  ["cancel_waits", "kill_standby"],
  ["kill_node", "kill_standby"],
  ["freeze", "clock_jump"],
  ["cut", "etcd_down"]
]

/** `count` faults: each kind once in an order drawn by the dice, then again in another order. */
export const dealFaults = (count: number, kinds: ReadonlyArray<FaultKind>, dice: Dice): ReadonlyArray<Fault> => {
  const of = kinds.length > 0 ? kinds : faultKinds
  let dealtPairs = shuffle(pairs, dice)
  const draw = (kind: FaultKind): Fault => {
    if (kind !== "pair") return { kind }
    const [first, second] = dealtPairs.shift()!
    if (dealtPairs.length === 0) dealtPairs = shuffle(pairs, dice)
    return { kind: first, second }
  }
  const faults: Array<Fault> = []
  while (faults.length < count) faults.push(...shuffle(of, dice).map(draw))
  return faults.slice(0, count)
}

export const nameOf = ({ kind, second }: Fault): string => second === undefined ? kind : `${kind} + ${second}`

/** Whether two nodes and etcd could work together during the fault, and Patroni may promote the standby. */
export const leavesMajority = ({ kind, second }: Fault): boolean =>
  kind !== "etcd_down" && second !== "etcd_down" && !(second === "kill_standby" && kind !== "kill_backend")
