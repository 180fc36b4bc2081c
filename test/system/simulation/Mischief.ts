/**
 * Faults from outside: processes that stop and die, servers that fail over, clocks that are set, owners who revoke, and
 * operators who intervene. All of them end when the run calms down.
 */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { ProviderName } from "../../../src/domain/Grant.ts"
import type { OperationId, Outcome } from "../../../src/domain/Operation.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"
import { isHeld } from "../../../src/services/memory/recordRules.ts"
import { operatorEvidence } from "../../fixtures/OperatorEvidence.ts"
import type { Mishaps } from "./Circumstances.ts"
import { noNetworkFaults } from "./ProviderTraits.ts"
import { longestSend } from "./Scenario.ts"
import { noDatabaseFaults } from "./SimulatedDatabase.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import { noWitnessFaults } from "./SimulatedWitness.ts"
import type { Plant, Simulation } from "./Simulation.ts"

type Carelessness = Pick<Plant, "isHoldForgotten">

export class Mischief {
  readonly #simulation: Simulation
  readonly #carelessness: Carelessness
  #isOver = false
  #lastFailover = -Infinity
  readonly #sleepers: Array<SimulatedProcess> = []

  constructor(simulation: Simulation, carelessness: Carelessness) {
    this.#simulation = simulation
    this.#carelessness = carelessness
  }

  begin(): void {
    const { database, providers, scenario, witness } = this.#simulation
    database.faults = scenario.database
    witness.faults = scenario.witness
    for (const provider of providers) provider.faults = scenario.network
    this.#repeat("crash", () => this.#crash())
    this.#repeat("pause", () => this.#pause(this.#simulation.world.chance.skewed(50, 9000)))
    this.#repeat("drain", () => this.#pickProcess()?.drain())
    this.#repeat("databaseRestart", () => database.restart(this.#simulation.world.chance.between(20, 1500)))
    this.#repeat("failover", () => this.#failOver())
    this.#repeat("clockStep", () => this.#setClock())
    this.#repeat("standingChange", () => this.#simulation.accounts.changeStanding())
    this.#repeat("operator", () => this.#operate())
    this.#repeat("hint", () => this.#hint())
    this.#every(this.#simulation.scenario.asks, () => this.#ask())
  }

  end(): void {
    this.#isOver = true
    const { database, processes, providers, witness } = this.#simulation
    database.faults = noDatabaseFaults
    witness.faults = noWitnessFaults
    for (const provider of providers) provider.faults = noNetworkFaults
    for (const process of processes) {
      process.stepsToLive = Infinity
      process.resume(false)
    }
  }

