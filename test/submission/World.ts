/**
 * A small world for the workers: a ledger in memory, a provider that does what the test says, and the test's clock.
 */
import { assert } from "@effect/vitest"
import { Clock, Context, type DateTime, Duration, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import type { Schema } from "effect"
import { CircuitBreaker } from "effect/persistence"
import { TestClock } from "effect/testing"
import { Provider as ProviderName } from "../../src/domain/Grant.ts"
import type { Grant } from "../../src/domain/Grant.ts"
import type { OperationId } from "../../src/domain/Operation.ts"
import type { ProviderOperation, ProviderReference } from "../../src/domain/Submission.ts"
import { AcceptanceSignal } from "../../src/services/AcceptanceSignal.ts"
import { Grants } from "../../src/services/Grants.ts"
import { MemoryLedger } from "../../src/services/memory/MemoryLedger.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { StoreUnavailable } from "../../src/services/StoreUnavailable.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import { layerCircuitBreaker } from "../../src/submission/Circuit.ts"
import {
  type NotSent,
  Provider,
  StatusAnswer,
  SubmissionAnswer,
  type Uncertain
} from "../../src/submission/Provider.ts"
import { Providers } from "../../src/submission/Providers.ts"
import { Reconciler } from "../../src/submission/Reconciler.ts"
import { Rescuer } from "../../src/submission/Rescuer.ts"
import { defaultPolicy, SubmissionPolicy } from "../../src/submission/SubmissionPolicy.ts"
import { SubmissionWorker } from "../../src/submission/SubmissionWorker.ts"
import { accept, identityOf, InMemoryLedger, issue } from "../fixtures/Ledger.ts"

export const bank = ProviderName.make("bank")

/** What reached the adapter, and when by the clock. */
export interface Attempt {
  readonly id: OperationId
  readonly payload: Schema.Json
  readonly send_before: DateTime.Utc | null
  readonly at: number
}

export interface Read {
  readonly id: OperationId
  readonly reference: ProviderReference | null
  readonly at: number
}

export type Queue = SubmissionQueue["Service"]

export interface Script {
  /** What the n-th attempt at an operation comes to, counted from 1. Acknowledges unless told. */
  readonly submit?: (
    attempt: number,
    operation: ProviderOperation
  ) => Effect.Effect<SubmissionAnswer, NotSent | Uncertain>
  /** What the n-th status read comes to. Proves nothing unless told. */
  readonly read?: (read: number, operation: ProviderOperation) => Effect.Effect<StatusAnswer>
  readonly policy?: Partial<typeof defaultPolicy>
  /** Puts something between the workers and the store. */
  readonly queue?: (queue: Queue) => Partial<Queue>
  readonly clock?: (clock: Clock.Clock) => Partial<Clock.Clock>
  /** Opens as by default, unless told. */
  readonly circuit?: Layer.Layer<CircuitBreaker.CircuitBreaker>
  readonly signal?: { readonly announced: Stream.Stream<ProviderName> }
  /** Further names under which the same adapter is known. */
  readonly providers?: ReadonlyArray<ProviderName>
}

export const reference = "ref-1" as ProviderReference
export const acknowledged = SubmissionAnswer.Acknowledged({
  names: { reference, operation_id: null },
  evidence: { status: "pending" }
})
export const unclear = StatusAnswer.NotProven({ reason: "unclear", detail: "the bank mumbled" })
export const unreachable = StatusAnswer.NotProven({ reason: "unreachable", detail: "connection reset" })
export const away = Effect.fail(new StoreUnavailable({ cause: new Error("the connection was lost") }))

/** Lets everything go on that can, until the condition holds. No time passes. */
export const until = Effect.fnUntraced(function*(condition: () => boolean) {
  for (let turns = 0; !condition(); turns++) {
    assert.isBelow(turns, 10_000, "it never came to that")
    yield* Effect.yieldNow
  }
})

/** A circuit that never opens, for tests that count attempts. */
export const neverOpen = CircuitBreaker.layer({
  tripPolicy: CircuitBreaker.consecutive(1_000_000),
  openDuration: "1 second"
}).pipe(Layer.provide(CircuitBreaker.layerStoreMemory()))

type Engine = SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker

const makeAdapter = (script: Script, attempts: Array<Attempt>, reads: Array<Read>) => {
  const { read = () => Effect.succeed(unclear), submit = () => Effect.succeed(acknowledged) } = script
  const count = (entries: ReadonlyArray<{ readonly id: OperationId }>, id: OperationId) =>
    entries.filter((entry) => entry.id === id).length
  return Provider.of({
    submit: (operation, payload) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        const { id, send_before } = operation
        attempts.push({ id, payload, send_before, at })
        return submit(count(attempts, id), operation)
      }),
    readStatus: (operation, reference) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        reads.push({ id: operation.id, reference, at })
        return read(count(reads, operation.id), operation)
      })
  })
}

