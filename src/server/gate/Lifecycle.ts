/**
 * Limits of running requests, of waiting ones and of those whose body arrives, and the shutdown: the gateway refuses new requests,
 * lets running ones finish, and ends the waits.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { makeKeyedSemaphore } from "./KeyedSemaphore.ts"
import { RunningRequest, RunningRequests } from "./RunningRequests.ts"

/** How many requests may run at once, and for how long. */
export interface LifecycleOptions {
  /** Requests for operations that may run at once. Further requests are refused immediately, not queued. */
  readonly maxInFlight: number
  /** The same for one client, so that no client can take all slots. */
  readonly maxInFlightPerClient: number
  /** Filtered lists and slow pages of changes of one client that may run at once. Further ones wait for a permit within their deadline. */
  readonly maxListsPerClient: number
  /** Requests that may wait for a change at once (`Prefer: wait`). Further ones are answered without waiting. */
  readonly maxWaiting: number
  /** The same for one client. */
  readonly maxWaitingPerClient: number
  /** Bodies of one client that may arrive at once. A request has no slot while its body arrives. */
  readonly maxBodiesPerClient: number
  /** Bytes that the gateway keeps of all bodies that have not arrived in full. Those without a grant get half of them at most. */
  readonly maxBodyBytes: number
  /** Milliseconds within which a body arrives in full. The answer is a 408 after that. */
  readonly bodyTimeout: number
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
  maxBodiesPerClient: 32,
  maxBodyBytes: 33_554_432,
  bodyTimeout: 5000,
  deadline: 1800,
  drainTimeout: 10_000
}

export type { RunningRequest }

/** A body that has not arrived in full. */
export interface ArrivingBody {
  /** Counts bytes that arrived. False if the bodies of all clients have more than `maxBodyBytes`, or those without a grant their half. */
  readonly add: (bytes: number) => boolean
  readonly close: () => void
}

/** The annotation of an interruption because of the deadline. */
class DeadlinePassed extends Context.Service<DeadlinePassed, true>()(
  "financial-agents-gateway/server/gate/Lifecycle/DeadlinePassed"
) {}

const deadlinePassed = Context.make(DeadlinePassed, true)

/** Whether the deadline of the request interrupted it. @internal */
export const isOverdue = (cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterruptsOnly(cause) && cause.reasons.some((reason) => reason.annotations.has(DeadlinePassed.key))

/** Clients without requests that a count keeps. Adding and deleting an entry costs more than all else here. */
const maxIdleClients = 1000

/** How many requests each client has. It keeps an entry for each client with requests, and none for a request. */
class ClientCounts {
  readonly #counts = new Map<string, number>()

  of(client: string): number {
    return this.#counts.get(client) ?? 0
  }

  add(client: string): void {
    this.#counts.set(client, this.of(client) + 1)
  }

  remove(client: string): void {
    const others = this.of(client) - 1
    if (others === 0 && this.#counts.size > maxIdleClients) this.#counts.delete(client)
    else this.#counts.set(client, others)
  }
}

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
  /**
   * Takes a place for a body that arrives, of the client. A body without a grant, whose client is null, counts by its address. Null if
   * `maxBodiesPerClient` of these bodies arrive. Call `close` of the body at its end.
   */
  readonly openBody: (client: string | null, address: string) => ArrivingBody | null
  /** Frees the slots of a running request, which has no deadline from now on. Call `proceed` before it does any work. */
  readonly pause: (request: RunningRequest) => void
  /** Gives a paused request its slots and a new deadline, also during the shutdown. Or returns whose requests leave none free. */
  readonly proceed: (request: RunningRequest) => "saturated" | "client_saturated" | null
  /** Frees the slots of the request, whether it runs, is parked or is paused. */
  readonly leave: (request: RunningRequest) => void
  /**
   * Runs the effect as a filtered list, a read of limits, or a slow page of changes, of a client. It waits while the client runs
   * `maxListsPerClient` of them, because one may be far more work than a read by id. Other clients do not wait.
   */
  readonly admitList: <A, E, R>(client: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Refuses new requests from now on, and ends the waits. Waits until the last request ends. After the drain timeout, interrupts
   * the others.
   */
  readonly drain: Effect.Effect<void>
}>()("financial-agents-gateway/server/gate/Lifecycle") {
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
  const bodiesOf = new ClientCounts()
  let bodyBytes = 0
  /** Those of bodies without a grant. */
  let anonymousBytes = 0
  let inFlight = 0
  let waiting = 0
  /** Requests that hold a slot, are parked, or are paused. */
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

  /** Frees the slots of the request, and ends its deadline. */
  const setAside = (request: RunningRequest) => {
    freeSlots(request)
    request.isParked = true
    parked.take(request)
  }

  /** Gives the request slots and a new deadline. */
  const goOn = (request: RunningRequest) => {
    takeSlots(request)
    request.isParked = false
    request.deadline = now() + options.deadline
    running.take(request)
    isBusy.openUnsafe()
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
      setAside(request)
      if (draining) request.wake()
      return true
    },
    resume: (request) => {
      if (!request.isOver) goOn(request)
    },
    openBody: (client, address) => {
      // No client has such a name.
      const sender = client ?? `\n${address}`
      if (bodiesOf.of(sender) >= options.maxBodiesPerClient) return null
      bodiesOf.add(sender)
      let arrived = 0
      const count = (bytes: number) => {
        arrived += bytes
        bodyBytes += bytes
        if (client === null) anonymousBytes += bytes
      }
      return {
        add: (bytes) => {
          count(bytes)
          return bodyBytes <= options.maxBodyBytes && (client !== null || anonymousBytes <= options.maxBodyBytes / 2)
        },
        close: () => {
          count(-arrived)
          bodiesOf.remove(sender)
        }
      }
    },
    pause: setAside,
    proceed: (request) => {
      if (inFlight >= options.maxInFlight) return "saturated"
      if (request.client !== null && inFlightOf.of(request.client) >= options.maxInFlightPerClient) {
        return "client_saturated"
      }
      goOn(request)
      return null
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
    admitList: makeKeyedSemaphore(options.maxListsPerClient),
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
