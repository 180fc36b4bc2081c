/**
 * Which requests the gateway lets in, and how it stops: it turns new ones away and lets those inside finish.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"

/** How many requests may be inside, and for how long. */
export interface LifecycleOptions {
  /** Requests for operations that may be inside at once; more are turned away at once rather than queued. */
  readonly maxInFlight: number
  /** How many of them may be one client's, so that none can keep the others out. */
  readonly maxInFlightPerClient: number
  /** Filtered lists of one client that may run at once. Further ones wait for their turn within their deadline. */
  readonly maxListsPerClient: number
  /** Milliseconds within which such a request is answered, be it with a 503. */
  readonly deadline: number
  /** Milliseconds for which a shutdown waits for the requests inside. */
  readonly drainTimeout: number
}

const defaults: LifecycleOptions = {
  maxInFlight: 1024,
  maxInFlightPerClient: 256,
  maxListsPerClient: 4,
  deadline: 1800,
  drainTimeout: 10_000
}

/** Counts the requests inside. Applications that mount the routes run `drain` when they stop. */
export class Lifecycle extends Context.Service<Lifecycle, {
  readonly options: LifecycleOptions
  /** True from the moment at which the shutdown began. */
  readonly isDraining: () => boolean
  /** Runs the effect as a request inside, or `orElse` while there is no room or no future. */
  readonly admit: <A, E, R, E2, R2>(
    effect: Effect.Effect<A, E, R>,
    orElse: Effect.Effect<A, E2, R2>
  ) => Effect.Effect<A, E | E2, R | R2>
  /** Runs the effect as a request of a client, or `orElse` while the client has no room. */
  readonly admitClient: <A, E, R, E2, R2>(
    client: string,
    effect: Effect.Effect<A, E, R>,
    orElse: Effect.Effect<A, E2, R2>
  ) => Effect.Effect<A, E | E2, R | R2>
  /**
   * Runs the effect as a filtered list of a client: each of its lists may be far more work than a read by id. It waits
   * while the client runs `maxListsPerClient` of them, and other clients do not wait for it.
   */
  readonly admitList: <A, E, R>(client: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Lets nobody in any more, and waits for those inside: until the last is out, or the drain timeout has passed. */
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
      /** Of clients that have lists inside. */
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
