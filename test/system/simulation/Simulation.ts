/**
 * One run of the real worker, rescuer and reconciler in processes that fail, against a database, a network and
 * providers that fail. One seed determines the whole run.
 */
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { WitnessPolicy, type WitnessStore } from "../../../src/cluster/witness/Witness.ts"
import { makeWitnessedClaims } from "../../../src/cluster/witness/WitnessedClaims.ts"
import { ProviderName } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import type { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { lostTakeOver } from "../../../src/services/rules/ledgerRules.ts"
import { AcceptanceSignal } from "../../../src/services/WorkSignals.ts"
import { ClaimRecorders } from "../../../src/submission/attempts/ClaimRecorder.ts"
import type { ProviderAdapter } from "../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../src/submission/providers/Providers.ts"
import { type HintSubject, Reconciler } from "../../../src/submission/reads/Reconciler.ts"
import { SubmissionPolicy } from "../../../src/submission/SubmissionPolicy.ts"
import * as Submission from "../../../src/submission/SubmissionProcesses.ts"
import { queueContext } from "../../fixtures/ledger/QueueServices.ts"
import { Accounts } from "./Accounts.ts"
import { Budgets } from "./Budgets.ts"
import { Chance } from "./Chance.ts"
import { Judge, longestIdle, type Violation } from "./Judge.ts"
import { MachineClock } from "./MachineClock.ts"
import { Mischief } from "./Mischief.ts"
import { drawScenario, longestDelay, longestIgnorance, longestSend, type Policy, type Scenario } from "./Scenario.ts"
import { type Queue as SubmissionQueueShape, SimulatedDatabase } from "./SimulatedDatabase.ts"
import { SimulatedProcess } from "./SimulatedProcess.ts"
import { SimulatedProvider } from "./SimulatedProvider.ts"
import { SimulatedWitness } from "./SimulatedWitness.ts"
import type { Counts } from "./Trace.ts"
import { World } from "./World.ts"

/** A planted mistake, which the judge must find. */
export interface Plant {
  readonly queue?: (queue: SubmissionQueueShape, simulation: Simulation) => SubmissionQueueShape
  /** Replaces the ledger of clients and operators. */
  readonly ledger?: (ledger: OperationLedger["Service"], simulation: Simulation) => OperationLedger["Service"]
  /** Replaces the queue of a process, on its side of the network. */
  readonly remoteQueue?: (queue: SubmissionQueueShape, simulation: Simulation) => SubmissionQueueShape
  readonly adapter?: (adapter: ProviderAdapter["Service"]) => ProviderAdapter["Service"]
  readonly policy?: Partial<Policy>
  /** Faults that are no mistake, and only make the mistake show sooner. */
  readonly circumstances?: (scenario: Scenario) => Scenario
  /** Replaces the witness, for all processes. */
  readonly witness?: (witness: WitnessStore) => WitnessStore
  /** Replaces the witness of a process, on its side of the network. */
  readonly remoteWitness?: (witness: WitnessStore) => WitnessStore
  /** Replaces the clock of a process. */
  readonly clock?: (clock: MachineClock) => Clock.Clock
  /** Operators restore a snapshot, and hold no operation. */
  readonly isHoldForgotten?: boolean
}

export interface SimulationOptions {
  readonly isVerbose?: boolean
  readonly plant?: Plant
}

export interface Result {
  readonly seed: number
  readonly violation: Violation | null
  /** Hash of all events, in their order. */
  readonly hash: string
  /** Milliseconds of true time. */
  readonly time: number
  readonly steps: number
  readonly counts: Counts
  readonly lines: ReadonlyArray<string>
}

/** What a webhook tells a process. */
interface Hint {
  readonly provider: ProviderName
  readonly about: HintSubject
}

/** The routes of a process: they give each hint to its reconciler. */
const routes = (hints: Queue.Queue<Hint>) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const reconciler = yield* Reconciler
    yield* Stream.fromQueue(hints).pipe(
      // A hint whose statement fails is lost.
      Stream.runForEach(({ about, provider }) => Effect.ignore(reconciler.hint(provider, about))),
      Effect.forkScoped
    )
  }))

/** Short times, so that a run is short. */
const witnessPolicy: typeof WitnessPolicy.Service = {
  timeout: Duration.millis(300),
  interval: Duration.millis(500),
  patience: Duration.millis(900),
  compactAfter: Duration.millis(1500),
  mostBatches: 5
}

/** Step limit, more than any run needs. */
const mostSteps = 200_000
/**
 * Milliseconds of true time without faults in which every operation must reach its end. After rollbacks, a lost take-over
 * delays the rescue of a claim, and after the rescue its end.
 */
const patience = 180_000 + longestIdle + 2 * lostTakeOver

/** Milliseconds between two corrections of the clocks, while there are no faults. */
const correction = 10_000

/** Milliseconds: longer than the rescuer's pause between two searches for operations to review. */
const outage = 70_000