/** Everything that a test needs, for as long as its scope is open. Nothing runs by itself until it is started. */
export const makeWorld = Effect.fnUntraced(function*(script: Script = {}) {
  const attempts: Array<Attempt> = []
  const reads: Array<Read> = []
  const clock = yield* Clock.Clock
  const services = yield* Layer.build(InMemoryLedger)
  const queue = Context.get(services, SubmissionQueue)
  const adapter = makeAdapter(script, attempts, reads)
  const policy = { ...defaultPolicy, ...script.policy }
  const context = services.pipe(
    Context.add(SubmissionQueue, { ...queue, ...script.queue?.(queue) }),
    Context.add(Providers, new Map([bank, ...script.providers ?? []].map((name) => [name, adapter]))),
    Context.merge(yield* Layer.build(script.circuit ?? layerCircuitBreaker)),
    Context.add(SubmissionPolicy, policy),
    Context.add(AcceptanceSignal, { announce: () => Effect.void, announced: Stream.never, ...script.signal }),
    Context.add(Clock.Clock, Object.assign(Object.create(clock) as Clock.Clock, script.clock?.(clock)))
  )
  const inside = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provideContext(effect, context)
  const manual = yield* inside(
    Layer.build(Layer.mergeAll(SubmissionWorker.layerManual, Rescuer.layerManual, Reconciler.layerManual))
  )
  const memory = Context.get(services, MemoryLedger)
  const ledger = Context.get(services, OperationLedger)
  const { grant } = yield* Effect.provideContext(
    issue({ provider: bank, expires_in: Duration.days(36_000) }),
    services
  )

  /** Accepts so many operations. */
  const acceptMany = Effect.fnUntraced(function*(count: number, owner: Grant = grant) {
    const accepted = yield* Effect.forEach(Array.from({ length: count }), () => accept(identityOf(owner)))
    return accepted.map(({ operation }) => operation.id)
  }, Effect.provideContext(services))

  return {
    attempts,
    reads,
    grant,
    memory,
    ledger,
    queue,
    policy,
    grants: Context.get(services, Grants),
    worker: Context.get(manual, SubmissionWorker),
    rescuer: Context.get(manual, Rescuer),
    reconciler: Context.get(manual, Reconciler),
    acceptMany,
    acceptOne: Effect.map(acceptMany(1), ([id]) => id!),
    /** A grant of another owner. */
    issue: (request: Parameters<typeof issue>[0]) =>
      Effect.provideContext(issue({ expires_in: Duration.days(36_000), ...request }), services),
    /** Runs in the context that the workers have. */
    inside,
    work: inside(Context.get(manual, SubmissionWorker).runOnce(bank, 100)),
    rescue: inside(Context.get(manual, Rescuer).runOnce),
    reconcile: inside(Context.get(manual, Reconciler).runOnce(bank, 100)),
    show: (id: OperationId) => Effect.orDie(ledger.show(id)),
    stateOf: (id: OperationId) => Effect.map(Effect.orDie(ledger.show(id)), ({ state }) => state),
    historyOf: (id: OperationId) =>
      Effect.map(Effect.orDie(ledger.history(id)), (history) => history.map(({ to }) => to)),
    evidenceOf: (id: OperationId) =>
      Effect.map(Effect.orDie(ledger.history(id)), (history) => history.at(-1)!.evidence),
    recordOf: (id: OperationId) => memory.operations.get(id)!,
    /** Starts something that goes on by itself, and yields how to stop it. */
    start: Effect.fnUntraced(function*<E>(layer: Layer.Layer<never, E, Engine>) {
      const scope = yield* Scope.make()
      // What still runs at the end of a test is given the time to stop.
      yield* Effect.addFinalizer(() =>
        Effect.flatMap(
          Effect.forkChild(Scope.close(scope, Exit.void)),
          (closing) => Effect.andThen(TestClock.adjust("1 hour"), Fiber.join(closing))
        )
      )
      yield* inside(Layer.buildWithScope(layer, scope))
      return Scope.close(scope, Exit.void)
    })
  }
})

export type World = Effect.Success<ReturnType<typeof makeWorld>>

/** Lets the workers go on for so long, and whatever they started end. */
export const workFor = Effect.fnUntraced(function*(world: World, duration: Duration.Input) {
  const fiber = yield* Effect.forkChild(world.work)
  yield* TestClock.adjust(duration)
  return yield* Fiber.join(fiber)
})
