/**
 * A chaos run: four workers, the sandbox and PostgreSQL as real processes, and every fault while operations are
 * accepted. At the end the run waits without faults until operations are settled, and is then judged.
 */
import { Effect, Layer } from "effect"
import type { FaultSettings } from "../../../../src/sandbox/Faults.ts"
import type { BankName } from "../kit/Banks.ts"
import { acceptAll, type Acceptance, type ClientGrant, type Spenders } from "../kit/Clients.ts"
import { slowness } from "../kit/Clock.ts"
import { makeDice } from "../kit/Dice.ts"
import type { Sample } from "../kit/Evidence.ts"
import type { MistakeName } from "../kit/Mistakes.ts"
import { clients, grantsOf, makeScene, observe, type Scene } from "../kit/Scene.ts"
import { judgeSpending, watchSums, wrongRests } from "../kit/Spending.ts"
import { dealFaults } from "./Faults.ts"
import { makeInjector } from "./Injector.ts"

export interface ChaosOptions {
  readonly operations: number
  /** Faults of processes and networks. Those of the sandbox are added at their rates. 0: none at all. */
  readonly faults: number
  readonly seed: string
  /** Seconds that the run may take, without settling. Faults and requests after that are missing in the figures. */
  readonly duration: number
  /** Seconds that settling may take: see `Observation`. */
  readonly settling?: number
  readonly mistake?: MistakeName
  /** Null, the default: the sandbox with its own protocol. */
  readonly bank?: BankName | null
  /** Clients whose grants have limits, in place of the usual ones. */
  readonly spenders?: Spenders | null
  readonly say?: (line: string) => void
}

/** Requests and faults a second, at most as many as two cores can serve. Limits refuse most of the requests. */
const pace = { operations: 60, limited: 600, faults: 4 }

/**
 * Operations that wait for a worker, at most. Clients that only kept their pace would overload a busy machine: time-outs cause reads and new
 * connections, and these more time-outs.
 */
const mostWaiting = 24

/** The faults of the sandbox during the run. */
const sandboxFaults: FaultSettings = {
  slow: { rate: 0.05, ms: 300 },
  refuse_connection: { rate: 0.02 },
  drop_response: { rate: 0.03 },
  bad_gateway: { rate: 0.02 },
  reset_mid_body: { rate: 0.02 },
  garbage_body: { rate: 0.02 },
  wrong_content_type: { rate: 0.01 },
  // Each pauses the provider for a second.
  too_many_requests: { rate: 0.001, requests: 1 },
  late: { rate: 0.02, ms: 3000 * slowness },
  not_found_for: { rate: 0.1, ms: 1500 },
  duplicate_key_rejected: { rate: 0.5 },
  flapping_status: { rate: 0.05, reads: 4 },
  foreign_answer: { rate: 0.03 },
  lose: { rate: 0.01 }
}

/** Accepts operations and injects faults concurrently, until both are done. */
const rage = Effect.fnUntraced(function*(
  scene: Scene,
  options: ChaosOptions,
  acceptances: Array<Acceptance>,
  samples: ReadonlyArray<Sample>,
  grants: ReadonlyArray<ClientGrant>
) {
  const { spenders = null } = options
  const { crew, clientLink, postgres, sandbox } = scene
  const deck = options.faults === 0 ? [] : dealFaults(options.faults, makeDice(options.seed, "deck"))
  const seconds = Math.max(
    options.operations / (spenders === null ? pace.operations : pace.limited),
    deck.length / pace.faults
  )
  const [start, spacing] = [Date.now(), seconds * 1000 / options.operations]
  const injector = makeInjector({
    deck,
    dice: makeDice(options.seed, "faults"),
    crew,
    clientLink,
    crash: { postgres_crash: Effect.orDie(postgres.crash), sandbox_crash: sandbox.crash },
    // Faults wait for operations that are late.
    due: (index) =>
      acceptances.length / options.operations < index / deck.length
        ? Infinity
        : start + index * seconds * 1000 / deck.length
  })
  let isInjecting = true
  const inject = Effect.tap(injector.run, () =>
    Effect.sync(() => {
      isInjecting = false
      options.say?.(`all ${injector.injected.length} faults happened`)
    }))
  const accept = acceptAll({
    grants,
    dice: makeDice(options.seed, "clients"),
    acceptances,
    order: scene.order,
    spenders,
    // Requests continue while there are faults, and end soon after them if the faults are late.
    pause: (index) => {
      if (index >= options.operations && !isInjecting) return null
      const isAhead = index / options.operations > injector.injected.length / deck.length + 0.1
      return isAhead ? spacing * 5 : spacing
    },
    isFull: () => {
      const { accepted = 0, submitting = 0 } = samples.at(-1)?.counts ?? {}
      return accepted + submitting > mostWaiting
    }
  }).pipe(Effect.provide(clients(scene)))
  yield* Effect.all([inject, accept], { concurrency: "unbounded", discard: true }).pipe(
    Effect.timeoutOrElse({
      duration: options.duration * 1000,
      orElse: () => Effect.sync(() => options.say?.("the duration has ended"))
    })
  )
  return injector.injected
})

/** Runs, and returns the evidence for the judge. All processes end and all files are removed when its scope closes. */
export const runChaos = Effect.fnUntraced(function*(options: ChaosOptions) {
  const { bank = null, mistake, say = () => {}, seed, settling } = options
  const scene = yield* makeScene({ seed, workers: 4, faults: sandboxFaults, bank, ...mistake && { mistake } })
  const { spenders = null } = options
  const grants = yield* grantsOf(scene, spenders)
  const overAtAnInstant: Array<string> = []
  if (spenders !== null) yield* Effect.forkScoped(Effect.provide(watchSums(overAtAnInstant), Layer.fresh(scene.direct)))
  const evidence = yield* observe(scene, {
    asked: options,
    say,
    settling,
    scenario: (acceptances, samples) => rage(scene, options, acceptances, samples, grants)
  })
  const spending = spenders === null ? {} : judgeSpending(evidence, {
    overAtAnInstant,
    wrongRests: yield* wrongRests(scene, grants, evidence.operations)
  })
  return { ...evidence, spending }
}, Effect.scoped)