export class Simulation {
  readonly world: World
  readonly scenario: Scenario
  readonly budgets = new Budgets()
  readonly judge: Judge
  readonly database: SimulatedDatabase
  readonly witness: SimulatedWitness
  readonly providers: ReadonlyArray<SimulatedProvider>
  readonly processes: Array<SimulatedProcess> = []
  readonly accounts: Accounts
  readonly mischief: Mischief
  readonly policy: Policy
  readonly #plant: Plant
  readonly #wakers = new Map<SimulatedProcess, Queue.Queue<ProviderName>>()
  readonly #hints = new Map<SimulatedProcess, Queue.Queue<Hint>>()
  isCalm = false
  isEnding = false

  constructor(seed: number, { isVerbose = false, plant = {} }: SimulationOptions) {
    this.#plant = plant
    this.world = new World(seed, isVerbose)
    const drawn = drawScenario(this.world.chance)
    this.scenario = plant.circumstances?.(drawn) ?? drawn
    this.policy = { ...this.scenario.policy, ...plant.policy }
    this.judge = new Judge({
      world: this.world,
      truthOf: ({ operation, owner }) => this.providerOf(owner.provider).truthOf(operation.id),
      mayHaveBeenSent: ({ operation: { id }, owner }) =>
        this.judge.wasSent(id) || this.providerOf(owner.provider).mayStillReceive(id),
      claimed: (isAgain) => this.mischief.claimed(isAgain),
      databaseTime: () => this.database.clock.currentTimeMillisUnsafe(),
      budgets: this.budgets,
      longestDelay: longestDelay(this.policy),
      longestSend: longestSend(this.scenario.policy),
      consentEndedAt: (record) => this.accounts.consentEndedAt(record),
      longestIgnorance: longestIgnorance(this.scenario.policy)
    })
    this.database = new SimulatedDatabase(this.world, this.clock(), this.judge)
    this.witness = new SimulatedWitness(this.world, plant.witness)
    this.providers = this.scenario.providers.map((traits) =>
      new SimulatedProvider(
        this.world,
        this.judge,
        this.clock(),
        traits,
        (id: OperationId) => this.database.operations.get(id)
      )
    )
    // A stream of its own: in seeds whose limits refuse nothing, it moves no other decision. No seed of a run is negative.
    this.accounts = new Accounts(this, new Chance(-1 - seed))
    this.mischief = new Mischief(this, plant)
  }

  /** A clock with an error that the scenario allows. */
  clock(): MachineClock {
    const { chance } = this.world
    const { drift, skew } = this.scenario
    return new MachineClock(this.world, chance.between(-skew, skew), 1 + drift * (2 * chance.next() - 1))
  }

  providerOf(name: string): SimulatedProvider {
    return this.providers.find(({ traits }) => traits.name === name)!
  }

  /** The ledger of clients and operators. */
  get ledger(): OperationLedger["Service"] {
    const { ledger } = this.database
    return this.#plant.ledger?.(ledger, this) ?? ledger
  }

  /** Starts a process. Without adapters it can act on no operation, as in an outage of every provider. */
  startProcess(hasAdapters = true, predecessor?: SimulatedProcess): SimulatedProcess {
    const { hasWorkerIds, opsBeforeYield } = this.scenario
    const process = new SimulatedProcess(this.processes.length + 1, {
      world: this.world,
      clock: this.clock(),
      opsBeforeYield,
      workerId: predecessor?.workerId ?? `worker-${this.processes.length + 1}`
    })
    if (this.isCalm) process.clock.follow(this.database.clock)
    this.processes.push(process)
    this.mischief.supervise(process)
    const announcements = Effect.runSync(Queue.sliding<ProviderName>(4))
    this.#wakers.set(process, announcements)
    const hints = Effect.runSync(Queue.sliding<Hint>(16))
    this.#hints.set(process, hints)
    const { adapter, clock, queue: plantQueue, remoteQueue, remoteWitness } = this.#plant
    const queue = this.database.queueOf(
      process,
      plantQueue === undefined ? undefined : (queue) => plantQueue(queue, this)
    )
    const witness = this.scenario.hasWitness ? this.witness.storeOf(process) : null
    const adapters = (hasAdapters ? this.providers : []).map((provider) => {
      const own = provider.adapterOf(process)
      return [ProviderName.make(provider.traits.name), adapter?.(own) ?? own] as const
    })
    const remote = remoteQueue?.(queue, this) ?? queue
    const services = queueContext(remote).pipe(
      Context.add(Providers, new Map(adapters)),
      Context.add(SubmissionPolicy, { ...this.policy, workerId: hasWorkerIds ? process.workerId : null }),
      witness === null ? (services) => services : Context.add(
        ClaimRecorders,
        () => Effect.succeed(makeWitnessedClaims(remoteWitness?.(witness) ?? witness, remote))
      ),
      Context.add(WitnessPolicy, witnessPolicy),
      Context.add(AcceptanceSignal, {
        announce: () => Effect.void,
        announced: Stream.fromQueue(announcements)
      })
    )
    process.start(Layer.provideMerge(routes(hints), Submission.layer), services, clock?.(process.clock))
    return process
  }

