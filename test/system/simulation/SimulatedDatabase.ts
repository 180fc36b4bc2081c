/**
 * The database and the network to it. The in-memory services run each statement in one instant; faults change when that
 * is, and whether the answer arrives.
 *
 * A failover may leave the old server behind: it goes on for a while, with the processes that are connected to it. Not modelled:
 * replication between the two, transactions that overlap within a server, and revocations that one of them lacks.
 */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type { Verifications } from "../../../src/cluster/witness/Verifications.ts"
import type { OutcomeRecord } from "../../../src/domain/Submission.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { makeMemoryVerifications } from "../../fixtures/cluster/MemoryWitness.ts"
import { type Queue as QueueStatements, queueIn } from "../../fixtures/ledger/QueueServices.ts"
import { each, type Faults } from "./Chance.ts"
import { Journal, JournaledMap } from "./Journal.ts"
import type { Judge } from "./Judge.ts"
import type { MachineClock } from "./MachineClock.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { World } from "./World.ts"

export const databaseFaults = [
  /** The connection breaks before it takes effect. */
  "lostStatement",
  /** The connection breaks after it took effect. */
  "lostAnswer",
  /** It never takes effect, and no answer arrives. */
  "hang",
  /** It takes effect, and no answer arrives. */
  "silence",
  /** It takes effect seconds later. */
  "late"
] as const

/** Probabilities of faults of a statement. */
export type DatabaseFaults = Faults<typeof databaseFaults[number]>

export const noDatabaseFaults: DatabaseFaults = each(databaseFaults, () => 0)

/** The statements of a worker process: those of its queue, and those of its witness. */
export type Queue = QueueStatements & Verifications

const platform = (world: World) =>
  Layer.mergeAll(
    NodeCrypto.layerDigest,
    Layer.sync(
      SecureRandom.SecureRandom,
      () => SecureRandom.make((size) => Uint8Array.from({ length: size }, () => world.chance.below(256)))
    )
  )

export class SimulatedDatabase {
  faults = noDatabaseFaults
  /** The process whose statement takes effect now. */
  client: SimulatedProcess | null = null
  readonly clock: MachineClock
  readonly memory: MemoryLedger["Service"]
  /** The services without a network, for parts that are not processes of the simulation. */
  readonly queue: Queue
  readonly ledger: OperationLedger["Service"]
  readonly #world: World
  readonly #journal: Journal
  readonly #judge: Judge
  readonly #context: Context.Context<never>
  readonly #home = new JournaledMap<"epoch" | "life" | "due", string>()
  readonly #batches = new JournaledMap<string, number>()
  #isDown = false
  #incarnation = 0

  /** `replaced`: the server of which this one is a copy, and which goes on without clients but some processes. */
  constructor(world: World, clock: MachineClock, judge: Judge, replaced?: SimulatedDatabase) {
    this.#world = world
    this.#judge = judge
    this.clock = clock
    this.#journal = new Journal(
      () => world.now,
      (before, after) => {
        if (replaced === undefined) judge.committed(before, after)
        else judge.committedElsewhere(before, after)
        judge.checkLimits(after, this.#journal)
      }
    )
    this.#context = Context.make(Clock.Clock, clock).pipe(Context.add(References.TracerEnabled, false))
    const memory = Layer.effect(
      MemoryLedger,
      Effect.map(MemoryLedger, (ledger) =>
        MemoryLedger.of({
          ...ledger,
          // The owners' side is not part of what a failover loses, and the same for all servers.
          ...replaced === undefined ? {} : {
            clients: replaced.memory.clients,
            connections: replaced.memory.connections,
            grants: replaced.memory.grants,
            showGrant: replaced.memory.showGrant
          },
          operations: this.#journal,
          home: this.#home,
          batches: this.#batches
        }))
    ).pipe(Layer.provide(MemoryLedger.layer))
    const services = Layer.mergeAll(SubmissionQueue.layerMemory, OperationLedger.layerMemory).pipe(
      Layer.provideMerge(Layer.merge(memory, platform(world)))
    )
    const built = Exit.getSuccess(this.now(Effect.scoped(Effect.flatMap(
      Layer.build(services),
      (context) =>
        Effect.map(Effect.provide(makeMemoryVerifications, context), (verifications) => ({ context, verifications }))
    ))))
    if (built._tag === "None") throw new Error("the database does not start")
    const { context, verifications } = built.value
    this.memory = Context.get(context, MemoryLedger)
    this.queue = { ...queueIn(context), ...verifications }
    this.ledger = Context.get(context, OperationLedger)
    this.#home.noteIn(this.#journal)
    this.#batches.noteIn(this.#journal)
    if (replaced !== undefined) this.#copy(replaced)
  }

  #copy({ memory }: SimulatedDatabase): void {
    for (const id of this.#journal.keys()) if (!memory.operations.has(id)) this.#journal.delete(id)
    for (const [id, record] of memory.operations) this.#journal.copy(id, record)
    this.#home.clear()
    for (const [key, value] of memory.home) this.#home.set(key, value)
    this.#batches.clear()
    for (const [key, value] of memory.batches) this.#batches.set(key, value)
    Object.assign(this.memory.cluster, memory.cluster)
    this.#journal.settle()
  }

