/** A provider with its true record, the network to it, and an adapter that behaves like `HttpProvider`. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { OperationId } from "../../../src/domain/Operation.ts"
import { type ProviderOperation, ProviderReference } from "../../../src/domain/Submission.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"
import {
  FenceAnswer,
  NotSent,
  type ProviderAdapter,
  SendDeadline,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "../../../src/submission/providers/ProviderAdapter.ts"
import type { Judge, Truth } from "./Judge.ts"
import type { MachineClock } from "./MachineClock.ts"
import { noNetworkFaults, readFaults, type Traits } from "./ProviderTraits.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { World } from "./World.ts"

interface Mutation {
  readonly outcome: "succeeded" | "failed" | "pending"
  readonly isRejection: boolean
  /** True time. */
  readonly settlesAt: number
  readonly visibleAt: number
  readonly reference: ProviderReference
}

interface Attempt {
  readonly id: OperationId
  readonly process: SimulatedProcess
  stage: "connecting" | "in flight" | "over"
}

const outcomes = ["succeeded", "succeeded", "succeeded", "failed", "pending"] as const

/** An operation that no ledger has. */
const unknownOperation = OperationId.make("019aa4f0-5c00-7b1e-8d2f-000000000000")

const notTaken: Truth = { outcome: null, isSettled: false }

export class SimulatedProvider {
  faults = noNetworkFaults
  readonly traits: Traits
  readonly clock: MachineClock
  /** Attempts that may still send, including those of stopped processes, and requests that have not arrived. */
  readonly #attempts: Array<Attempt> = []
  readonly #world: World
  readonly #judge: Judge
  readonly #find: (id: OperationId) => MemoryRecord | undefined
  readonly #mutations = new Map<OperationId, Mutation>()
  /** The orders of fences, which have the keys of their operations and have paid nothing. */
  readonly #fences = new Map<OperationId, { isCancelled: boolean }>()
  /** Requests of fences that are under way. */
  readonly #fencing = new Map<OperationId, number>()

  constructor(
    world: World,
    judge: Judge,
    clock: MachineClock,
    traits: Traits,
    find: (id: OperationId) => MemoryRecord | undefined
  ) {
    this.#world = world
    this.#judge = judge
    this.clock = clock
    this.traits = traits
    this.#find = find
  }

  truthOf(id: OperationId): Truth {
    const mutation = this.#mutations.get(id)
    return mutation === undefined
      ? notTaken
      : { outcome: mutation.outcome, isSettled: mutation.settlesAt <= this.#world.now }
  }

  /** Requests under way: sent, and not yet received. */
  get isReceiving(): boolean {
    return this.#attempts.some(({ stage }) => stage === "in flight")
  }

  /** Whether a process may still send the operation, or a request for it is under way. */
  mayStillReceive(id: OperationId): boolean {
    return this.#attempts.some((attempt) =>
      attempt.id === id &&
      (attempt.stage === "in flight" || (attempt.stage === "connecting" && !attempt.process.isGone))
    )
  }

  /** A person asks whether the provider can still carry out the operation: it has no order that may pay, and no request is under way. */
  mayStillPay(id: OperationId): boolean {
    const isFencing = this.#fences.get(id)?.isCancelled === false || (this.#fencing.get(id) ?? 0) > 0
    return this.#mutations.has(id) || isFencing || this.mayStillReceive(id)
  }