  #repeat(kind: keyof Mishaps, strike: () => void): void {
    this.#every(this.#simulation.scenario.mishaps[kind], strike)
  }

  #every(mean: number, strike: () => void): void {
    const { world } = this.#simulation
    if (mean === Infinity) return
    world.after(-mean * Math.log(1 - world.chance.next()), () => {
      if (this.#isOver) return
      strike()
      this.#every(mean, strike)
    })
  }

  #pickProcess(): SimulatedProcess | undefined {
    const running = this.#simulation.processes.filter(({ state }) => state === "running")
    return running.length === 0 ? undefined : this.#simulation.world.chance.pick(running)
  }

  /** After a random number of steps, so that the fault may strike at any point of the process. */
  #crash(): void {
    const process = this.#pickProcess()
    if (process !== undefined) process.stepsToLive = this.#simulation.world.chance.between(1, 25)
  }

  #pause(duration: number): void {
    const { chance } = this.#simulation.world
    const process = this.#pickProcess()
    if (process === undefined) return
    process.pause()
    const isSuspension = chance.happens(0.4)
    this.#simulation.world.after(duration, () => process.resume(isSuspension))
  }

  /** A process that ended is restarted sooner or later, or never; some process always runs again soon. */
  supervise(process: SimulatedProcess): void {
    const simulation = this.#simulation
    const { chance } = simulation.world
    process.onExit = () => {
      const isLast = simulation.processes.every(({ isGone }) => isGone)
      if (simulation.isEnding || !(isLast || (!this.#isOver && chance.happens(0.35)))) return
      simulation.world.after(chance.skewed(50, this.#isOver ? 500 : 5000), () => {
        if (!simulation.isEnding) simulation.startProcess(true, process)
      })
    }
  }

  #failOver(): void {
    const { scenario, world: { chance, now } } = this.#simulation
    const isForgetful = scenario.forgets && chance.happens(0.7)
    this.#failOverTo(isForgetful ? now - chance.between(1, chance.pick([3000, 12_000])) : Infinity)
  }

  /** Fails over to a server without the commits since then. */
  #failOverTo(since: number): void {
    const { database, world: { chance, now } } = this.#simulation
    const downFor = chance.between(20, 1500)
    this.#lastFailover = now
    if (since < now && chance.happens(0.3)) return this.#putBack(since, downFor)
    const { hasWitness, leftBehind } = this.#simulation.scenario
    if (hasWitness && chance.happens(leftBehind)) this.#leaveBehind(downFor)
    database.failOver(since, downFor)
  }

  /** The old server goes on for a while, and some processes with it. It may even be the primary again. */
  #leaveBehind(downFor: number): void {
    const { database, processes, world } = this.#simulation
    const { chance } = world
    const replaced = database.leaveBehind()
    world.trace.note("a replaced server goes on", "db")
    this.#simulation.judge.hasTwoHistories = true
    for (const process of processes) {
      if (!process.isGone && process.server === null && chance.happens(0.5)) process.server = replaced
    }
    world.after(chance.skewed(300, 9000), () => {
      for (const process of processes) if (process.server === replaced) process.server = null
      if (!this.#isOver && chance.happens(this.#simulation.scenario.backAgain)) database.giveWayTo(replaced, downFor)
      replaced.end()
    })
  }

  /** The ledger cannot notice a restored snapshot: an operator holds all operations before any process connects. */
  #putBack(since: number, downFor: number): void {
    const { database, world } = this.#simulation
    database.putBack(since, downFor)
    // The witness notices by itself.
    if (this.#carelessness.isHoldForgotten === true || this.#simulation.scenario.hasWitness) return
    database.now(database.queue.holdAll)
    world.trace.note("operator holds all", null)
  }

  /** The most dangerous fault: a failover loses a claim, and its holder continues after another worker's claim. */
  claimed(isAgain: boolean): void {
    const { database: { client }, scenario: { forgottenClaims }, world } = this.#simulation
    const { chance } = world
    if (isAgain) this.#wakeSleepers()
    if (this.#isOver || client === null || !chance.happens(forgottenClaims)) return
    // The failover may lose the release before it too.
    const since = world.now - (isAgain ? chance.between(0, 3000) : 0)
    world.after(chance.between(10, 300), () => {
      if (this.#isOver) return
      if (!isAgain || chance.happens(0.5)) {
        client.pause()
        this.#sleepers.push(client)
      }
      this.#failOverTo(since)
    })
  }

  #wakeSleepers(): void {
    const { chance } = this.#simulation.world
    for (const process of this.#sleepers.splice(0)) {
      this.#simulation.world.after(chance.between(0, 200), () => process.resume(false))
    }
  }

  #setClock(): void {
    const { database, processes, providers, scenario: { skew }, world: { chance, trace } } = this.#simulation
    const isDatabase = chance.happens(0.2)
    const { clock } = isDatabase ? database : chance.pick([...processes, ...providers])
    // Due times and circuits are instants: a clock set far back would delay them for as long.
    clock.set(chance.between(Math.max(-skew, clock.offset - (isDatabase ? 2000 : 20_000)), skew))
    this.#simulation.judge.clocksSetAt = this.#simulation.world.now
    trace.note("clock set", null)
  }

  /** True and false hints, some of them repeated, by reference or about a provider that does not have the operation. */
  #hint(): void {
    const { accounts, database, providers, world: { chance, trace } } = this.#simulation
    const records = [...database.operations.values()]
    const process = this.#pickProcess()
    if (records.length === 0 || process === undefined) return
    const record = chance.pick(records)
    const { operation: { id }, owner, reference } = record
    const provider = chance.happens(0.9) ? owner.provider : ProviderName.make(chance.pick(providers).traits.name)
    const about = reference !== null && chance.happens(0.5) ? { reference } : { operation_id: id }
    for (let times = chance.pick([1, 1, 1, 2, 5]); times > 0; times--) {
      trace.note("hint", accounts.nameOf(id))
      this.#simulation.hint(process, { provider, about })
    }
  }

  #operate(): void {
    const { accounts, world: { chance } } = this.#simulation
    const record = accounts.pickOperation()
    if (record === undefined) return
    const act = chance.below(5)
    // The witness stops workers, not operators. A restored copy, or a server that was replaced and is back, may lack what was sent.
    const { judge, scenario: { hasWitness } } = this.#simulation
    const maySettle = !judge.hasTwoHistories && (!hasWitness || this.#isCompared())
    if (act <= 1 && !maySettle) return
    if (act === 0) this.#cancel(record)
    else if (act === 1) this.#refuse(record)
    else if (act === 2) this.#review(record)
    else if (act === 3) this.#hold(record)
    else this.#release(record)
  }

  /** The ledger was compared with its witness in its present life. */
  #isCompared(): boolean {
    const { cluster, home } = this.#simulation.database.memory
    return home.get("life") === cluster.life
  }

  #cancel(record: MemoryRecord): void {
    const { accounts, database, ledger, world } = this.#simulation
    const { id } = record.operation
    const isHeld = this.#isHeld(record)
    const isCancelled = Exit.isSuccess(database.now(ledger.cancel(id, { by: "operator" })))
    const refusal = isHeld ? "operator may not cancel a held operation" : "operator cancels too late"
    world.trace.note(isCancelled ? "operator cancels" : refusal, accounts.nameOf(id))
  }

  /** An application finds, before a claim, that an operation cannot be carried out. */
  #refuse(record: MemoryRecord): void {
    const { accounts, database, world } = this.#simulation
    const { id, revision, state } = record.operation
    if (state !== "accepted" || this.#isHeld(record)) return
    const outcome: Outcome = { state: "failed", failure: { code: "refused", message: "Refused." } }
    const exit = database.now(database.ledger.transition(id, revision, outcome, { by: "operator" }))
    if (Exit.isSuccess(exit)) world.trace.note("operator refuses", accounts.nameOf(id))
  }

  #review({ operation: { id, under_review } }: MemoryRecord): void {
    const { accounts, database, world } = this.#simulation
    const exit = database.now(database.ledger.review(id, !under_review))
    if (Exit.isSuccess(exit)) world.trace.note("operator reviews", accounts.nameOf(id))
  }

  #hold(record: MemoryRecord): void {
    const { accounts, database, world } = this.#simulation
    const { id } = record.operation
    const exit = database.now(database.queue.hold(id))
    world.trace.note(Exit.isSuccess(exit) ? "operator holds" : "operator holds too late", accounts.nameOf(id))
  }

  /** A person, whose clock may be wrong by a minute, asks whether a fenced operation can still pay, and records later that it cannot. */
  #ask(): void {
    const { accounts, database, ledger, world } = this.#simulation
    const fenced = [...database.operations.values()].filter(({ fence_started_at, operation }) =>
      operation.state === "indeterminate" && fence_started_at !== null
    )
    if (fenced.length === 0) return
    const { operation: { id, revision }, owner } = world.chance.pick(fenced)
    if (this.#simulation.providerOf(owner.provider).mayStillPay(id)) return
    const clock = world.chance.below(120_001) - 60_000
    const asked_at = DateTime.formatIso(DateTime.makeUnsafe(database.clock.currentTimeMillisUnsafe() + clock))
    const evidence = { by: "operator", ...operatorEvidence, asked_at, reference_of: "answer" }
    const outcome: Outcome = { state: "failed", failure: { code: "never_received", message: "Never received." } }
    world.after(world.chance.below(15_000), () => {
      const exit = database.now(ledger.transition(id, revision, outcome, evidence))
      world.trace.note(
        Exit.isSuccess(exit) ? "a person records the answer" : "a person must ask again",
        accounts.nameOf(id)
      )
    })
  }

  /** Releases operations one by one, or all of them if no failover of the run loses commits. */
  #release(record: MemoryRecord): void {
    const { accounts, database, scenario, world } = this.#simulation
    const { id } = record.operation
    if (!this.#isHeld(record)) return
    if (!scenario.forgets) {
      database.now(database.queue.releaseAll)
      return world.trace.note("operator releases all", null)
    }
    const release = (attempts: number) => {
      const found = database.operations.get(id)
      if (found === undefined || !this.#isHeld(found) || !this.#wasNeverSent(id)) return
      const exit = database.now(database.queue.release(id))
      const isReleased = Exit.isSuccess(exit)
      world.trace.note(isReleased ? "operator releases" : "operator must wait", accounts.nameOf(id))
      if (isReleased || attempts === 0) return
      const refusal = Option.getOrNull(Cause.findErrorOption(exit.cause))
      const until = refusal?._tag === "StillHeld" ? refusal.until?.epochMilliseconds : undefined
      const wait = until === undefined ? 1000 : until - database.clock.currentTimeMillisUnsafe() + 1
      world.after(wait, () => release(attempts - 1))
    }
    release(5)
  }

  #isHeld(record: MemoryRecord): boolean {
    return isHeld(record, this.#simulation.database.memory.cluster.timeline)
  }

  /**
   * The operator's check: the provider has not received the operation, and no request is under way. The ledger checks
   * whether a process may still send it, unless the clock of the database is set meanwhile.
   */
  #wasNeverSent(id: OperationId): boolean {
    const { judge, policy, providers, scenario, world } = this.#simulation
    if (judge.wasSent(id) || providers.some((provider) => provider.mayStillReceive(id))) return false
    return scenario.mishaps.clockStep === Infinity || world.now - this.#lastFailover > longestSend(policy)
  }
}