  /** A copy that goes on as it was, with the processes that are connected to it, while this server fails over. */
  leaveBehind(): SimulatedDatabase {
    return new SimulatedDatabase(this.#world, this.clock, this.#judge, this)
  }

  /** The server that was replaced is the primary again, without what happened since. */
  giveWayTo(replaced: SimulatedDatabase, downFor: number): void {
    this.#world.trace.note("the replaced server is back", "db")
    this.#copy(replaced)
    this.#stop(downFor)
  }

  /** It stops for ever. */
  end(): void {
    this.#isDown = true
  }

  get operations(): Journal {
    return this.#journal
  }

  /** Runs a statement in the current instant. */
  now<A, E>(statement: Effect.Effect<A, E>): Exit.Exit<A, E> {
    const exit = Effect.runForkWith(this.#context)(statement).pollUnsafe()
    if (exit === undefined) throw new Error("a statement of the model did not end in one instant")
    return exit
  }

  /** The queue of a process, over the network. */
  queueOf(process: SimulatedProcess, plant: (queue: Queue) => Queue = (queue) => queue): Queue {
    const queues = new Map<SimulatedDatabase, Queue>()
    const queueOn = (server: SimulatedDatabase): Queue => {
      const queue = queues.get(server) ?? plant(server.queue)
      queues.set(server, queue)
      return queue
    }
    const send = <A, E>(name: string, statement: (queue: Queue, server: SimulatedDatabase) => Effect.Effect<A, E>) =>
      this.#send(process, name, (server) => statement(queueOn(server), server))
    type Statement = Effect.Effect<unknown, StoreUnavailable>
    // Each member is a statement, or a function that makes one.
    const remote = (name: keyof Queue) => {
      const local = (queue: Queue) => queue[name] as Statement | ((...args: ReadonlyArray<never>) => Statement)
      const call = (...args: ReadonlyArray<never>) =>
        send(name, (queue) => {
          const member = local(queue)
          return typeof member === "function" ? member(...args) : member
        })
      return typeof this.queue[name] === "function" ? call : call()
    }
    const names = Object.keys(this.queue) as ReadonlyArray<keyof Queue>
    return {
      ...Object.fromEntries(names.map((name) => [name, remote(name)])) as unknown as Queue,
      // Nothing here reads the change feed, figures or reports.
      markChanges: Effect.void,
      foldCounts: Effect.void,
      reportWorker: () => Effect.void,
      forgetWorker: () => Effect.void,
      recordAll: (records) =>
        send("recordAll", (queue, server) => Effect.tap(queue.recordAll(records), server.#judgeBatch(records))),
      verify: (request) =>
        send(
          "verify",
          (queue) =>
            Effect.tap(queue.verify(request), (verification) =>
              Effect.sync(() =>
                this.#world.trace.note(`verification: ${verification?.result ?? "too late"}`, process.name)
              ))
        )
    }
  }

  #judgeBatch(records: ReadonlyArray<OutcomeRecord>) {
    return (recorded: ReadonlyArray<boolean>) =>
      Effect.sync(() => {
        for (const [place, record] of records.entries()) {
          if (recorded[place] === true) this.#judge.acknowledged(record, this.#journal.get(record.id))
        }
      })
  }

  /** Sends a statement to the server that the process is connected to. */
  #send<A, E>(
    process: SimulatedProcess,
    name: string,
    statement: (server: SimulatedDatabase) => Effect.Effect<A, E>
  ) {
    return Effect.callback<A, E | StoreUnavailable>((resume) => {
      const { chance, trace } = this.#world
      let isWaiting = true
      const answer = (exit: Effect.Effect<A, E | StoreUnavailable>) => {
        const delay = chance.happens(0.05) ? chance.between(50, 400) : chance.below(8)
        this.#world.after(delay, () => isWaiting ? resume(exit) : undefined, process)
      }
      const fault = this.#drawFault()
      if (fault !== null) trace.note(`database: ${fault}`, process.name, name)
      const server = process.server ?? this
      const incarnation = server.#incarnation
      const execute = () => {
        if (server.#isDown || incarnation !== server.#incarnation) return answer(broken("the server went away"))
        trace.note(`statement: ${name}`, process.name)
        server.client = process
        const exit = server.now(statement(server))
        server.client = null
        if (fault !== "silence") answer(fault === "lostAnswer" ? broken("no answer") : exit)
      }
      if (fault === "lostStatement" || server.#isDown) answer(broken("no connection"))
      else if (fault !== "hang") {
        this.#world.after(fault === "late" ? chance.between(200, 7000) : chance.below(8), execute)
      }
      return Effect.sync(() => {
        isWaiting = false
      })
    })
  }

  #drawFault(): keyof DatabaseFaults | null {
    return databaseFaults.find((fault) => this.#world.chance.happens(this.faults[fault])) ?? null
  }

  /** Stops, and restarts after this time. Statements under way are lost. */
  restart(downFor: number): void {
    this.#world.trace.note("database restart", "db")
    this.#beginLife()
    this.#stop(downFor)
  }

  #stop(downFor: number): void {
    // A failover may have changed what it has.
    for (const record of this.#journal.values()) this.#judge.checkLimits(record, this.#journal)
    this.#isDown = true
    this.#incarnation++
    this.#world.after(downFor, () => {
      this.#isDown = false
    })
  }

  #beginLife(): void {
    this.memory.cluster.life = `${this.memory.cluster.timeline}-${this.#world.steps}`
  }

  /** Another server takes over, or an older state is restored: on a new timeline, without the commits since then. */
  failOver(since: number, downFor: number): void {
    const forgotten = this.#journal.forgetSince(since)
    this.#world.trace.note(forgotten > 0 ? "failover that loses commits" : "failover", "db", `${forgotten}`)
    this.memory.cluster.timeline++
    this.restart(downFor)
  }

  /** A snapshot of the disk is restored: without the commits since then, and on the same timeline. */
  putBack(since: number, downFor: number): void {
    const forgotten = this.#journal.forgetSince(since)
    this.#world.trace.note("snapshot restored", "db", `${forgotten}`)
    this.restart(downFor)
  }
}

const broken = (reason: string) => Effect.fail(new StoreUnavailable({ cause: reason }))
