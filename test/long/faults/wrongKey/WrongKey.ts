/**
 * A bank refuses the key of two workers while clients go on paying. Then it takes the key. One worker is restarted
 * meanwhile, as an operator would.
 */
import { Effect, Fiber, Layer } from "effect"
import type { OperationState } from "../../../../src/domain/Operation.ts"
import { acceptAll } from "../kit/Clients.ts"
import { makeDice } from "../kit/Dice.ts"
import { type FinalOperation, readLedger } from "../kit/Evidence.ts"
import { atLeast, counted } from "../kit/Figure.ts"
import { judge } from "../kit/Judge.ts"
import type { MistakeName } from "../kit/Mistakes.ts"
import { clients, everyoneWorks, grantsOf, makeScene, observe } from "../kit/Scene.ts"

export interface WrongKeyOptions {
  /** Payments that clients request in one second. */
  readonly rate: number
  /** The key is wrong until this effect has ended twice. It gets the number of refused submissions. */
  readonly wrong: (refused: Effect.Effect<number>) => Effect.Effect<void>
  readonly mistake?: MistakeName | undefined
  readonly say?: (line: string) => void
}

/** The states that a wrong key must not cause. The outcome may be uncertain: on a busy machine an answer may come too late. */
const ended: ReadonlySet<OperationState> = new Set(["submitted", "succeeded", "failed"])

/** What the log of a worker says of the key. */
const warning = "the provider refused the credentials"

/** Runs the scenario, and judges it. A refused submission is sent again, so the wire sees a key more than once. */
export const runWrongKey = Effect.fnUntraced(function*({ mistake, rate, say = () => {}, wrong }: WrongKeyOptions) {
  const scene = yield* makeScene({
    seed: "wrong-key",
    workers: 2,
    faults: { unauthorized: { rate: 1 } },
    ...mistake !== undefined && { mistake }
  })
  const { crew, direct, sandbox } = scene
  const refused = Effect.map(
    sandbox.arrivals,
    (arrivals) => arrivals.filter(({ isTurnedAway, kind }) => isTurnedAway && kind === "submission").length
  )
  let before: ReadonlyArray<FinalOperation> = []
  let refusals = 0
  const evidence = yield* observe(scene, {
    asked: { operations: 1, faults: 0 },
    say,
    scenario: Effect.fnUntraced(function*(acceptances) {
      let isPaying = true
      const paying = yield* acceptAll({
        grants: yield* grantsOf(scene),
        dice: makeDice("wrong-key", "clients"),
        acceptances,
        order: scene.order,
        pause: () => isPaying ? 1000 / rate : null
      }).pipe(Effect.provide(clients(scene)), Effect.forkChild)
      yield* wrong(refused)
      crew.workers[0]!.kill("SIGTERM")
      yield* everyoneWorks(scene)
      yield* wrong(refused)
      before = (yield* Effect.provide(readLedger, Layer.fresh(direct))).operations
      refusals = yield* refused
      yield* sandbox.setFaults({})
      say("the bank takes the key")
      yield* Effect.sleep("1 second")
      isPaying = false
      yield* Fiber.join(paying)
      return []
    })
  })
  const { doubleSends: _, ...rules } = judge(evidence, 30_000)
  const silent = crew.workers.filter(({ daemon }) => !daemon.lines.some((line) => line.includes(warning)))
  const figures = {
    ...rules,
    refused: atLeast("submissions refused for their key", refusals, 1),
    ended: counted(
      "operations that ended while the key was wrong",
      before.filter(({ state }) => ended.has(state)).map(({ id, state }) => `${id}: ${state}`)
    ),
    unwarned: counted("workers whose log does not say what was wrong", silent.map(({ daemon }) => daemon.name))
  }
  return { evidence, figures }
}, Effect.scoped)
