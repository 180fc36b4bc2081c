/**
 * Limits of running and of waiting requests, and the shutdown: the gateway refuses new requests, lets running ones finish, and
 * ends the waits.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { ClientCounts } from "./ClientCounts.ts"
import { RunningRequest, RunningRequests } from "./RunningRequests.ts"
import { makeTurns } from "./Turns.ts"

/** How many requests may run at once, and for how long. */
export interface LifecycleOptions {
  /** Requests for operations that may run at once. Further requests are refused immediately, not queued. */
  readonly maxInFlight: number
  /** The same for one client, so that no client can take all slots. */
  readonly maxInFlightPerClient: number
  /** Filtered lists and slow pages of changes of one client that may run at once. Further ones wait for their turn within their deadline. */
  readonly maxListsPerClient: number
  /** Requests that may wait for a change at once (`Prefer: wait`). Further ones are answered without waiting. */
  readonly maxWaiting: number
  /** The same for one client. */
  readonly maxWaitingPerClient: number
  /** Milliseconds within which such a request is answered, apart from its wait. The answer is a 503 if the store is too slow. */
  readonly deadline: number
  /** Milliseconds for which a shutdown waits for running requests. */
  readonly drainTimeout: number
}

const defaults: LifecycleOptions = {
  maxInFlight: 1024,
  maxInFlightPerClient: 256,
  maxListsPerClient: 4,
  maxWaiting: 4096,
  maxWaitingPerClient: 1024,
  deadline: 1800,
  drainTimeout: 10_000
}

export type { RunningRequest }

/** The annotation of an interruption because of the deadline. */
class DeadlinePassed extends Context.Service<DeadlinePassed, true>()(
  "financial-agents-gateway/server/Lifecycle/DeadlinePassed"
) {}

const deadlinePassed = Context.make(DeadlinePassed, true)