  /** Announces an acceptance to each process, unless the announcement is lost. */
  announce(provider: ProviderName): void {
    const { chance, trace } = this.world
    for (const [process, announcements] of this.#wakers) {
      if (process.isGone) continue
      if (chance.happens(this.scenario.lostAnnouncements)) trace.note("announcement lost", process.name)
      else this.world.after(chance.below(30), () => Queue.offerUnsafe(announcements, provider), process)
    }
  }

  /** A webhook reaches a process. */
  hint(process: SimulatedProcess, hint: Hint): void {
    this.world.after(this.world.chance.below(30), () => Queue.offerUnsafe(this.#hints.get(process)!, hint), process)
  }

  run(): Violation | null {
    const { calmAt, processes } = this.scenario
    for (let number = 0; number < processes; number++) this.startProcess()
    this.accounts.open()
    this.mischief.begin()
    this.world.after(calmAt, () => this.#calmDown())
    while (this.judge.violation === null && !(this.isCalm && this.#isOver())) {
      const isStuck = !this.world.step() || this.world.now > calmAt + patience
      if (isStuck) this.#nameStuck()
      else if (this.world.steps > mostSteps) this.judge.violate("every run ends", `${mostSteps} steps`)
    }
    if (this.judge.violation === null && this.scenario.endsInOutage) this.#sitOutAnOutage()
    if (this.judge.violation === null) this.#end()
    return this.judge.violation
  }

  #calmDown(): void {
    this.world.trace.note("calm", null)
    this.mischief.end()
    this.accounts.settleStanding()
    this.isCalm = true
    this.#correctClocks()
    // One process is enough for the rest.
    this.world.after(1000, () => {
      for (const process of this.processes.filter(({ isGone }) => !isGone).slice(1)) process.drain()
    })
  }

  /** The clocks of the processes follow that of the database from now on. */
  #correctClocks(): void {
    if (this.isEnding) return
    for (const { clock, isGone } of this.processes) if (!isGone) clock.follow(this.database.clock)
    this.judge.clocksSetAt = this.world.now
    this.world.after(correction, () => this.#correctClocks())
  }

  #isOver(): boolean {
    if (this.providers.some(({ isReceiving }) => isReceiving)) return false
    for (const record of this.database.operations.values()) {
      if (!this.accounts.isAtItsEnd(record)) return false
    }
    return true
  }

  #nameStuck(): void {
    for (const record of this.database.operations.values()) {
      if (!this.accounts.isAtItsEnd(record)) {
        const { id, state } = record.operation
        return this.judge.violate(
          "every operation that can be settled is settled at the end",
          `${this.judge.name(id)} is ${state}`
        )
      }
    }
  }

  /** Operations that no process can act on are put under review, also after a review was cleared. */
  #sitOutAnOutage(): void {
    const { database: { operations }, judge, ledger, world } = this
    this.isEnding = true
    for (const process of this.processes) process.kill()
    const left = [...operations.values()].filter(({ operation }) => !operation.terminal)
    for (const { operation } of left) this.database.now(ledger.review(operation.id, false))
    const endsAt = world.now + outage
    const start = () => {
      if (world.now >= endsAt) return
      // It ends if the database is slow or still unreachable, and is restarted.
      this.startProcess(false).onExit = () => world.after(1000, start)
    }
    start()
    while (judge.violation === null && world.now < endsAt && world.step());
    for (const { operation: { id } } of left) {
      const { state, terminal, under_review } = operations.get(id)!.operation
      if (!terminal && !under_review) {
        judge.violate("every operation that stays unsettled is put under review", `${judge.name(id)} is ${state}`)
      }
    }
  }

  /** Requests and statements still under way must break no rule. */
  #end(): void {
    const { world } = this
    this.isEnding = true
    for (const process of this.processes.filter(({ isGone }) => !isGone)) {
      if (world.chance.happens(0.3)) process.drain()
      else process.kill()
    }
    const { drainTimeout, storeTimeout } = this.policy
    // Each part may wait for its statements, and record its results.
    const stopAt = world.now + Duration.toMillis(drainTimeout) + 5 * Duration.toMillis(storeTimeout)
    while (this.judge.violation === null && this.processes.some(({ isGone }) => !isGone) && world.step()) {
      if (world.now > stopAt) {
        this.judge.violate(
          "a process ends after SIGTERM",
          this.processes.filter(({ isGone }) => !isGone).map(({ name, state }) => `${name} ${state}`).join()
        )
      }
    }
    while (this.judge.violation === null && world.step());
  }
}

/** Runs one seed. */
export const simulate = (seed: number, options: SimulationOptions = {}): Result => {
  const simulation = new Simulation(seed, options)
  const violation = simulation.run()
  const { now: time, steps, trace } = simulation.world
  return { seed, violation, hash: trace.hash, time, steps, counts: trace.counts, lines: trace.lines }
}