  /** Whether a status read without faults can show the result of the operation. */
  isFindable(id: OperationId): boolean {
    return (this.#mutations.get(id)?.visibleAt ?? Infinity) < Infinity
  }

  /** The adapter of a process. */
  adapterOf(process: SimulatedProcess): ProviderAdapter["Service"] {
    const { limit, window } = this.traits
    return {
      ...limit === undefined ? {} : { limit },
      promises: {
        keys: "for_ever",
        readByOperationId: "yes",
        ...window === null ? {} : { lateRequests: "refused", notFoundIsFinalAfter: window }
      },
      failures: { declined: { message: "Declined." } },
      submit: (operation) => this.#submit(process, operation),
      ...this.traits.fences ? { fence: (operation) => Effect.succeed(this.#fence(process, operation)) } : {},
      readStatus: (operation) => this.#readStatus(process, operation)
    }
  }

  #submit(process: SimulatedProcess, operation: ProviderOperation) {
    return Effect.flatMap(SendDeadline, (deadline) => this.#attempt(process, operation, deadline!))
  }

  /** `deadline` is by the clock of the process. */
  #attempt(process: SimulatedProcess, { id, send_before }: ProviderOperation, deadline: number) {
    return Effect.callback<SubmissionAnswer, NotSent | Uncertain>((resume) => {
      const { chance, trace } = this.#world
      const { faults } = this
      let isWaiting = true
      const attempt: Attempt = { id, process, stage: "connecting" }
      this.#judge.attempted(id, this.#find(id), (instant) => process.stoppedAt >= instant)
      this.#judge.compareClocks(id, process.clock.currentTimeMillisUnsafe())
      this.#attempts.push(attempt)
      const later = (delay: number, run: () => void) =>
        this.#world.after(delay, () => isWaiting ? run() : undefined, process)
      const notSent = (reason: "refused" | "late" | "local failure") => {
        attempt.stage = "over"
        trace.note(`not sent: ${reason}`, process.name, this.#judge.name(id))
        const isLocal = reason !== "refused"
        if (!isLocal) this.#judge.notSent(id, "provider_unreachable")
        resume(Effect.fail(new NotSent({ reason, ...isLocal ? { isLocal } : {} })))
      }
      const isLate = () => process.clock.currentTimeMillisUnsafe() >= deadline
      const connect = () => {
        if (chance.happens(faults.refused)) return notSent("refused")
        if (isLate()) return notSent("late")
        // No clock is checked after this point: a process that stops here sends late.
        later(chance.below(3), depart)
      }
      const depart = () => {
        const stoppedAt = process.stoppedAt
        this.#judge.departed(id, (instant) => stoppedAt >= instant)
        trace.note("gate", process.name, this.#judge.name(id))
        this.#transmit(attempt, send_before!, (answer) => {
          this.#world.after(
            chance.happens(faults.lateAnswer) ? chance.between(100, 5000) : chance.below(20),
            () => isWaiting ? resume(answer) : undefined,
            process
          )
        })
      }
      if (isLate()) return notSent("late")
      if (chance.happens(faults.localFailure)) return notSent("local failure")
      later(chance.happens(faults.slowConnection) ? chance.between(100, 2500) : chance.below(5), connect)
      if (chance.happens(faults.adapterDefect)) {
        trace.note("adapter defect", process.name, this.#judge.name(id))
        later(chance.below(30), () => {
          if (attempt.stage === "connecting") attempt.stage = "over"
          isWaiting = false
          resume(Effect.die(new TypeError("a defect of the adapter")))
        })
      }
      return Effect.sync(() => {
        isWaiting = false
        if (attempt.stage === "connecting") attempt.stage = "over"
      })
    })
  }

  /** Bytes that left: neither the end of their sender nor a time-out stops them. */
  #transmit(
    attempt: Attempt,
    sendBefore: DateTime.Utc,
    answer: (answer: Effect.Effect<SubmissionAnswer, NotSent | Uncertain>) => void
  ): void {
    const { chance, trace } = this.#world
    const { faults } = this
    const { id } = attempt
    const name = this.#judge.name(id)
    attempt.stage = "over"
    if (chance.happens(faults.lostRequest)) {
      trace.note("network: request lost", name)
      if (chance.happens(0.5)) answer(uncertain("the connection was reset"))
      return
    }
    const isDelayed = chance.happens(faults.lateRequest)
    if (isDelayed) trace.note("network: request late", name)
    attempt.stage = "in flight"
    this.#world.after(isDelayed ? chance.between(200, 12_000) : chance.below(20), () => {
      attempt.stage = "over"
      this.#judge.arrived(this.traits)
      const said = chance.happens(faults.turnedAway) ? this.#turnAway(id) : this.#receive(id, sendBefore)
      if (chance.happens(faults.lostAnswer)) return trace.note("network: answer lost", name)
      if (chance.happens(faults.garbledAnswer)) {
        trace.note("network: answer garbled", name)
        return answer(uncertain("status 502"))
      }
      const other = chance.happens(faults.foreignAnswer) ? this.#pickOther(id) : null
      const mutation = other === null ? undefined : this.#mutations.get(other)
      if (other === null || mutation === undefined) return answer(said)
      trace.note("network: answer for another operation", name)
      answer(Effect.succeed(this.#say(other, mutation)))
    })
  }

  /** The provider does nothing, and says so: it is busy, or it does not accept the key of the worker. */
  #turnAway(id: OperationId): Effect.Effect<SubmissionAnswer, NotSent | Uncertain> {
    const isLocal = this.#world.chance.happens(0.5)
    this.#world.trace.note(isLocal ? "provider refuses the key" : "provider is busy", this.#judge.name(id))
    if (!isLocal) this.#judge.notSent(id, "provider_unavailable")
    const asksToWait = this.traits.limit !== undefined && !isLocal
    return Effect.fail(
      new NotSent({
        reason: "turned away",
        isRefused: true,
        ...isLocal ? { isLocal } : {},
        ...asksToWait ? { retryAfter: Duration.millis(this.#world.chance.between(50, 3000)) } : {}
      })
    )
  }

  #receive(id: OperationId, sendBefore: DateTime.Utc): Effect.Effect<SubmissionAnswer, NotSent | Uncertain> {
    const { trace } = this.#world
    const { traits } = this
    if (traits.refusesLate && this.clock.currentTimeMillisUnsafe() > DateTime.toEpochMillis(sendBefore)) {
      trace.note("provider refuses as late", this.#judge.name(id))
      this.#judge.notSent(id, "provider_unavailable")
      return Effect.fail(new NotSent({ reason: "refused as late", isRefused: true }))
    }
    if (this.#fences.has(id)) {
      trace.note("provider refuses: a fence has the key", this.#judge.name(id))
      return uncertain("duplicate key")
    }
    this.#judge.received(id, this.#find(id))
    const known = this.#mutations.get(id)
    const mutation = known ?? this.#decide(id)
    const { isRejection, outcome } = mutation
    trace.note(`provider takes on: ${isRejection ? "rejected" : outcome}`, this.#judge.name(id))
    return known === undefined ? Effect.succeed(this.#say(id, mutation)) : uncertain("duplicate key")
  }

  /** The answer to a submission. */
  #say(id: OperationId, { isRejection, outcome, reference, settlesAt }: Mutation): SubmissionAnswer {
    const names = { reference, operation_id: id }
    if (isRejection) {
      return SubmissionAnswer.Rejected({ code: "declined", names, evidence: { said: "no" } })
    }
    return outcome === "succeeded" && settlesAt <= this.#world.now && this.#world.chance.happens(0.8)
      ? SubmissionAnswer.Succeeded({ names, evidence: { said: "yes" } })
      : SubmissionAnswer.Acknowledged({ names, evidence: { said: "later" } })
  }

  /** Another operation, which the provider has or does not have. */
  #pickOther(id: OperationId): OperationId {
    const others = [...this.#mutations.keys()].filter((other) => other !== id)
    return this.#world.chance.pick([...others, unknownOperation])
  }

  #decide(id: OperationId): Mutation {
    const { chance, now } = this.#world
    const { consistency, forgetful } = this.traits
    const isRejection = chance.happens(0.12)
    const outcome = isRejection ? "failed" : chance.pick(outcomes)
    const isAtOnce = isRejection || (outcome === "succeeded" && chance.happens(0.4))
    const mutation: Mutation = {
      outcome,
      isRejection,
      settlesAt: outcome === "pending" ? Infinity : now + (isAtOnce ? 0 : chance.between(50, 6000)),
      visibleAt: chance.happens(forgetful) ? Infinity : now + chance.skewed(0, consistency / 2),
      reference: ProviderReference.make(`ref-${this.#mutations.size + 1}`)
    }
    this.#mutations.set(id, mutation)
    return mutation
  }

  /** Occupies the key, and then cancels that order. */
  #fence(process: SimulatedProcess, { id }: ProviderOperation): Effect.Effect<FenceAnswer> {
    const name = this.#judge.name(id)
    const occupied = FenceAnswer.Occupied({
      names: { reference: ProviderReference.make(`fence-${id}`), operation_id: id },
      evidence: { said: "cancelled" }
    })
    const occupy = this.#step(process, id, () => {
      const first = this.#mutations.get(id)
      if (first !== undefined) return FenceAnswer.Known({ reference: first.reference, operation_id: id })
      const order = this.#fences.get(id)
      if (order !== undefined) return order.isCancelled ? occupied : null
      this.#fences.set(id, { isCancelled: false })
      this.#world.trace.note("fence: occupies the key", name)
      this.#world.after(this.#world.chance.between(50, 20_000), () => this.#approve(id))
      return null
    })
    const cancel = this.#step(process, id, () => {
      const order = this.#fences.get(id)
      if (order === undefined) return null
      order.isCancelled = true
      this.#world.trace.note("fence: cancelled", name)
      return occupied
    })
    return Effect.suspend(() => {
      this.#judge.attempted(id, this.#find(id), (instant) => process.stoppedAt >= instant)
      return Effect.flatMap(occupy, (answer) => answer === null ? cancel : Effect.succeed(answer))
    }).pipe(Effect.map((answer) => answer ?? FenceAnswer.NotProven({ reason: "unclear", detail: "not cancelled" })))
  }

  /** A person at the provider approves an order of a fence that is not cancelled yet: it pays, as the operation would. */
  #approve(id: OperationId): void {
    if (this.#fences.get(id)?.isCancelled !== false) return
    this.#fences.delete(id)
    this.#judge.received(id, this.#find(id))
    this.#world.trace.note("fence: approved by a person", this.#judge.name(id))
    this.#mutations.set(id, { ...this.#decide(id), isRejection: false })
  }

  /** A request of a fence, and its answer. */
  #step(
    process: SimulatedProcess,
    id: OperationId,
    take: () => FenceAnswer | null
  ): Effect.Effect<FenceAnswer | null> {
    const name = this.#judge.name(id)
    const count = (more: number) => this.#fencing.set(id, (this.#fencing.get(id) ?? 0) + more)
    return Effect.callback((resume) => {
      const { chance, trace } = this.#world
      const { faults } = this
      let isWaiting = true
      const answer = (said: FenceAnswer | null) =>
        this.#world.after(chance.below(20), () => isWaiting ? resume(Effect.succeed(said)) : undefined, process)
      if (chance.happens(faults.lostRequest)) trace.note("fence: request lost", name)
      else {
        count(1)
        this.#world.after(chance.happens(faults.lateRequest) ? chance.between(200, 12_000) : chance.below(20), () => {
          count(-1)
          this.#judge.arrived(this.traits)
          const said = take()
          if (chance.happens(faults.lostAnswer)) return trace.note("fence: answer lost", name)
          answer(
            chance.happens(faults.garbledAnswer)
              ? FenceAnswer.NotProven({ reason: "unreachable", detail: "status 502" })
              : said
          )
        })
      }
      return Effect.sync(() => {
        isWaiting = false
      })
    })
  }

  #readStatus(process: SimulatedProcess, operation: ProviderOperation) {
    return Effect.callback<StatusAnswer>((resume) => {
      const { chance, trace } = this.#world
      const { faults } = this
      const name = this.#judge.name(operation.id)
      let isWaiting = true
      const answer = (said: Effect.Effect<StatusAnswer>) => {
        const delay = chance.happens(faults.lateAnswer) ? chance.between(100, 3000) : chance.below(20)
        this.#world.after(delay, () => isWaiting ? resume(said) : undefined, process)
      }
      const fault = this.#drawReadFault()
      if (fault !== null) trace.note(`status read: ${fault}`, process.name, name)
      if (fault === "unreachableRead") answer(notProven("unreachable"))
      else if (fault === "unclearRead") answer(notProven("unclear"))
      else if (fault === "adapterDefect") answer(Effect.die(new TypeError("a defect of the adapter")))
      else if (fault !== "hangingRead") {
        this.#world.after(chance.below(20), () => {
          this.#judge.arrived(this.traits)
          const staleness = fault === "staleRead" ? chance.below(this.traits.consistency / 2) : 0
          const about = fault === "foreignRead" ? { ...operation, id: this.#pickOther(operation.id) } : operation
          const said = this.#status(about, this.#world.now - staleness)
          trace.note(`status read: ${said._tag === "NotProven" ? said.reason : stateOf(said)}`, process.name, name)
          answer(Effect.succeed(said))
        })
      }
      return Effect.sync(() => {
        isWaiting = false
      })
    })
  }

  #drawReadFault() {
    const { chance } = this.#world
    const { faults } = this
    return readFaults.find((fault) => chance.happens(faults[fault])) ?? null
  }

  /** The status of an operation on a replica that shows the state of that instant. */
  #status({ id }: ProviderOperation, instant: number): StatusAnswer {
    const mutation = this.#mutations.get(id)
    const fence = this.#fences.get(id)
    if (fence !== undefined) {
      const names = { reference: ProviderReference.make(`fence-${id}`), operation_id: id }
      return fence.isCancelled
        ? StatusAnswer.Proven({ state: "failed", code: "declined", names, evidence: { said: "cancelled" } })
        : StatusAnswer.Proven({ state: "submitted", names, evidence: { said: "pending approval" } })
    }
    if (mutation === undefined || instant < mutation.visibleAt) {
      return StatusAnswer.NotFound({
        names: { reference: null, operation_id: id },
        evidence: { said: "not found" }
      })
    }
    const { outcome, reference, settlesAt } = mutation
    const names = { reference, operation_id: id }
    if (outcome === "pending" || instant < settlesAt) {
      return StatusAnswer.Proven({ state: "submitted", names, evidence: { said: "pending" } })
    }
    return outcome === "succeeded"
      ? StatusAnswer.Proven({ state: "succeeded", names, evidence: { said: "done" } })
      : StatusAnswer.Proven({
        state: "failed",
        code: "declined",
        names,
        evidence: { said: "no" }
      })
  }
}

const stateOf = (answer: Exclude<StatusAnswer, { readonly _tag: "NotProven" }>) =>
  answer._tag === "Proven" ? answer.state : "not found"

const uncertain = (reason: string) => Effect.fail(new Uncertain({ reason }))

const notProven = (reason: "unreachable" | "unclear") =>
  Effect.succeed(StatusAnswer.NotProven({ reason, detail: "a fault of the network" }))
