/** Injects the faults of a run, one after the other at their times, so that some worker can always work. */
import { Effect } from "effect"
import type { NetworkFault, Proxy } from "../../../fixtures/processes/Proxy.ts"
import { slowness } from "../kit/Clock.ts"
import { type Crew, settlingIn, type Worker } from "../kit/Crew.ts"
import { type Dice, shuffle } from "../kit/Dice.ts"
import type { Injected } from "../kit/Evidence.ts"
import type { Order } from "../kit/Plan.ts"
import { type Fault, nameOf } from "./Faults.ts"

export interface InjectorOptions {
  readonly deck: ReadonlyArray<Fault>
  readonly dice: Dice
  readonly crew: Crew
  /** The network between the clients and the ledger. */
  readonly clientLink: Proxy
  /** Each kills the process, and starts it again. */
  readonly crash: Readonly<Record<"postgres_crash" | "sandbox_crash", Effect.Effect<void>>>
  /** The time of the fault with this number, from 0, in milliseconds since 1970. */
  readonly due: (index: number) => number
}

/** Milliseconds between two crashes of a process: a process that never recovers does no work that a crash could lose. */
const respite = { postgres_crash: 4000, sandbox_crash: 2000 } as const

/** How long a process is stopped: mostly briefly, sometimes until its claims were rescued. */
const stopFor = (dice: Dice): number =>
  slowness * (dice.roll() < 0.3 ? dice.between(4500, 6000) : dice.between(200, 1000))

/** Silent peers may stay silent for longer than any time-out. */
const silences: ReadonlyArray<NetworkFault> = ["half_open", "forgotten"]

/** How long a fault of the network lasts. */
const lastingOf = (fault: NetworkFault, dice: Dice): number =>
  silences.includes(fault) && dice.roll() < 0.3 ? 20_000 : slowness * dice.between(500, 3500)

/**
 * How long a worker need not work: until it has other connections, which it opens when the old ones end, or with the
 * first statement after the `connectionTTL` of its pool. Late answers do not count.
 */
const excusedFor = (fault: NetworkFault, lasting: number): number =>
  fault === "latency" ? 0 : Math.min(lasting, 11_000) + settlingIn

/** Injects all faults, and returns after the last one. Each is added to `injected` when it happens. */
export const makeInjector = (options: InjectorOptions) => {
  const { clientLink, crew, dice, due } = options
  const deck = [...options.deck]
  const injected: Array<Injected> = []
  /** Some workers have orders that they have not carried out yet. */
  const orders = { outstanding: 0 }
  const restedAt = { postgres_crash: 0, sandbox_crash: 0 }

  const happened = (fault: Fault) => void injected.push({ at: Date.now(), name: nameOf(fault) })

  crew.onStruck = (worker: Worker, order: Order) => {
    orders.outstanding--
    happened({ kind: "crash_point", ...order })
    if (order.blow === "stop") worker.hasStruck(stopFor(dice))
  }
  crew.onOrderLost = (order: Order) => {
    orders.outstanding--
    deck.push({ kind: "crash_point", ...order })
  }

  /** A worker that may be struck, because another one is healthy. */
  const victim = (): Worker | null => {
    const healthy = crew.healthy()
    return healthy.length < 2 ? null : healthy[dice.below(healthy.length)]!
  }

  const strikeNetwork = (fault: Extract<Fault, { kind: "network" }>): boolean => {
    const lasting = lastingOf(fault.fault, dice)
    if (fault.link === "client_database") return clientLink.strike(fault.fault, lasting)
    const worker = fault.link === "worker_database" ? victim() : shuffle(crew.workers, dice)[0]!
    if (worker === null) return false
    if (fault.link === "worker_sandbox") return worker.sandboxLink.strike(fault.fault, lasting)
    if (!worker.databaseLink.strike(fault.fault, lasting)) return false
    worker.excuse(excusedFor(fault.fault, lasting))
    return true
  }

  const strikeWorker = (fault: Exclude<Fault, { kind: "network" | "postgres_crash" | "sandbox_crash" }>): boolean => {
    const worker = victim()
    if (worker === null) return false
    switch (fault.kind) {
      case "crash_point":
        orders.outstanding++
        worker.command(fault.point, fault.blow)
        return true
      case "stop":
        worker.stop(stopFor(dice))
        break
      case "kill":
        worker.kill("SIGKILL")
        break
      case "terminate":
        worker.kill("SIGTERM")
    }
    happened(fault)
    return true
  }

  const crash = Effect.fnUntraced(function*(fault: Fault & { kind: "postgres_crash" | "sandbox_crash" }) {
    if (restedAt[fault.kind] > Date.now()) return false
    happened(fault)
    yield* options.crash[fault.kind]
    // There is no connection yet.
    if (fault.kind === "postgres_crash") crew.workers.forEach((worker) => worker.excuse(settlingIn))
    restedAt[fault.kind] = Date.now() + respite[fault.kind]
    return true
  })

  /** False if the fault is not possible now. */
  const inject = (fault: Fault): Effect.Effect<boolean> => {
    switch (fault.kind) {
      case "postgres_crash":
      case "sandbox_crash":
        return crash({ ...fault, kind: fault.kind })
      case "network":
        return Effect.sync(() => {
          const struck = strikeNetwork(fault)
          if (struck) happened(fault)
          return struck
        })
      default:
        return Effect.sync(() => strikeWorker(fault))
    }
  }

  const injectNext = Effect.gen(function*() {
    for (const [index, fault] of deck.entries()) {
      if (!(yield* inject(fault))) continue
      deck.splice(index, 1)
      return
    }
  })

  const run = Effect.gen(function*() {
    while (deck.length > 0 || orders.outstanding > 0) {
      const dealt = injected.length + orders.outstanding
      if (deck.length > 0 && due(dealt) <= Date.now()) yield* injectNext
      yield* Effect.sleep(20)
    }
  })

  return { injected, run }
}
