/** Chance by seed: the same seed draws the same values. The times of faults still depend on the machine. */
import { chance } from "../../../../src/sandbox/Faults.ts"

export interface Dice {
  /** A number in [0, 1). */
  readonly roll: () => number
  /** A whole number from 0 up to the limit, exclusive. */
  readonly below: (limit: number) => number
  /** A number between the two. */
  readonly between: (least: number, most: number) => number
}

export const makeDice = (seed: string, name: string): Dice => {
  let rolls = 0
  const roll = () => chance(seed, name, rolls++)
  return {
    roll,
    below: (limit) => Math.floor(roll() * limit),
    between: (least, most) => least + roll() * (most - least)
  }
}

/** The items in another order (Fisher and Yates). */
export const shuffle = <A>(items: ReadonlyArray<A>, dice: Dice): Array<A> => {
  const shuffled = [...items]
  for (let last = shuffled.length - 1; last > 0; last--) {
    const other = dice.below(last + 1)
    const item = shuffled[last]!
    shuffled[last] = shuffled[other]!
    shuffled[other] = item
  }
  return shuffled
}
