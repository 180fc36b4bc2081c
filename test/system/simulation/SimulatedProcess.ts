/**
 * One process with the real worker, rescuer and reconciler, and its own scheduler and clock. It can be stopped,
 * continued, asked to end, and killed without finalizers.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import type { MachineClock } from "./MachineClock.ts"
import type { SimulatedDatabase } from "./SimulatedDatabase.ts"
import type { Owner, World } from "./World.ts"

/** The options of a process at its start. */
export interface Machine {
  readonly world: World
  readonly clock: MachineClock
  /** Steps of a fiber before it yields to others. */
  readonly opsBeforeYield: number
  readonly workerId: string
}

export class SimulatedProcess implements Owner {
  readonly number: number
  readonly clock: MachineClock
  state: "running" | "paused" | "exited" | "killed" = "running"
  /** Steps until the process is killed. */
  stepsToLive = Infinity
  onExit: () => void = () => {}
  /** The server that was replaced and to which it is still connected. Null: it is connected to the primary. */
  server: SimulatedDatabase | null = null
  /** When the process was last stopped, in true time. */
  stoppedAt = -Infinity
  readonly #machine: Machine
  #kept: Array<() => void> = []
  #fiber: Fiber.Fiber<unknown, unknown> | undefined
  #pausedAt = 0

  constructor(number: number, machine: Machine) {
    this.number = number
    this.#machine = machine
    this.clock = machine.clock
    this.clock.owner = this
  }

  get name(): string {
    return `p${this.number}`
  }

  get workerId(): string {
    return this.#machine.workerId
  }

  get isGone(): boolean {
    return this.state === "exited" || this.state === "killed"
  }

  readonly admits = (task: () => void): boolean => {
    if (this.state === "paused") {
      this.#kept.push(task)
      return false
    }
    if (this.isGone) return false
    if (--this.stepsToLive > 0) return true
    this.kill()
    return false
  }

  /** Runs a layer until the process is asked to end. */
  start<R>(
    program: Layer.Layer<never, unknown, R>,
    services: Context.Context<R>,
    clock: Clock.Clock = this.clock
  ): void {
    const { opsBeforeYield, world } = this.#machine
    const dispatcher: Scheduler.SchedulerDispatcher = {
      scheduleTask: (task) => world.enqueue(this, task),
      flush: () => {}
    }
    const scheduler: Scheduler.Scheduler = {
      executionMode: "async",
      shouldYield: (fiber) => fiber.currentOpCount >= opsBeforeYield,
      makeDispatcher: () => dispatcher
    }
    const context = services.pipe(
      Context.add(Scheduler.Scheduler, scheduler),
      Context.add(Clock.Clock, clock),
      Context.add(Random.Random, world.chance.asRandom()),
      Context.add(References.TracerEnabled, false),
      Context.add(Logger.CurrentLoggers, new Set([this.#logger]))
    )
    world.trace.note("start", this.name)
    world.enqueue(this, () => {
      this.#fiber = Effect.runForkWith(context)(Layer.launch(program))
      this.#fiber.addObserver(() => this.#exit())
    })
  }

  #exit(): void {
    this.state = "exited"
    this.#machine.world.trace.note("exit", this.name)
    this.onExit()
  }

  readonly #logger = Logger.make(({ cause, message }) => {
    this.#machine.world.trace.remark(() => `${this.name}: ${[message].flat().map(String).join(" ")} ${cause}`)
  })

  /** Dies at once. Only the bytes that it sent stay under way. */
  kill(): void {
    if (this.isGone) return
    this.state = "killed"
    this.#kept = []
    this.#machine.world.trace.note("crash", this.name)
    this.onExit()
  }

  /** SIGSTOP. The clocks continue. */
  pause(): void {
    if (this.state !== "running") return
    this.state = "paused"
    this.#pausedAt = this.#machine.world.now
    this.#machine.world.trace.note("pause", this.name)
  }

  /** SIGCONT. After a suspension of the machine, its monotonic clock has not advanced. */
  resume(isSuspension: boolean): void {
    if (this.state !== "paused") return
    const { world } = this.#machine
    if (isSuspension) this.clock.standStill(world.now - this.#pausedAt)
    this.state = "running"
    this.stoppedAt = world.now
    world.trace.note(isSuspension ? "resume after suspension" : "resume", this.name)
    for (const task of this.#kept) world.enqueue(this, task)
    this.#kept = []
  }

  /** SIGTERM. */
  drain(): void {
    if (this.state !== "running") return
    this.#machine.world.trace.note("drain", this.name)
    if (this.#fiber === undefined) this.#exit()
    else this.#fiber.interruptUnsafe()
  }
}