/** Whether the deadline of the request interrupted it. */
export const isOverdue = (cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterruptsOnly(cause) && cause.reasons.some((reason) => reason.annotations.has(DeadlinePassed.key))

/** Counts the running requests. Applications that mount the routes run `drain` when they stop. */
export class Lifecycle extends Context.Service<Lifecycle, {
  readonly options: LifecycleOptions
  /** True from the start of the shutdown. */
  readonly isDraining: () => boolean
  /**
   * Takes a slot for a request, which then runs in the fiber. At the deadline the fiber is interrupted, with a cause for which
   * `isOverdue` is true. Null if `maxInFlight` requests run or the shutdown has begun. Call `leave` when the request ends.
   */
  readonly admit: (fiber: Fiber.Fiber<unknown, unknown>) => RunningRequest | null
  /** Takes a slot of the client for the request as well. False if `maxInFlightPerClient` of its requests run. */
  readonly admitClient: (request: RunningRequest, client: string) => boolean
  /**
   * Frees the slots of a running request, which waits from now on without a deadline. False, and the request keeps them, if
   * `maxWaiting` requests wait or `maxWaitingPerClient` of its client. A request counts as waiting until it ends, so it can wait
   * again between its reads. The shutdown calls `wake`; `park` itself calls it if the shutdown has begun. False also after `leave`.
   */
  readonly park: (request: RunningRequest, wake: () => void) => boolean
  /**
   * Gives a parked request its slots and a new deadline. It gets them also if none is free: its client was admitted already, and
   * must not lose the answer. So the caller limits how many requests resume at once.
   */
  readonly resume: (request: RunningRequest) => void
  /** Frees the slots of the request, whether it runs or is parked. */
  readonly leave: (request: RunningRequest) => void
  /**
   * Runs the effect as a filtered list, or a slow page of changes, of a client. It waits while the client runs
   * `maxListsPerClient` of them, because one may be far more work than a read by id. Other clients do not wait.
   */
  readonly admitList: <A, E, R>(client: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Refuses new requests from now on, and ends the waits. Waits until the last request ends. After the drain timeout, interrupts
   * the others.
   */
  readonly drain: Effect.Effect<void>
}>()("financial-agents-gateway/server/Lifecycle") {
  static readonly layer = (options: Partial<LifecycleOptions> = {}): Layer.Layer<Lifecycle> =>
    Layer.effect(Lifecycle, make({ ...defaults, ...options }))
}

const make = Effect.fnUntraced(function*(options: LifecycleOptions) {
  const clock = yield* Clock.Clock
  /** Milliseconds. A step of the wall clock would keep the oldest request, and with it all others, from its deadline. */
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const running = new RunningRequests()
  const parked = new RunningRequests()
  const isBusy = Latch.makeUnsafe(false)
  const isIdle = Latch.makeUnsafe(false)
  const inFlightOf = new ClientCounts()
  const waitingOf = new ClientCounts()
  let inFlight = 0
  let waiting = 0
  /** Requests that hold a slot, or are parked. */
  let present = 0
  let draining = false

  const interrupt = (request: RunningRequest, annotations?: Context.Context<never>) => {
    const { fiber } = request
    running.remove(request)
    fiber?.interruptUnsafe(undefined, annotations)
  }

  /** All requests have the same time, so the oldest is the first whose time is up. */
  const interruptOverdue = Effect.gen(function*() {
    while (true) {
      const { oldest } = running
      if (oldest === null) {
        isBusy.closeUnsafe()
        yield* isBusy.await
        continue
      }
      const left = oldest.deadline - now()
      if (left > 0) yield* Effect.sleep(left)
      else interrupt(oldest, deadlinePassed)
    }
  })
  yield* Effect.forkScoped(interruptOverdue)

  const takeSlots = ({ client }: RunningRequest) => {
    inFlight++
    if (client !== null) inFlightOf.add(client)
  }

  const freeSlots = ({ client }: RunningRequest) => {
    inFlight--
    if (client !== null) inFlightOf.remove(client)
  }

  /** Counts the request as waiting. False if too many wait. */
  const startWaiting = ({ client }: RunningRequest) => {
    if (waiting >= options.maxWaiting) return false
    if (client !== null) {
      if (waitingOf.of(client) >= options.maxWaitingPerClient) return false
      waitingOf.add(client)
    }
    waiting++
    return true
  }

  const stopWaiting = ({ client }: RunningRequest) => {
    waiting--
    if (client !== null) waitingOf.remove(client)
  }

  return Lifecycle.of({
    options,
    isDraining: () => draining,
    admit: (fiber) => {
      if (draining || inFlight >= options.maxInFlight) return null
      const request = new RunningRequest(fiber, now() + options.deadline)
      takeSlots(request)
      present++
      running.add(request)
      isBusy.openUnsafe()
      return request
    },
    admitClient: (request, client) => {
      if (inFlightOf.of(client) >= options.maxInFlightPerClient) return false
      inFlightOf.add(client)
      request.client = client
      return true
    },
    park: (request, wake) => {
      if (request.isOver || (request.wake === null && !startWaiting(request))) return false
      // A request may wait several times, each time for a latch of its own.
      request.wake = wake
      freeSlots(request)
      request.isParked = true
      parked.take(request)
      if (draining) request.wake()
      return true
    },
    resume: (request) => {
      if (request.isOver) return
      takeSlots(request)
      request.isParked = false
      request.deadline = now() + options.deadline
      running.take(request)
      isBusy.openUnsafe()
    },
    leave: (request) => {
      request.isOver = true
      running.remove(request)
      if (!request.isParked) freeSlots(request)
      if (request.wake !== null) stopWaiting(request)
      request.wake = null
      present--
      if (draining && present === 0) isIdle.openUnsafe()
    },
    admitList: makeTurns(options.maxListsPerClient),
    drain: Effect.suspend(() => {
      draining = true
      for (const request of parked.all()) request.wake?.()
      if (present === 0) return Effect.void
      return Effect.timeoutOrElse(isIdle.await, {
        duration: options.drainTimeout,
        orElse: () =>
          Effect.sync(() => {
            for (const request of [...running.all(), ...parked.all()]) interrupt(request)
          })
      })
    })
  })
})
