/** Watches the ledger for the waiting requests of a process: its changes, and the standing of their grants. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { FeedMetrics } from "../../metrics/HttpMetrics.ts"
import type { OperationFeed } from "../../services/OperationFeed.ts"
import { OperationStore } from "../../services/OperationStore.ts"
import { inTime, makeChangeFollower, persist } from "./ChangeFollower.ts"
import { type Waiter, Waiters } from "./Waiters.ts"

/** How long a transaction may stay unfinished without a log line, in milliseconds. */
const patience = 60_000

/**
 * Makes the report. It takes the oldest unfinished transaction of each page (`LedgerChanges.unfinished`), and logs one that
 * stays the oldest for a minute, once.
 */
export const makeLongTransactions = () => {
  let oldest: number | null = null
  let since = 0
  let isReported = false
  return (unfinished: number | null): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (unfinished !== oldest) {
        oldest = unfinished
        since = now
        isReported = false
      }
      if (oldest === null || isReported || now - since < patience) return Effect.void
      isReported = true
      return Effect.logWarning(
        "A transaction of the database server has been open for more than a minute. The change feed steps over it, and its own "
          + "changes arrive when it ends. Find it by the oldest xact_start in pg_stat_activity, or in pg_prepared_xacts"
      )
    })
}

/** How often the watcher reads the changes. A waiter learns of a change within this time and the time of a statement. */
const changesInterval = Duration.millis(50)

/** How often the watcher asks which grants are refused, so that a revocation ends a wait within a second. */
const grantsInterval = Duration.millis(500)

/** Wakes waiting requests when there may be something new for them. */
export class ChangeWatcher extends Context.Service<ChangeWatcher, {
  /**
   * Runs the effect, and calls `wake` meanwhile: after changes of the topic, and when the grant is refused. It calls `wake` for
   * every change that commits after the effect has started. So an effect that reads first, and then waits, misses none.
   */
  readonly during: <A, E, R>(waiter: Waiter, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Whether a request waits, so that the watcher runs. */
  readonly isWatching: () => boolean
  /** The number of waiters. */
  readonly count: () => number
}>()("financial-agents-gateway/server/waits/ChangeWatcher") {
  static readonly layer: Layer.Layer<ChangeWatcher, never, OperationFeed | OperationStore> = Layer.effect(
    ChangeWatcher,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function*() {
  const store = yield* OperationStore
  const waiters = new Waiters()
  const count = () => waiters.size
  const metrics = yield* FeedMetrics
  metrics?.add(count)
  yield* Effect.addFinalizer(() => Effect.sync(() => metrics?.remove(count)))
  const reportUnfinished = makeLongTransactions()

  const watchGrants = persist(
    "Grants of waiting requests cannot be checked; the watcher tries again",
    Effect.fnUntraced(function*(onSuccess) {
      yield* Effect.sleep(grantsInterval)
      waiters.wakeGrants(yield* inTime(store.refused(waiters.grants())))
      onSuccess()
    })
  )

  const follower = yield* makeChangeFollower({
    interval: changesInterval,
    failureMessage: "Changes cannot be read for waiting requests; the watcher tries again",
    onPage: ({ changes, unfinished }) => {
      if (metrics !== null) {
        metrics.ok.value++
        metrics.changes.value += changes.length
      }
      waiters.wakeFor(changes)
      return reportUnfinished(unfinished)
    },
    onFailure: () => {
      if (metrics !== null) metrics.failed.value++
    },
    onResume: () => waiters.wakeAll(),
    beside: watchGrants
  })

  return ChangeWatcher.of({
    during: (waiter, effect) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          waiters.add(waiter)
          return follower.enter()
        }),
        (hasTried) => Effect.andThen(hasTried.await, effect),
        () =>
          Effect.sync(() => {
            waiters.remove(waiter)
            follower.leave()
          })
      ),
    isWatching: follower.isRunning,
    count
  })
})
