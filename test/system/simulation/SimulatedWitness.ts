/** The witness of a run, and the network of each process to it. It forgets nothing, and takes each step in one instant. */
import * as Effect from "effect/Effect"
import { type WitnessStore, WitnessUnavailable } from "../../../src/cluster/witness/Witness.ts"
import { makeMemoryWitness } from "../../fixtures/cluster/MemoryWitness.ts"
import { each, type Faults } from "./Chance.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { World } from "./World.ts"

export const witnessFaults = [
  /** A step does not take effect. */
  "noAnswer",
  /** It takes effect, and the answer is lost. */
  "answerLost",
  /** It takes effect seconds later. */
  "late"
] as const

/** Probabilities of faults of a step. */
export type WitnessFaults = Faults<typeof witnessFaults[number]>

export const noWitnessFaults: WitnessFaults = each(witnessFaults, () => 0)

export class SimulatedWitness {
  faults = noWitnessFaults
  readonly store: WitnessStore
  readonly #world: World

  constructor(world: World, plant: (store: WitnessStore) => WitnessStore = (store) => store) {
    this.#world = world
    this.store = plant(makeMemoryWitness())
  }

  storeOf(process: SimulatedProcess): WitnessStore {
    const { batches, compact, epoch, fence, record } = this.store
    return {
      epoch: this.#send(process, "epoch", epoch),
      batches: (epoch) => this.#send(process, "batches", batches(epoch)),
      fence: (from, to) => this.#send(process, "fence", fence(from, to)),
      record: (batch) => this.#send(process, "record", record(batch)),
      compact: (checkpoint) => this.#send(process, "compact", compact(checkpoint))
    }
  }

  #send<A>(process: SimulatedProcess, name: string, step: Effect.Effect<A, WitnessUnavailable>) {
    return Effect.callback<A, WitnessUnavailable>((resume) => {
      const { chance, trace } = this.#world
      let isWaiting = true
      const { answerLost, late, noAnswer } = this.faults
      const hasNoAnswer = chance.happens(noAnswer)
      const isLost = chance.happens(answerLost)
      const isLate = chance.happens(late)
      if (hasNoAnswer) trace.note("witness: no answer", process.name, name)
      else {
        this.#world.after(isLate ? chance.between(200, 5000) : chance.below(8), () => {
          trace.note(`witness: ${name}`, process.name)
          const exit = Effect.runSyncExit(step)
          if (isLost) trace.note("witness: answer lost", process.name, name)
          else this.#world.after(chance.below(8), () => isWaiting ? resume(exit) : undefined, process)
        })
      }
      if ((hasNoAnswer || isLost) && chance.happens(0.5)) {
        const broken = new WitnessUnavailable({ reason: "the connection broke" })
        this.#world.after(chance.between(10, 300), () => isWaiting ? resume(Effect.fail(broken)) : undefined, process)
      }
      return Effect.sync(() => {
        isWaiting = false
      })
    })
  }
}
