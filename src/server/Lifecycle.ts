/**
 * Limits of running requests, and the shutdown: the gateway refuses new requests and lets running ones finish.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"

/** How many requests may run at once, and for how long. */
export interface LifecycleOptions {
  /** Requests for operations that may run at once. Further requests are refused immediately, not queued. */
  readonly maxInFlight: number
  /** The same for one client, so that no client can take all slots. */
  readonly maxInFlightPerClient: number
  /** Filtered lists of one client that may run at once. Further ones wait for their turn within their deadline. */
  readonly maxListsPerClient: number
  /** Milliseconds within which such a request is answered. The answer is a 503 if the store is too slow. */
  readonly deadline: number
  /** Milliseconds for which a shutdown waits for running requests. */
  readonly drainTimeout: number
}

const defaults: LifecycleOptions = {
  maxInFlight: 1024,
  maxInFlightPerClient: 256,
  maxListsPerClient: 4,
  deadline: 1800,
  drainTimeout: 10_000
}

/** Counts the running requests. Applications that mount the routes run `drain` when they stop. */
export class Lifecycle extends Context.Service<Lifecycle, {
  readonly options: LifecycleOptions
  /** True from the start of the shutdown. */
  readonly isDraining: () => boolean
  /** Runs the effect as one request, or `orElse` if `maxInFlight` requests run or the shutdown has begun. */
  readonly admit: <A, E, R, E2, R2>(
    effect: Effect.Effect<A, E, R>,
    orElse: Effect.Effect<A, E2, R2>
  ) => Effect.Effect<A, E | E2, R | R2>
  /** Runs the effect as one request of a client, or `orElse` if `maxInFlightPerClient` of its requests run. */
  readonly admitClient: <A, E, R, E2, R2>(
    client: string,
    effect: Effect.Effect<A, E, R>,
    orElse: Effect.Effect<A, E2, R2>
  ) => Effect.Effect<A, E | E2, R | R2>
  /**
   * Runs the effect as a filtered list of a client. It waits while the client runs `maxListsPerClient` lists, because a
   * list may be far more work than a read by id. Other clients do not wait.
   */
  readonly admitList: <A, E, R>(client: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Refuses new requests from now on. Waits until the last running request ends, or the drain timeout has passed. */
  readonly drain: Effect.Effect<void>
}>()("financial-agents-gateway/server/Lifecycle") {
  static readonly layer = (options: Partial<LifecycleOptions> = {}): Layer.Layer<Lifecycle> =>
    Layer.sync(Lifecycle, () => {
      const settings = { ...defaults, ...options }
      let draining = false
      let inFlight = 0
      const inFlightOf = new Map<string, number>()
      const leaveClient = (client: string) => {
        const inside = inFlightOf.get(client)! - 1
        if (inside === 0) inFlightOf.delete(client)
        else inFlightOf.set(client, inside)
      }
      /** Of clients with running or waiting lists. */
      const listsOf = new Map<string, { inside: number; readonly turns: Semaphore.Semaphore }>()
      const enterLists = (client: string) => {
        const lists = listsOf.get(client) ?? { inside: 0, turns: Semaphore.makeUnsafe(settings.maxListsPerClient) }
        listsOf.set(client, lists)
        lists.inside++
        return lists
      }
      const leaveLists = (client: string) => {
        const lists = listsOf.get(client)!
        if (--lists.inside === 0) listsOf.delete(client)
      }
      const idle = Latch.makeUnsafe(false)
      const leave = Effect.sync(() => {
        inFlight--
        if (draining && inFlight === 0) idle.openUnsafe()
      })
      return {
        options: settings,
        isDraining: () => draining,
        admit: <A, E, R, E2, R2>(effect: Effect.Effect<A, E, R>, orElse: Effect.Effect<A, E2, R2>) =>
          Effect.suspend((): Effect.Effect<A, E | E2, R | R2> => {
            if (draining || inFlight >= settings.maxInFlight) return orElse
            inFlight++
            return Effect.ensuring(effect, leave)
          }),
        admitClient: <A, E, R, E2, R2>(
          client: string,
          effect: Effect.Effect<A, E, R>,
          orElse: Effect.Effect<A, E2, R2>
        ) =>
          Effect.suspend((): Effect.Effect<A, E | E2, R | R2> => {
            const inside = inFlightOf.get(client) ?? 0
            if (inside >= settings.maxInFlightPerClient) return orElse
            inFlightOf.set(client, inside + 1)
            return Effect.ensuring(effect, Effect.sync(() => leaveClient(client)))
          }),
        admitList: <A, E, R>(client: string, effect: Effect.Effect<A, E, R>) =>
          Effect.suspend(() =>
            Effect.ensuring(
              enterLists(client).turns.withPermit(effect),
              Effect.sync(() => leaveLists(client))
            )
          ),
        drain: Effect.suspend(() => {
          draining = true
          return inFlight === 0
            ? Effect.void
            : Effect.timeoutOrElse(idle.await, { duration: settings.drainTimeout, orElse: () => Effect.void })
        })
      }
    })
}
